"""What a model needs to see of a page, on the CPU side: sizes, views and geometry. numpy and Pillow only.

The families are imported on first use.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

from fastocr_core.vision.modes import to_grey_or_rgb
from fastocr_core.vision.prepared import ModelVision, PreparedPage

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["ModelVision", "PreparedPage", "count_image_tokens", "model_vision", "prepare"]


@dataclass(frozen=True, slots=True)
class _Family:
    module: str
    vision: str
    prepare: str
    count: str


_FAMILIES = {
    "mini": _Family("fastocr_core.vision.mini_view", "vision_mini", "prepare_mini", "count_tokens_mini"),
    "tiny": _Family("fastocr_core.vision.tiny_view", "vision_tiny", "prepare_tiny", "count_tokens_tiny"),
}


def model_vision(model: str, mode: str = "auto") -> ModelVision:
    """How the model of that name sees. ValueError for an unknown model or mode."""
    family = _family(model)
    build = cast("Callable[[str], ModelVision]", _member(family, family.vision))
    return build(mode)


def prepare(image: "Image", vision: ModelVision, dpi: float | None = None) -> PreparedPage:
    """Bring a page of any image mode into the model's own size. `dpi` is the resolution of `image` where known."""
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
