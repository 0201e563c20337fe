"""What a model needs to see of a page, on the CPU side: sizes, views and geometry. numpy and Pillow only.

The families are imported on first use. What the models are called is in `families.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from PIL.Image import Image

from fastocr_core.vision.families import family_of_folder, family_of_name, folder_of, hub_id_of, model_names
from fastocr_core.vision.modes import to_grey_or_rgb
from fastocr_core.vision.prepared import ModelVision, PreparedPage

__all__ = ["ModelVision", "PreparedPage", "count_image_tokens", "model_vision", "prepare"]


@dataclass(frozen=True, slots=True)
class _Family:
    """A module of this folder and its three functions. `reads_folder`: `vision` takes (mode, folder), so that
    a checkpoint's own settings hold.
    """

    module: str
    vision: str
    prepare: str
    count: str
    reads_folder: bool = False


_FAMILIES = {
    "mini": _Family("fastocr_core.vision.mini_view", "vision_mini", "prepare_mini", "count_tokens_mini"),
    "tiny": _Family("fastocr_core.vision.tiny_view", "vision_tiny", "prepare_tiny", "count_tokens_tiny"),
    "deepseek-ocr": _Family(
        "fastocr_core.vision.deepseek_view", "vision_deepseek", "prepare_deepseek", "count_tokens_deepseek"
    ),
    "unlimited-ocr": _Family(
        "fastocr_core.vision.deepseek_view", "vision_unlimited", "prepare_deepseek", "count_tokens_deepseek"
    ),
    "qwen2_5_vl": _Family(
        "fastocr_core.vision.qwen_view", "vision_qwen", "prepare_qwen", "count_tokens_qwen", True
    ),
    "olmocr": _Family(
        "fastocr_core.vision.qwen_view", "vision_olmocr", "prepare_qwen", "count_tokens_qwen", True
    ),
    "dots-ocr": _Family(
        "fastocr_core.vision.dots_view", "vision_dots", "prepare_dots", "count_tokens_dots", True
    ),
    "llava_onevision": _Family(
        "fastocr_core.vision.llava_view", "vision_llava", "prepare_llava", "count_tokens_llava", True
    ),
}


def model_vision(model: str, mode: str = "auto") -> ModelVision:
    """How a model sees: by its name or hub id as published, by its folder as its own files say.

    ValueError for an unknown model or mode.
    """
    folder = folder_of(model)
    known = family_of_name(model) or (family_of_folder(folder) if folder is not None else None)
    if known is None:
        if hub_id_of(model) is not None:
            raise ValueError(f"how {model!r} sees is not known before it was fetched; give its folder")
        raise ValueError(
            f"unknown model {model!r}; known: {', '.join(model_names())}, or a folder with weights"
        )
    family = _family(known.name)
    build = cast("Callable[..., ModelVision]", _member(family, family.vision))
    if family.reads_folder and folder is not None:
        return build(mode, folder)
    return build(mode)


def prepare(image: Image, vision: ModelVision, dpi: float | None = None) -> PreparedPage:
    """Bring a page of any image mode into the model's own size. `dpi` is the resolution of `image` where known.

    TypeError for what is no PIL image, ValueError for one without pixels or of a shape the model cannot take.
    """
    if not isinstance(image, Image):
        raise TypeError(f"a page must be a PIL image, not {type(image).__name__}")
    if not image.width or not image.height:
        raise ValueError(f"an image of {image.width} x {image.height} pixels shows nothing")
    family = _family(vision.family)
    build = cast(
        "Callable[[Image, ModelVision, float | None], PreparedPage]", _member(family, family.prepare)
    )
    return build(to_grey_or_rgb(image), vision, dpi)


def count_image_tokens(width: int, height: int, vision: ModelVision) -> int:
    """Image tokens of a page of that many pixels at `vision.wanted_dpi`, at most; for plans."""
    family = _family(vision.family)
    count = cast("Callable[[int, int, ModelVision], int]", _member(family, family.count))
    return count(width, height, vision)


def _family(name: str) -> _Family:
    if name not in _FAMILIES:
        raise ValueError(f"no view for model family {name!r}; known: {', '.join(_FAMILIES)}")
    return _FAMILIES[name]


def _member(family: _Family, name: str) -> object:
    return getattr(import_module(family.module), name)
