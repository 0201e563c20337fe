"""A small seeded dots.ocr under the published key names, and pages for it."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from fastocr_core.models.dots_ocr import prompts
from tests.support.seeded_checkpoint import write_checkpoint

TOKENS = {
    prompts.END_OF_TEXT: 256,
    prompts.IMAGE_PAD: 257,
    prompts.IMAGE: 258,
    prompts.END_OF_IMAGE: 259,
    prompts.USER: 260,
    prompts.END_OF_USER: 261,
    prompts.ASSISTANT: 262,
    prompts.END_OF_ASSISTANT: 263,
}
CONFIG: dict[str, Any] = {
    "architectures": ["DotsOCRForCausalLM"],
    "model_type": "dots_ocr",
    "vocab_size": 272,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 400,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "rope_scaling": None,
    "hidden_act": "silu",
    "use_sliding_window": False,
    "tie_word_embeddings": False,
    "image_token_id": 257,
    "torch_dtype": "float32",
    "vision_config": {
        "embed_dim": 32,
        "hidden_size": 64,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "num_channels": 3,
        "patch_size": 14,
        "post_norm": True,
        "rms_norm_eps": 1e-5,
        "spatial_merge_size": 2,
        "temporal_patch_size": 1,
        "use_bias": False,
        "is_causal": False,
    },
}
PREPROCESSOR = {
    "min_pixels": 3136,
    "max_pixels": 60 * 28 * 28,
    "patch_size": 14,
    "merge_size": 2,
    "temporal_patch_size": 1,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}


def dots_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors, as the published index lists them."""
    hidden, wide, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    narrow = hidden // heads * config["num_key_value_heads"]
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config["vocab_size"], hidden),
        "model.norm.weight": (hidden,),
        "lm_head.weight": (config["vocab_size"], hidden),
    }
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        for part, rows in (("q", hidden), ("k", narrow), ("v", narrow)):
            shapes[f"{name}self_attn.{part}_proj.weight"] = (rows, hidden)
            shapes[f"{name}self_attn.{part}_proj.bias"] = (rows,)
        shapes |= {
            f"{name}self_attn.o_proj.weight": (hidden, hidden),
            f"{name}mlp.gate_proj.weight": (wide, hidden),
            f"{name}mlp.up_proj.weight": (wide, hidden),
            f"{name}mlp.down_proj.weight": (hidden, wide),
            f"{name}input_layernorm.weight": (hidden,),
            f"{name}post_attention_layernorm.weight": (hidden,),
        }
    return shapes | _tower_shapes(config["vision_config"], hidden)


def _tower_shapes(vision: dict[str, Any], hidden: int) -> dict[str, tuple[int, ...]]:
    width, wide, patch = vision["embed_dim"], vision["intermediate_size"], vision["patch_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "patch_embed.patchifier.proj.weight": (width, 3, patch, patch),
        "patch_embed.patchifier.proj.bias": (width,),
        "patch_embed.patchifier.norm.weight": (width,),
        "post_trunk_norm.weight": (width,),
        "merger.ln_q.weight": (width,),
        "merger.ln_q.bias": (width,),
        "merger.mlp.0.weight": (4 * width, 4 * width),
        "merger.mlp.0.bias": (4 * width,),
        "merger.mlp.2.weight": (hidden, 4 * width),
        "merger.mlp.2.bias": (hidden,),
    }
    for block in range(vision["num_hidden_layers"]):
        shapes |= {
            f"blocks.{block}.norm1.weight": (width,),
            f"blocks.{block}.attn.qkv.weight": (3 * width, width),
            f"blocks.{block}.attn.proj.weight": (width, width),
            f"blocks.{block}.norm2.weight": (width,),
            f"blocks.{block}.mlp.fc1.weight": (wide, width),
            f"blocks.{block}.mlp.fc2.weight": (width, wide),
            f"blocks.{block}.mlp.fc3.weight": (wide, width),
        }
    return {f"vision_tower.{name}": shape for name, shape in shapes.items()}


def write_dots_checkpoint(
    folder: Path, config: dict[str, Any] = CONFIG, seed: int = 0
) -> dict[str, torch.Tensor]:
    """Write the folder; returns its tensors."""
    return write_checkpoint(
        folder,
        config,
        dots_shapes(config),
        seed=seed,
        tokenizer_tokens=TOKENS,
        shards=2,
        preprocessor=PREPROCESSOR,
    )


def noise_image(columns: int, rows: int, seed: int = 0) -> Image.Image:
    """An image of coarse noise that is exactly so many image tokens wide and high."""
    coarse = np.random.default_rng(seed).integers(0, 256, (rows * 4, columns * 4, 3), dtype=np.uint8)
    return Image.fromarray(coarse.repeat(7, 0).repeat(7, 1))
