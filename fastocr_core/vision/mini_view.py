"""How the embedded reader sees a page: one grey view at its letter size, sides padded to cells of 32 x 16 px.

Returns uint8 pixels only; the reader normalises. numpy and Pillow, no torch.
"""

import math

import numpy as np
from PIL import Image

from fastocr_core.vision.prepared import ModelVision, PreparedPage
from fastocr_core.vision.scale import TARGET_X_HEIGHT_PIXELS, grey_range, measure_letters, reading_scale

CELL_WIDTH, CELL_HEIGHT = 32, 16  # pixels; lower than two lines are apart
MAX_ROWS, MAX_COLUMNS = 128, 48  # the reader knows 128 bands of 16 px and 192 strips of 8 px
MINI_VISION = ModelVision("mini", "page", CELL_WIDTH, CELL_HEIGHT, MAX_ROWS * MAX_COLUMNS, 150)


def vision_mini(mode: str = "auto") -> ModelVision:
    """The one way `mini` sees. ValueError for a mode other than auto or page."""
    if mode not in ("auto", "page"):
        raise ValueError(f"mini knows no mode {mode!r}; it has one, page")
    return MINI_VISION


def full_contrast(grey: Image.Image, has_letters: bool) -> Image.Image:
    """Bring faint print to full contrast; pages without ink are left alone, so that texture is not turned
    into letters.
    """
    ink_tone, paper_tone = grey_range(np.asarray(grey))
    if paper_tone - ink_tone < (60 if has_letters else 120):
        return grey
    slope = 225 / (paper_tone - ink_tone)
    table = [min(255, max(0, round(20 + (value - ink_tone) * slope))) for value in range(256)]
    return grey.point(table)


def prepare_mini(image: Image.Image, vision: ModelVision, dpi: float | None) -> PreparedPage:
    """Resize `image` so that its letters are about 9.5 px high; `dpi` helps only where letters cannot be
    measured.
    """
    grey = image.convert("L")
    letters = measure_letters(np.asarray(grey))
    scale = reading_scale(letters, dpi)
    across, down = vision.cell_width, vision.cell_height
    limit = min(MAX_COLUMNS * across / grey.width, MAX_ROWS * down / grey.height)
    room = vision.max_image_tokens * across * down
    scale = min(scale, limit, math.sqrt(room / (grey.width * grey.height)))
    width, height = max(1, round(grey.width * scale)), max(1, round(grey.height * scale))
    resized = grey.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=3.0)
    resized = full_contrast(resized, bool(letters.components))
    rows, columns = -(-height // down), -(-width // across)
    pixels = np.asarray(resized)
    paper = grey_range(pixels)[1]
    view = np.full((rows * down, columns * across, 1), paper, np.uint8)
    view[:height, :width, 0] = pixels
    return PreparedPage(
        views=(view,),
        grid_rows=rows,
        grid_columns=columns,
        image_tokens=rows * columns,
        mode="page",
        tile_columns=1,
        tile_rows=1,
        transform=(grey.width / width, 0.0, 0.0, 0.0, grey.height / height, 0.0),
        source_width=image.width,
        source_height=image.height,
        scale=width / grey.width,
        ink_share=float((pixels < paper - 60).mean()),
    )


def count_tokens_mini(width: int, height: int, vision: ModelVision) -> int:
    """Upper estimate for a page of `width` x `height` px at the wanted dpi, letters assumed to be 7 px high
    or more.
    """
    scale = TARGET_X_HEIGHT_PIXELS / 7.0
    rows = min(-(-round(height * scale) // vision.cell_height), MAX_ROWS)
    columns = min(-(-round(width * scale) // vision.cell_width), MAX_COLUMNS)
    return min(rows * columns, vision.max_image_tokens)
