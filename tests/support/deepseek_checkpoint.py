"""Small seeded checkpoints of DeepSeek-OCR and Unlimited-OCR: published tensor names and config layout,
sizes that run in seconds.

The list of names is written out by hand, on purpose not derived from the code under test.
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.support.seeded_checkpoint import seeded_tensor, write_tensors, write_tokenizer

TOKENS = {
    "<｜begin▁of▁sentence｜>": 0,
    "<｜end▁of▁sentence｜>": 1,
    "<｜▁pad▁｜>": 2,
    "<image>": 270,
    "<|ref|>": 271,
    "<|/ref|>": 272,
    "<|det|>": 273,
    "<|/det|>": 274,
    "<|grounding|>": 275,
    "<td>": 276,
    "</td>": 277,
}
_TEXT = {
    "num_hidden_layers": 3,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "intermediate_size": 96,
    "moe_intermediate_size": 24,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 3,
    "first_k_dense_replace": 1,
    "vocab_size": 288,
    "max_position_embeddings": 8192,
    "use_mla": False,
    "topk_method": "greedy",
    "n_group": 1,
    "topk_group": 1,
    "q_lora_rank": None,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
_WIDTHS = {
    "clip-l-14-224": {"layers": 2, "width": 32, "heads": 2, "image_size": 224, "patch_size": 14},
    "sam_vit_b": {
        "layers": 2,
        "width": 24,
        "heads": 2,
        "global_attn_indexes": [1],
        "downsample_channels": [16, 32],
    },
}


def small_config() -> dict[str, Any]:
    """As the published config.json of DeepSeek-OCR: the decoder's part nested and flat."""
    return {
        "architectures": ["DeepseekOCRForCausalLM"],
        "model_type": "deepseek_vl_v2",
        "torch_dtype": "bfloat16",
        "tile_tag": "2D",
        "global_view_pos": "head",
        "projector_config": {"projector_type": "linear", "input_dim": 64, "n_embed": 64},
        "vision_config": {"model_type": "vision", "width": json.loads(json.dumps(_WIDTHS))},
        "language_config": dict(_TEXT),
        **_TEXT,
    }


def small_unlimited_config(window: int = 6) -> dict[str, Any]:
    """As the published config.json of Unlimited-OCR."""
    config = small_config() | {
        "architectures": ["UnlimitedOCRForCausalLM"],
        "model_type": "unlimited-ocr",
        "sliding_window": window,
    }
    config["language_config"]["sliding_window_size"] = window
    return config


