"""How the embedded reader sees a page: one grey view at its letter size, sides padded to cells of 32 x 16 px, and cut
into parts where that is how it is read (see mini_parts).

Returns uint8 pixels only; the reader normalises. numpy and Pillow, no torch.
"""

import contextlib
from dataclasses import replace

import numpy as np
from PIL import Image

from fastocr_core.vision.mini_parts import INK_BELOW_PAPER, Grid, parts_of
from fastocr_core.vision.prepared import ModelVision, PreparedPage
from fastocr_core.vision.scale import TARGET_X_HEIGHT_PIXELS, grey_range, measure_letters, reading_scale

CELL_WIDTH, CELL_HEIGHT = 32, 16  # pixels; lower than two lines are apart
MAX_ROWS, MAX_COLUMNS = 128, 48  # the reader knows 128 bands of 16 px and 192 strips of 8 px
GRID = Grid(CELL_WIDTH, CELL_HEIGHT, MAX_ROWS, MAX_COLUMNS)
LARGEST_SHEET = 4  # sides of the grid that a sheet read in parts may have: about A1 in small print
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
    """Resize `image` so that its letters are about 10.5 px high; `dpi` helps only where letters cannot be
    measured.
    """
    grey = image.convert("L")
    letters = measure_letters(np.asarray(grey))
    scale = reading_scale(letters, dpi)
    sheet = min(1.0, *(LARGEST_SHEET * limit / (side * scale) for side, limit in _sides(grey)))
    within = min(1.0, *(limit / (side * scale) for side, limit in _sides(grey)))
    if within < 1.0:
        with contextlib.suppress(ValueError):  # a line longer than the grid: the whole page made smaller
            return _viewed(grey, scale * sheet, bool(letters.components))
    return _viewed(grey, scale * within, bool(letters.components))


def _sides(grey: Image.Image) -> tuple[tuple[int, int], tuple[int, int]]:
    """Width and height, each with the most pixels that the grid holds."""
    return (grey.width, MAX_COLUMNS * CELL_WIDTH), (grey.height, MAX_ROWS * CELL_HEIGHT)


def _viewed(grey: Image.Image, scale: float, has_letters: bool) -> PreparedPage:
    """The page at `scale` with its parts. ValueError where it is beyond the grid and cannot be cut."""
    width, height = max(1, round(grey.width * scale)), max(1, round(grey.height * scale))
    resized = grey.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=3.0)
    resized = full_contrast(resized, has_letters)
    rows, columns = -(-height // CELL_HEIGHT), -(-width // CELL_WIDTH)
    pixels = np.asarray(resized)
    paper = grey_range(pixels)[1]
    view = np.full((rows * CELL_HEIGHT, columns * CELL_WIDTH, 1), paper, np.uint8)
    view[:height, :width, 0] = pixels
    page = PreparedPage(
        views=(view,),
        grid_rows=rows,
        grid_columns=columns,
        image_tokens=rows * columns,
        mode="page",
        tile_columns=1,
        tile_rows=1,
        transform=(grey.width / width, 0.0, 0.0, 0.0, grey.height / height, 0.0),
        source_width=grey.width,
        source_height=grey.height,
        scale=width / grey.width,
        ink_share=float((pixels < paper - INK_BELOW_PAPER).mean()),
    )
    parts = parts_of(page, paper, GRID) if has_letters else ()
    if not parts:
        if rows > MAX_ROWS or columns > MAX_COLUMNS:
            raise ValueError("this page is larger than the reader's grid and holds no lines to cut between")
        return page
    return replace(page, parts=parts, image_tokens=sum(part.image_tokens for part in parts))


def count_tokens_mini(width: int, height: int, vision: ModelVision) -> int:
    """Upper estimate for a page of `width` x `height` px at the wanted dpi, letters assumed to be 7 px high
    or more.
    """
    scale = TARGET_X_HEIGHT_PIXELS / 7.0
    rows = min(-(-round(height * scale) // vision.cell_height), MAX_ROWS)
    columns = min(-(-round(width * scale) // vision.cell_width), MAX_COLUMNS)
    return min(rows * columns, vision.max_image_tokens)
