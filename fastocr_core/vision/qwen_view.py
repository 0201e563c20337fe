"""How Qwen2.5-VL and its fine-tune olmOCR see a page: one RGB view whose sides are multiples of 28 pixels.

Every 28 x 28 pixels are one visual token. Returns uint8 pixels only; the adapter normalises them. numpy and
Pillow, no torch.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fastocr_core.vision.prepared import ModelVision, PreparedPage
from fastocr_core.vision.processor_file import image_processor_settings
from fastocr_core.vision.scale import grey_range

PATCH_PIXELS, MERGED_PATCHES = 14, 2
MIN_PIXELS, MAX_PIXELS = 3136, 12_845_056  # of the published checkpoints
MAX_ASPECT = 200
OLMOCR_LONGEST_SIDE_PIXELS = 1288
_INK_CONTRAST = 60


@dataclass(frozen=True, slots=True)
class QwenLimits:
    """The sizes a view may have, in pixels. `cell` is the side of a visual token; `longest_side`, where not
    0, is the longest side to which a page is brought before its sides are rounded to cells.
    """

    cell: int
    min_pixels: int
    max_pixels: int
    longest_side: int


def vision_qwen(mode: str = "auto", folder: Path | None = None) -> ModelVision:
    """How Qwen2.5-VL sees, with the limits of the checkpoint in `folder` or else of the published ones.

    `mode` is `auto` or `page` (the checkpoint's limits) or `tokens-N` (at most N visual tokens). ValueError
    for any other.
    """
    return _vision("qwen2_5_vl", mode, folder, 200, 0)


def vision_olmocr(mode: str = "auto", folder: Path | None = None) -> ModelVision:
    """How olmOCR-2 sees: the longest side is always brought to 1288 pixels. Modes as of `vision_qwen`."""
    return _vision("olmocr", mode, folder, 150, OLMOCR_LONGEST_SIDE_PIXELS)


def limits_of(vision: ModelVision) -> QwenLimits:
    """The limits that travel in the settings of a vision."""
    settings = dict(vision.settings)
    names = ("min_pixels", "max_pixels", "longest_side_pixels")
    return QwenLimits(vision.cell_width, *(int(settings[name]) for name in names))


def view_size(width: int, height: int, limits: QwenLimits) -> tuple[int, int]:
    """Width and height of the view of an image: multiples of the cell, near the image's own proportions.

    The rule of the model's own image processor: round both sides to cells, then shrink (rounding down) or
    enlarge (rounding up) where the area is outside the limits. ValueError for an image more than 200 times
    as long as wide.
    """
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise ValueError(f"an image of {width} x {height} pixels is too narrow for this model")
    if limits.longest_side:
        fit = limits.longest_side / max(width, height)
        width, height = max(1, round(width * fit)), max(1, round(height * fit))
    cell, area = limits.cell, width * height
    columns, rows = round(width / cell), round(height / cell)
    if columns * rows * cell * cell > limits.max_pixels:
        shrink = math.sqrt(area / limits.max_pixels)
        columns = max(1, math.floor(width / shrink / cell))
        rows = max(1, math.floor(height / shrink / cell))
    elif columns * rows * cell * cell < limits.min_pixels:
        enlarge = math.sqrt(limits.min_pixels / area)
        columns, rows = math.ceil(width * enlarge / cell), math.ceil(height * enlarge / cell)
    return columns * cell, rows * cell


def prepare_qwen(image: Image.Image, vision: ModelVision, dpi: float | None) -> PreparedPage:
    """Resize (bicubic) to the view's size. `dpi` does not matter: the model takes any resolution."""
    width, height = view_size(image.width, image.height, limits_of(vision))
    rows, columns = height // vision.cell_height, width // vision.cell_width
    view = np.asarray(image.convert("RGB").resize((width, height), Image.Resampling.BICUBIC))
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
        scale=width / image.width,
        ink_share=ink_share(view),
    )


def count_tokens_qwen(width: int, height: int, vision: ModelVision) -> int:
    """Exactly the visual tokens of an image of that size. ValueError as of `view_size`."""
    columns_pixels, rows_pixels = view_size(width, height, limits_of(vision))
    return columns_pixels * rows_pixels // (vision.cell_width * vision.cell_height)


def ink_share(view: NDArray[np.uint8]) -> float:
    """Share of pixels clearly darker than the paper; `view` is uint8 [height, width, 3]."""
    grey = view.mean(axis=2).astype(np.uint8)
    paper = grey_range(grey)[1]
    return float((grey < paper - _INK_CONTRAST).mean())


def _vision(family: str, mode: str, folder: Path | None, dpi: int, longest_side: int) -> ModelVision:
    found = image_processor_settings(folder) if folder is not None else {}
    cell = int(found.get("patch_size") or PATCH_PIXELS) * int(found.get("merge_size") or MERGED_PATCHES)
    min_pixels = _limit(found, "min_pixels", "shortest_edge", MIN_PIXELS)
    max_pixels = _limit(found, "max_pixels", "longest_edge", MAX_PIXELS)
    if mode.startswith("tokens-") and mode[7:].isdecimal() and int(mode[7:]) > 0:
        max_pixels = min(max_pixels, int(mode[7:]) * cell * cell)
        min_pixels = min(min_pixels, max_pixels)
    elif mode in ("auto", "page"):
        mode = "page"
    else:
        raise ValueError(
            f"no mode {mode!r} for this model; it knows page and tokens-N, N the most visual tokens"
        )
    settings = {"min_pixels": min_pixels, "max_pixels": max_pixels, "longest_side_pixels": longest_side}
    return ModelVision(
        family,
        mode,
        cell,
        cell,
        _most_tokens(cell, min_pixels, max_pixels),
        dpi,
        tuple((name, float(value)) for name, value in settings.items()),
        takes_prompt=True,
    )


def _limit(found: dict[str, Any], name: str, size_name: str, default: int) -> int:
    """A limit under its old name, under `size` as newer checkpoints have it, or the published one."""
    size = found.get("size")
    value = found.get(name) or (size.get(size_name) if isinstance(size, dict) else None)
    return int(value or default)


def _most_tokens(cell: int, min_pixels: int, max_pixels: int) -> int:
    """The most tokens that any image can have: the larger of three bounds.

    By area; one row of a very long image, which is not made narrower than a cell; and an enlarged image,
    whose sides are rounded up.
    """
    by_area = max_pixels // (cell * cell)
    one_row = math.ceil(math.sqrt(MAX_ASPECT * max_pixels) / cell)
    sides = math.sqrt(min_pixels) * (math.sqrt(MAX_ASPECT) + 1 / math.sqrt(MAX_ASPECT))
    enlarged = math.floor(min_pixels / (cell * cell) + sides / cell + 1)
    return max(by_area, one_row, enlarged)
