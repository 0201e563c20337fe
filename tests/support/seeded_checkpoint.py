"""Small seeded checkpoints under the original key names, with a small tokenizer: how adapters are tested
without anyone's real weights.

The tokenizer is byte-level: printable ASCII decodes to itself, special tokens have the ids asked for.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tokenizers
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from torch import Tensor, nn

Shapes = Mapping[str, tuple[int, ...]]
_ATTENTION_GAIN, _GAIN = 2.0, 1.2


def write_checkpoint(
    folder: Path,
    config: Mapping[str, Any],
    module_or_shapes: nn.Module | Shapes,
    rename_back: Callable[[str], str | None] = lambda key: key,
    seed: int = 0,
    tokenizer_tokens: Mapping[str, int] | None = None,
    shards: int = 1,
    preprocessor: Mapping[str, Any] | None = None,
) -> dict[str, Tensor]:
    """Write config.json, safetensors (with an index when `shards` > 1) and tokenizer.json; returns the tensors.

    `module_or_shapes`: a module (may be on the meta device) or shapes by name; `rename_back` takes its keys to
    the keys to store, None for one that is not stored.
    """
    shapes: Shapes = (
        {key: tuple(value.shape) for key, value in module_or_shapes.state_dict().items()}
        if isinstance(module_or_shapes, nn.Module)
        else module_or_shapes
    )
    generator = torch.Generator().manual_seed(seed)
    tensors: dict[str, Tensor] = {}
    for key, shape in shapes.items():
        name = rename_back(key)
        if name is not None:
            tensors[name] = seeded_tensor(name, shape, generator)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    if preprocessor is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor), "utf-8")
    write_tensors(folder, tensors, shards)
    if tokenizer_tokens is not None:
        write_tokenizer(folder, tokenizer_tokens)
    return tensors


def seeded_tensor(name: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Norms near one, biases small, sharp queries and keys, so that greedy output wanders instead of cycling."""
    noise = torch.randn(shape, generator=generator)
    if len(shape) < 2:
        return 1 + 0.1 * noise if "norm" in name.lower() and name.endswith("weight") else 0.1 * noise
    if "embed_tokens" in name:
        return noise
    inputs = noise[0].numel()
    attention = any(part in name for part in ("q_proj", "k_proj", "qkv"))
    return noise * (_ATTENTION_GAIN if attention else _GAIN) / inputs**0.5


def write_tensors(folder: Path, tensors: Mapping[str, Tensor], shards: int = 1) -> None:
    """Store tensors in one file, or dealt out over several with their index."""
    if shards == 1:
        save_file(dict(tensors), folder / "model.safetensors")
        return
    places: dict[str, str] = {}
    for number in range(shards):
        name = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        chosen = {key: tensors[key] for key in list(tensors)[number::shards]}
        save_file(chosen, folder / name)
        places |= dict.fromkeys(chosen, name)
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")


def write_tokenizer(folder: Path, special: Mapping[str, int]) -> None:
    """A byte-level tokenizer.json with the special tokens at their ids; ids up to the highest are all taken."""
    taken = {number: token for token, number in special.items()}
    alphabet = iter(sorted(pre_tokenizers.ByteLevel.alphabet()))
    vocabulary: dict[str, int] = {}
    number = 0
    letter = next(alphabet, None)
    while letter is not None or number <= max(taken, default=-1):
        if number in taken:
            vocabulary[taken[number]] = number
        elif letter is not None:
            vocabulary[letter] = number
            letter = next(alphabet, None)
        else:
            vocabulary[f"<unused{number}>"] = number
        number += 1
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    tokenizer.save(str(folder / "tokenizer.json"))
