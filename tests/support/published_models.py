"""Small seeded checkpoints of Qwen2.5-VL, olmOCR-2 and LLaVA-OneVision under their published key names."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from transformers import (
    LlavaOnevisionConfig,
    LlavaOnevisionForConditionalGeneration,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)

from fastocr_core.models.checkpoint import weightless
from tests.support.seeded_checkpoint import write_checkpoint

FIRST_SPECIAL = 256  # after the bytes
_SHARED = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
QWEN_TOKENS = {
    token: FIRST_SPECIAL + index
    for index, token in enumerate(
        (*_SHARED, "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
    )
}
LLAVA_TOKENS = {token: FIRST_SPECIAL + index for index, token in enumerate((*_SHARED, "<image>", "<video>"))}
QWEN_PROCESSOR = {
    "min_pixels": 3136,
    "max_pixels": 28 * 28 * 60,
    "patch_size": 14,
    "merge_size": 2,
    "temporal_patch_size": 2,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
LLAVA_TILE = 56
LLAVA_CANVASES = [
    [LLAVA_TILE * rows, LLAVA_TILE * columns] for rows in range(1, 5) for columns in range(1, 5)
]
LLAVA_PROCESSOR = {
    "size": {"height": LLAVA_TILE, "width": LLAVA_TILE},
    "image_grid_pinpoints": LLAVA_CANVASES,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "resample": 3,
}


def qwen_config(tied: bool = False) -> dict[str, Any]:
    """Flat, as published; every size small."""
    return {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "model_type": "qwen2_5_vl",
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 272,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
        "use_sliding_window": False,
        "sliding_window": 32768,
        "max_window_layers": 4,
        "tie_word_embeddings": tied,
        "hidden_act": "silu",
        "image_token_id": QWEN_TOKENS["<|image_pad|>"],
        "video_token_id": QWEN_TOKENS["<|video_pad|>"],
        "vision_start_token_id": QWEN_TOKENS["<|vision_start|>"],
        "vision_end_token_id": QWEN_TOKENS["<|vision_end|>"],
        "bos_token_id": QWEN_TOKENS["<|endoftext|>"],
        "eos_token_id": QWEN_TOKENS["<|im_end|>"],
        "torch_dtype": "float32",
        "vision_config": {
            "depth": 4,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "out_hidden_size": 64,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "window_size": 112,
            "fullatt_block_indexes": [1, 2],
            "hidden_act": "silu",
            "in_chans": 3,
        },
    }


def llava_config(tied: bool = False) -> dict[str, Any]:
    """Nested, as published; every size small."""
    return {
        "architectures": ["LlavaOnevisionForConditionalGeneration"],
        "model_type": "llava_onevision",
        "image_token_index": LLAVA_TOKENS["<image>"],
        "video_token_index": LLAVA_TOKENS["<video>"],
        "image_grid_pinpoints": LLAVA_CANVASES,
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": "full",
        "vision_aspect_ratio": "anyres_max_9",
        "tie_word_embeddings": tied,
        "torch_dtype": "float32",
        "text_config": {
            "model_type": "qwen2",
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "vocab_size": 272,
            "max_position_embeddings": 2048,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1e6,
            "eos_token_id": LLAVA_TOKENS["<|im_end|>"],
            "bos_token_id": LLAVA_TOKENS["<|endoftext|>"],
            "tie_word_embeddings": tied,
        },
        "vision_config": {
            "model_type": "siglip_vision_model",
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "image_size": LLAVA_TILE,
            "patch_size": 14,
            "vision_use_head": False,
        },
    }


def write_qwen(folder: Path, tied: bool = False, seed: int = 0) -> Path:
    """Qwen2.5-VL: the 7B stores its head, the 3B (`tied`) does not. olmOCR-2 is the same architecture."""
    with weightless():
        module = Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(**qwen_config(tied)))

    def published(key: str) -> str | None:
        if key == "lm_head.weight":
            return None if tied else key
        return key.replace("model.visual.", "visual.").replace("model.language_model.", "model.")

    config = qwen_config(tied)
    write_checkpoint(folder, config, module, published, seed, QWEN_TOKENS, 2, QWEN_PROCESSOR)
    return folder


def write_llava(folder: Path, tied: bool = False, seed: int = 0) -> Path:
    """LLaVA-OneVision: the 7B stores its head, the 0.5B (`tied`) does not."""
    with weightless():
        module = LlavaOnevisionForConditionalGeneration(LlavaOnevisionConfig(**llava_config(tied)))

    def published(key: str) -> str | None:
        if key == "lm_head.weight":
            return None if tied else "language_model.lm_head.weight"
        key = key.removeprefix("model.")
        if key.startswith("vision_tower.") and not key.startswith("vision_tower.vision_model."):
            return key.replace("vision_tower.", "vision_tower.vision_model.", 1)
        return key.replace("language_model.", "language_model.model.", 1)

    config = llava_config(tied)
    write_checkpoint(folder, config, module, published, seed, LLAVA_TOKENS, 1, LLAVA_PROCESSOR)
    return folder


def noise_page(width: int, height: int, seed: int = 0) -> Image.Image:
    """A colour page of coarse blocks, so that resizing keeps differences between cells."""
    blocks = np.random.default_rng(seed).integers(
        0, 256, (height // 7 + 1, width // 7 + 1, 3), dtype=np.uint8
    )
    return Image.fromarray(blocks).resize((width, height), Image.Resampling.NEAREST)
