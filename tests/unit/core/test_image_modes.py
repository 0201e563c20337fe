"""Images of every mode handed straight to the reader are seen as the same page."""

from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from fastocr_core.vision import model_vision, prepare
from fastocr_core.vision.families import model_names


def _page() -> Image.Image:
    page = Image.new("L", (400, 300), 255)
    draw = ImageDraw.Draw(page)
    for row in range(6):
        for column in range(20):
            draw.rectangle((20 + 18 * column, 20 + 40 * row, 29 + 18 * column, 30 + 40 * row), fill=0)
    return page


def _in_mode(mode: str) -> Image.Image:
    grey = _page()
    pixels = np.asarray(grey)
    if mode == "I;16":
        return Image.fromarray(pixels.astype(np.uint16) * 257)
    if mode in ("I", "F"):
        return Image.fromarray(pixels.astype(np.int32 if mode == "I" else np.float32))
    if mode == "transparent palette":
        layer = Image.merge("RGBA", (*[Image.new("L", grey.size, 0)] * 3, Image.fromarray(255 - pixels)))
        return layer.quantize(16)
    if mode == "RGBA":
        return Image.merge("RGBA", (*[Image.new("L", grey.size, 0)] * 3, Image.fromarray(255 - pixels)))
    return grey.convert(mode)


@pytest.mark.parametrize("model", ["mini", "tiny"])
@pytest.mark.parametrize(
    "mode", ["1", "I;16", "I", "F", "transparent palette", "RGBA", "RGB", "CMYK", "P", "LA"]
)
def test_every_mode_shows_the_same_page(mode: str, model: str) -> None:
    vision = model_vision(model)
    expected = prepare(_page(), vision).views[0].astype(int)
    seen = prepare(_in_mode(mode), vision).views[0].astype(int)
    assert seen.shape == expected.shape
    assert np.abs(seen - expected).mean() < 3


@pytest.mark.parametrize("model", model_names())
def test_what_shows_nothing_is_refused_with_the_reason(model: str) -> None:
    vision = model_vision(model)
    with pytest.raises(ValueError, match="an image of 0 x 5 pixels shows nothing"):
        prepare(Image.new("L", (0, 5)), vision)
    nonsense: Any = np.zeros((5, 5), np.uint8)
    with pytest.raises(TypeError, match="a page must be a PIL image, not ndarray"):
        prepare(nonsense, vision)
