"""From the config.json of DeepSeek-OCR or Unlimited-OCR to the configuration of transformers' network.

Both describe the same network in other words; transformers' own defaults belong to Unlimited-OCR and would
silently give DeepSeek-OCR a sliding window. Everything is therefore set here, and what differs is refused.
"""

from collections.abc import Mapping
from typing import Any

from transformers import UnlimitedOcrConfig, UnlimitedOcrTextConfig

from fastocr_core.models.checkpoint import require_config

# What the network is built for, whatever a checkpoint leaves out. Absent keys have these values upstream too,
# but for use_mla, which every checkpoint states.
_UPSTREAM_DEFAULTS: Mapping[str, object] = {
    "topk_method": "greedy",
    "norm_topk_prob": False,
    "scoring_func": "softmax",
    "rope_scaling": None,
    "routed_scaling_factor": 1.0,
    "moe_layer_freq": 1,
    "n_group": 1,
    "topk_group": 1,
    "hidden_act": "silu",
    "attention_bias": False,
    "tie_word_embeddings": False,
}
_REQUIRED = {**_UPSTREAM_DEFAULTS, "use_mla": False}
_COPIED = (
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
    "moe_intermediate_size",
    "n_routed_experts",
    "n_shared_experts",
    "num_experts_per_tok",
    "first_k_dense_replace",
    "vocab_size",
    "max_position_embeddings",
)
_WINDOW = 128
_IMAGE_TOKEN = 128815


def deepseek_config(config: Mapping[str, Any], image_token: int = _IMAGE_TOKEN) -> UnlimitedOcrConfig:
    """DeepSeek-OCR: full attention in every layer. ValueError naming every difference that matters."""
    text = _text_config(config, "DeepSeek-OCR")
    if _window(config) is not None:
        raise ValueError("this is no DeepSeek-OCR: its config has a sliding window, as Unlimited-OCR does")
    layers = int(text["num_hidden_layers"])
    text |= {"layer_types": ["full_attention"] * layers, "sliding_window": _WINDOW}  # the window is unused
    return UnlimitedOcrConfig(
        text_config=text, vision_config=_vision_config(config), image_token_id=image_token
    )


def unlimited_config(config: Mapping[str, Any], image_token: int = _IMAGE_TOKEN) -> UnlimitedOcrConfig:
    """Unlimited-OCR: in every layer an output sees image, prompt and the last outputs."""
    text = _text_config(config, "Unlimited-OCR")
    text["sliding_window"] = _window(config) or _WINDOW
    text["layer_types"] = ["reference_sliding_attention"] * int(text["num_hidden_layers"])
    return UnlimitedOcrConfig(
        text_config=text, vision_config=_vision_config(config), image_token_id=image_token
    )


def _text_config(config: Mapping[str, Any], model: str) -> dict[str, Any]:
    """The decoder's part under the names of transformers."""
    stated = stated_text(config)
    require_config({**_UPSTREAM_DEFAULTS, **stated}, _REQUIRED, model)
    require_config(config, _projector_and_tiles(config), model)
    missing = [name for name in _COPIED if not isinstance(stated.get(name), int)]
    if missing:
        raise ValueError(f"this is no {model} that can be read here: its config lacks {', '.join(missing)}")
    rope = stated.get("rope_parameters") or {}
    if rope.get("rope_type", "default") != "default":
        raise ValueError(f"this is no {model} that can be read here: rope_type is {rope['rope_type']!r}")
    theta = stated.get("rope_theta") or rope.get("rope_theta") or 10_000.0
    return {name: stated[name] for name in _COPIED} | {
        "rms_norm_eps": stated.get("rms_norm_eps", 1e-6),
        "rope_parameters": {"rope_type": "default", "rope_theta": float(theta)},
        "bos_token_id": stated.get("bos_token_id", 0),
        "eos_token_id": stated.get("eos_token_id", 1),
        "pad_token_id": None,
    }


def stated_text(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a config says about the decoder: its own part first, then what stands beside it.

    A config that transformers wrote itself leaves out whatever has the default of its own network.
    """
    if "language_config" not in config and isinstance(config.get("text_config"), Mapping):
        text: dict[str, Any] = UnlimitedOcrTextConfig(**config["text_config"]).to_dict()
        kinds = text["mlp_layer_types"]
        dense = kinds.count("dense")
        if kinds != ["dense"] * dense + ["sparse"] * (len(kinds) - dense):
            raise ValueError("the config mixes layers with and without experts in an order not known here")
        return text | {"first_k_dense_replace": dense, "use_mla": config["text_config"].get("use_mla", False)}
    return {**config, **(config.get("language_config") or {})}


def _projector_and_tiles(config: Mapping[str, Any]) -> dict[str, object]:
    """Where the config says how views are joined, it must be the way built here."""
    expected: dict[str, object] = {}
    if "projector_config" in config:
        expected["projector_config.projector_type"] = "linear"
    if "tile_tag" in config:
        expected["tile_tag"] = "2D"
    return expected


def _window(config: Mapping[str, Any]) -> int | None:
    """The stated sliding window. ValueError where two are stated."""
    nested = config.get("language_config") or config.get("text_config") or {}
    names = ("sliding_window", "sliding_window_size")
    stated = {part[name] for part in (config, nested) for name in names if part.get(name) is not None}
    if len(stated) > 1 or not all(isinstance(value, int) and value > 0 for value in stated):
        raise ValueError(f"the config states the sliding window as {sorted(map(str, stated))}")
    return int(stated.pop()) if stated else None


def _vision_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes of the two encoders; what the config leaves out has the published size."""
    vision = config.get("vision_config") or {}
    if "sam_config" in vision or "encoder_config" in vision:  # as transformers itself saves it
        return {name: vision[name] for name in ("sam_config", "encoder_config") if vision.get(name)}
    widths = vision.get("width") or {}
    if not isinstance(widths, Mapping):
        raise ValueError(f"vision_config.width is {widths!r} and does not describe two encoders")
    sam, clip = widths.get("sam_vit_b") or {}, widths.get("clip-l-14-224") or {}
    sam_width, clip_width = sam.get("width", 768), clip.get("width", 1024)
    return {
        "sam_config": {
            "hidden_size": sam_width,
            "num_hidden_layers": sam.get("layers", 12),
            "num_attention_heads": sam.get("heads", 12),
            "global_attn_indexes": list(sam.get("global_attn_indexes", (2, 5, 8, 11))),
            "downsample_channels": list(sam.get("downsample_channels", (512, 1024))),
            "mlp_dim": 4 * sam_width,
        },
        "encoder_config": {
            "hidden_size": clip_width,
            "num_hidden_layers": clip.get("layers", 24),
            "num_attention_heads": clip.get("heads", 16),
            "intermediate_size": 4 * clip_width,
            "image_size": clip.get("image_size", 224),
            "patch_size": clip.get("patch_size", 14),
        },
    }
