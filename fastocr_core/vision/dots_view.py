"""How dots.ocr sees a page: one RGB view, both sides multiples of 28 pixels, 28 x 28 pixels a visual token.

The sizing rule is that of the Qwen2-VL family with limits of its own (dots.ocr ships that processor). uint8
pixels only; numpy and Pillow, no torch.
"""

from dataclasses import replace
from pathlib import Path

from PIL import Image

from fastocr_core.vision.prepared import ModelVision, PreparedPage
from fastocr_core.vision.qwen_view import count_tokens_qwen, limits_of, prepare_qwen, vision_qwen

MOST_TOKENS = 14_400
CELL_PIXELS = 28
MAX_PIXELS = MOST_TOKENS * CELL_PIXELS**2  # 11,289,600 of the published processor
WANTED_DPI = 200


def vision_dots(mode: str = "auto", folder: Path | None = None) -> ModelVision:
    """How dots.ocr sees, with the limits of the checkpoint in `folder` or else of the published one.

    `mode` is `auto` or `page` (those limits) or `tokens-N` (at most N visual tokens). ValueError for any other.
    """
    vision = vision_qwen(mode, folder)
    if limits_of(vision).max_pixels > MAX_PIXELS:
        vision = replace(vision_qwen(f"tokens-{MOST_TOKENS}", folder), mode=vision.mode)
    return replace(vision, family="dots-ocr", wanted_dpi=WANTED_DPI)


def prepare_dots(image: Image.Image, vision: ModelVision, dpi: float | None) -> PreparedPage:
    """Resize (bicubic) to the view's size. `dpi` does not matter. ValueError for an image more than 200 times
    as long as wide.
    """
    return prepare_qwen(image, vision, dpi)


def count_tokens_dots(width: int, height: int, vision: ModelVision) -> int:
    """Exactly the visual tokens of an image of that size in pixels. ValueError as of `prepare_dots`."""
    return count_tokens_qwen(width, height, vision)
