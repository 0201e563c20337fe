"""The view of `tiny`, the toy model: grey, shrunk to at most 16 x 16 cells of 32 pixels. numpy and Pillow
only.
"""

import math

import numpy as np
from PIL import Image

from fastocr_core.vision.prepared import ModelVision, PreparedPage

CELL_PIXELS = 32
MAX_CELLS_PER_SIDE = 16
_INK_BELOW = 128


def vision_tiny(mode: str) -> ModelVision:
    """The only way it sees. ValueError for a mode other than `auto` and `page`."""
    if mode not in ("auto", "page"):
        raise ValueError(f"model 'tiny' has no mode {mode!r}; it knows: page")
    return ModelVision("tiny", "page", CELL_PIXELS, CELL_PIXELS, MAX_CELLS_PER_SIDE**2, 72)


def prepare_tiny(image: Image.Image, vision: ModelVision, dpi: float | None) -> PreparedPage:
    """Shrink (never enlarge) to the grid and pad with white to whole cells. `dpi` does not matter to it."""
    columns, rows, scale = _grid(image.width, image.height)
    width = max(1, min(columns * CELL_PIXELS, round(image.width * scale)))
    height = max(1, min(rows * CELL_PIXELS, round(image.height * scale)))
    grey = np.asarray(image.convert("L").resize((width, height), Image.Resampling.BILINEAR))
    view = np.full((rows * CELL_PIXELS, columns * CELL_PIXELS, 1), 255, np.uint8)
    view[:height, :width, 0] = grey
    return PreparedPage(
        views=(view,),
        grid_rows=rows,
        grid_columns=columns,
        image_tokens=rows * columns,
        mode=vision.mode,
        tile_columns=1,
        tile_rows=1,
        transform=(image.width / width, 0.0, 0.0, 0.0, image.height / height, 0.0),
        source_width=image.width,
        source_height=image.height,
        scale=scale,
        ink_share=float((grey < _INK_BELOW).mean()),
    )


def count_tokens_tiny(width: int, height: int, vision: ModelVision) -> int:
    """Cells of the grid."""
    columns, rows, _ = _grid(width, height)
    return rows * columns


def _grid(width: int, height: int) -> tuple[int, int, float]:
    """Columns, rows and scale of the view."""
    side = MAX_CELLS_PER_SIDE * CELL_PIXELS
    scale = min(1.0, side / width, side / height)
    columns = min(MAX_CELLS_PER_SIDE, max(1, math.ceil(width * scale / CELL_PIXELS)))
    rows = min(MAX_CELLS_PER_SIDE, max(1, math.ceil(height * scale / CELL_PIXELS)))
    return columns, rows, scale