def published_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Name and shape of every published tensor for these sizes."""
    text, widths = config["language_config"], config["vision_config"]["width"]
    sam, clip = widths["sam_vit_b"], widths["clip-l-14-224"]
    hidden, half, last = text["hidden_size"], *sam["downsample_channels"]
    shapes: dict[str, tuple[int, ...]] = {
        "lm_head.weight": (text["vocab_size"], hidden),
        "model.embed_tokens.weight": (text["vocab_size"], hidden),
        "model.norm.weight": (hidden,),
        "model.image_newline": (hidden,),
        "model.view_seperator": (hidden,),
        "model.projector.layers.weight": (hidden, clip["width"] + last),
        "model.projector.layers.bias": (hidden,),
    }
    for layer in range(text["num_hidden_layers"]):
        shapes |= _decoder_layer(f"model.layers.{layer}", text, layer)
    width = sam["width"]
    shapes |= {
        "model.sam_model.pos_embed": (1, 64, 64, width),
        "model.sam_model.patch_embed.proj.weight": (width, 3, 16, 16),
        "model.sam_model.patch_embed.proj.bias": (width,),
        "model.sam_model.neck.0.weight": (256, width, 1, 1),
        "model.sam_model.neck.2.weight": (256, 256, 3, 3),
        "model.sam_model.net_2.weight": (half, 256, 3, 3),
        "model.sam_model.net_3.weight": (last, half, 3, 3),
    }
    for number in (1, 3):
        for part in ("weight", "bias"):
            shapes[f"model.sam_model.neck.{number}.{part}"] = (256,)
    for block in range(sam["layers"]):
        table = 127 if block in sam["global_attn_indexes"] else 27
        shapes |= _sam_block(f"model.sam_model.blocks.{block}", width, width // sam["heads"], table)
    shapes |= {
        "model.vision_model.embeddings.class_embedding": (clip["width"],),
        "model.vision_model.embeddings.patch_embedding.weight": (clip["width"], 3, 14, 14),
        "model.vision_model.embeddings.position_embedding.weight": (257, clip["width"]),
        "model.vision_model.pre_layrnorm.weight": (clip["width"],),
        "model.vision_model.pre_layrnorm.bias": (clip["width"],),
    }
    for layer in range(clip["layers"]):
        shapes |= _clip_layer(f"model.vision_model.transformer.layers.{layer}", clip["width"])
    return shapes


def _decoder_layer(prefix: str, text: dict[str, Any], layer: int) -> dict[str, tuple[int, ...]]:
    hidden, expert = text["hidden_size"], text["moe_intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {
        f"{prefix}.input_layernorm.weight": (hidden,),
        f"{prefix}.post_attention_layernorm.weight": (hidden,),
    }
    shapes |= {f"{prefix}.self_attn.{letter}_proj.weight": (hidden, hidden) for letter in "qkvo"}
    if layer < text["first_k_dense_replace"]:
        return shapes | _swiglu(f"{prefix}.mlp", hidden, text["intermediate_size"])
    shapes[f"{prefix}.mlp.gate.weight"] = (text["n_routed_experts"], hidden)
    for number in range(text["n_routed_experts"]):
        shapes |= _swiglu(f"{prefix}.mlp.experts.{number}", hidden, expert)
    return shapes | _swiglu(f"{prefix}.mlp.shared_experts", hidden, expert * text["n_shared_experts"])


def _swiglu(prefix: str, hidden: int, inner: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{prefix}.gate_proj.weight": (inner, hidden),
        f"{prefix}.up_proj.weight": (inner, hidden),
        f"{prefix}.down_proj.weight": (hidden, inner),
    }


def _sam_block(prefix: str, width: int, head: int, table: int) -> dict[str, tuple[int, ...]]:
    sizes = {"attn.qkv": (3 * width, width), "attn.proj": (width, width)}
    sizes |= {"mlp.lin1": (4 * width, width), "mlp.lin2": (width, 4 * width)}
    shapes: dict[str, tuple[int, ...]] = {
        f"{prefix}.attn.rel_pos_{axis}": (table, head) for axis in ("h", "w")
    }
    for name in ("norm1", "norm2"):
        shapes |= {f"{prefix}.{name}.weight": (width,), f"{prefix}.{name}.bias": (width,)}
    for name, size in sizes.items():
        shapes |= {f"{prefix}.{name}.weight": size, f"{prefix}.{name}.bias": size[:1]}
    return shapes


def _clip_layer(prefix: str, width: int) -> dict[str, tuple[int, ...]]:
    sizes = {"self_attn.qkv_proj": (3 * width, width), "self_attn.out_proj": (width, width)}
    sizes |= {"mlp.fc1": (4 * width, width), "mlp.fc2": (width, 4 * width)}
    shapes: dict[str, tuple[int, ...]] = {}
    for name in ("layer_norm1", "layer_norm2"):
        shapes |= {f"{prefix}.{name}.weight": (width,), f"{prefix}.{name}.bias": (width,)}
    for name, size in sizes.items():
        shapes |= {f"{prefix}.{name}.weight": size, f"{prefix}.{name}.bias": size[:1]}
    return shapes


def seeded_tensors(config: dict[str, Any], seed: int = 0) -> dict[str, Tensor]:
    """Values: as for every small checkpoint, but positions and markers strong enough to matter."""
    generator = torch.Generator().manual_seed(seed)
    strong = (
        "pos_embed",
        "image_newline",
        "view_seperator",
        "class_embedding",
        "position_embedding",
        "rel_pos",
    )
    tensors = {}
    for key, shape in published_shapes(config).items():
        if any(name in key for name in strong):
            tensors[key] = 0.5 * torch.randn(shape, generator=generator)
        else:
            tensors[key] = seeded_tensor(key, shape, generator)
    return tensors


def write_small(
    folder: Path,
    config: dict[str, Any] | None = None,
    seed: int = 0,
    tensors: dict[str, Tensor] | None = None,
) -> dict[str, Tensor]:
    """A checkpoint folder; returns what was written."""
    config = config or small_config()
    tensors = seeded_tensors(config, seed) if tensors is None else tensors
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    write_tensors(folder, tensors)
    write_tokenizer(folder, TOKENS)
    return tensors
