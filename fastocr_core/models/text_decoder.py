"""What adapters read off a published text decoder: its shape, and where its output ends."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastocr_core.models.base import DecoderShape
from fastocr_core.models.checkpoint import read_json
from fastocr_core.models.tokenizer import Tokenizer

GENERATION_FILE = "generation_config.json"


def decoder_shape(text_config: Any) -> DecoderShape:
    """Shape of a transformers text model. ValueError if some of its layers see a sliding window only."""
    kinds = set(getattr(text_config, "layer_types", None) or ("full_attention",))
    if kinds != {"full_attention"}:
        raise ValueError(
            f"the decoder has layers of other kinds than full attention: {', '.join(sorted(kinds))}"
        )
    heads = int(text_config.num_attention_heads)
    return DecoderShape(
        layers=int(text_config.num_hidden_layers),
        query_heads=heads,
        kv_heads=int(text_config.num_key_value_heads),
        head_dim=int(getattr(text_config, "head_dim", None) or text_config.hidden_size // heads),
        hidden=int(text_config.hidden_size),
        vocabulary=int(text_config.vocab_size),
    )


def stop_ids(
    folder: Path, config: Mapping[str, Any], tokenizer: Tokenizer, markers: tuple[str, ...]
) -> frozenset[int]:
    """Tokens that end an output: those of generation_config.json, else of config.json, and the `markers` that
    the vocabulary knows. ValueError if there are none.
    """
    found: set[int] = set()
    text_config = config.get("text_config")
    sources = [read_json(folder / GENERATION_FILE)] if (folder / GENERATION_FILE).is_file() else []
    sources += [dict(config)] + ([text_config] if isinstance(text_config, dict) else [])
    for source in sources:
        named = source.get("eos_token_id")
        if named is not None:
            found.update(named if isinstance(named, list) else [named])
            break
    for marker in markers:
        try:
            found.add(tokenizer.id_of(marker))
        except ValueError:  # an older vocabulary without this marker
            continue
    if not found:
        raise ValueError(f"nothing in {folder} says which token ends an output")
    return frozenset(map(int, found))
