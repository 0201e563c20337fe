"""Opens a dots.ocr checkpoint: every key, shape and setting that adapter and tower rely on is checked.

What differs from the published model is refused with its name, never read wrongly. Unverified against real
weights.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen2Config

from fastocr_core.models.checkpoint import Checkpoint, fill, open_checkpoint, require_config, weightless
from fastocr_core.models.dots_ocr import prompts
from fastocr_core.models.dots_ocr.adapter import DotsOcrAdapter, DotsOcrModel
from fastocr_core.models.dots_ocr.tower import TowerShape
from fastocr_core.models.image_statistics import (
    CLIP_DEVIATION,
    CLIP_MEAN,
    ImageStatistics,
    image_statistics,
)
from fastocr_core.models.text_decoder import stop_ids
from fastocr_core.models.tokenizer import Tokenizer
from fastocr_core.models.weight_type import refuse_quantised, stored_type
from fastocr_core.vision.dots_view import CELL_PIXELS, vision_dots

TOWER_PREFIX = "vision_tower."
# What the tower and the decoder take for granted; None: not set.
EXPECTED_CONFIG: Mapping[str, object] = {
    "hidden_act": "silu",
    "rope_scaling": None,
    "use_sliding_window": False,
    "vision_config.num_channels": 3,
    "vision_config.patch_size": 14,
    "vision_config.spatial_merge_size": 2,
    "vision_config.temporal_patch_size": 1,
    "vision_config.use_bias": False,
    "vision_config.is_causal": False,
    "vision_config.post_norm": True,
}
# As published; a checkpoint may leave these out.
_TEXT_DEFAULTS: dict[str, Any] = {
    "hidden_act": "silu",
    "use_sliding_window": False,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 131_072,
    "tie_word_embeddings": False,
}
_VISION_DEFAULTS: dict[str, Any] = {
    "num_channels": 3,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 1,
    "use_bias": False,
    "is_causal": False,
    "post_norm": True,
    "rms_norm_eps": 1e-5,
}
_ROTARY_BASE = 1e6


def load_dots_ocr(folder: Path, dtype: torch.dtype | None = None, mode: str = "auto") -> DotsOcrAdapter:
    """Load a checkpoint folder, for pages of that mode. `dtype` None keeps the stored type.

    FileNotFoundError or ValueError, in one sentence, for whatever is missing or does not fit.
    """
    checkpoint = open_checkpoint(folder)
    refuse_quantised(checkpoint)
    config = {**_TEXT_DEFAULTS, **checkpoint.config}
    vision_config = config.get("vision_config")
    if not isinstance(vision_config, dict):
        raise ValueError(f"config.json in {folder} has no vision_config, so it is no dots.ocr")
    config["vision_config"] = {**_VISION_DEFAULTS, **vision_config}
    require_config(config, EXPECTED_CONFIG, "dots.ocr")
    vision = vision_dots(mode, folder)
    if (vision.cell_width, vision.cell_height) != (CELL_PIXELS, CELL_PIXELS):
        raise ValueError(f"the image processor in {folder} has cells of {vision.cell_width} pixels, not 28")
    tokenizer = Tokenizer(folder)
    text_config = _text_config(config)
    _check_tokens(tokenizer, text_config.vocab_size, config, folder)
    with weightless():
        model = DotsOcrModel(text_config, _tower_shape(config))
    _fill(model, checkpoint, text_config, dtype or stored_type(checkpoint))
    statistics = image_statistics(folder, ImageStatistics(CLIP_MEAN, CLIP_DEVIATION))
    stops = stop_ids(folder, checkpoint.config, tokenizer, (prompts.END_OF_ASSISTANT, prompts.END_OF_TEXT))
    return DotsOcrAdapter(model, checkpoint.revision, tokenizer, vision, statistics, stops)


def _text_config(config: Mapping[str, Any]) -> Qwen2Config:
    names = (
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
    )
    absent = [name for name in names if not isinstance(config.get(name), int)]
    if absent:
        raise ValueError(f"config.json of a dots.ocr must give {', '.join(absent)}")
    kept = ("hidden_act", "rms_norm_eps", "max_position_embeddings", "tie_word_embeddings")
    return Qwen2Config(
        **{name: config[name] for name in (*names, *kept)},
        rope_parameters={"rope_type": "default", "rope_theta": _rotary_base(config)},
        use_sliding_window=False,
        # Ids for a generate() that is never called here; the published ones may lie outside a small vocabulary.
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )


def _rotary_base(config: Mapping[str, Any]) -> float:
    """From where older and newer transformers write it. ValueError for any stretching of positions."""
    parameters = config.get("rope_parameters")
    found = parameters if isinstance(parameters, dict) else {}
    if found.get("rope_type", "default") != "default":
        raise ValueError(f"this is no dots.ocr that can be read here: rope_type is {found['rope_type']!r}")
    return float(found.get("rope_theta") or config.get("rope_theta") or _ROTARY_BASE)


def _tower_shape(config: Mapping[str, Any]) -> TowerShape:
    vision = config["vision_config"]
    names = ("num_hidden_layers", "num_attention_heads", "embed_dim", "intermediate_size")
    absent = [name for name in names if not isinstance(vision.get(name), int)]
    if absent:
        raise ValueError(f"vision_config of a dots.ocr must give {', '.join(absent)}")
    layers, heads, width, feed_forward = (int(vision[name]) for name in names)
    if width % (4 * heads):
        raise ValueError(f"a width of {width} in {heads} heads leaves no room for two rotary axes")
    if vision.get("hidden_size", config["hidden_size"]) != config["hidden_size"]:
        raise ValueError(
            f"the tower gives vectors of {vision['hidden_size']}, the decoder takes {config['hidden_size']}"
        )
    return TowerShape(
        layers=layers,
        heads=heads,
        width=width,
        feed_forward=feed_forward,
        hidden=int(config["hidden_size"]),
        patch=int(vision["patch_size"]),
        channels=int(vision["num_channels"]),
        eps=float(vision["rms_norm_eps"]),
    )


def _fill(model: DotsOcrModel, checkpoint: Checkpoint, config: Qwen2Config, dtype: torch.dtype) -> None:
    tied = (
        {"causal.lm_head.weight": "causal.model.embed_tokens.weight"} if config.tie_word_embeddings else None
    )
    fill(
        model,
        checkpoint,
        lambda key: key if key.startswith(TOWER_PREFIX) else f"causal.{key}",
        dtype=dtype,
        tied=tied,
    )
    if tied:  # one parameter, or moving the model to a GPU would make two of it
        model.causal.lm_head.weight = model.causal.model.embed_tokens.weight


def _check_tokens(tokenizer: Tokenizer, vocabulary: int, config: Mapping[str, Any], folder: Path) -> None:
    """ValueError where vocabulary, config and what the model was published with do not belong together."""
    if tokenizer.vocabulary > vocabulary:
        raise ValueError(
            f"the vocabulary in {folder} has {tokenizer.vocabulary} tokens, the model {vocabulary}"
        )
    image_pad = tokenizer.id_of(prompts.IMAGE_PAD)
    if config.get("image_token_id", image_pad) != image_pad:
        raise ValueError(
            f"config.json in {folder} has image token {config['image_token_id']}, the vocabulary {image_pad}"
        )
    if vocabulary == prompts.PUBLISHED_VOCABULARY:
        for token, number in prompts.PUBLISHED_IDS.items():
            if tokenizer.id_of(token) != number:
                raise ValueError(
                    f"token {token} is {tokenizer.id_of(token)} in {folder}, published as {number}"
                )
