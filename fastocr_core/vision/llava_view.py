"""How LLaVA-OneVision sees a page: the whole page squeezed into one square tile, then the page on a canvas
of up to 6 x 6 such tiles.

The decoder gets the first tile's patches, then the stitched patches of the canvas without its margins,
shrunk where they are many, with a newline token after each row (LLaVA-OneVision, arXiv 2408.03326, section
3.2). uint8 pixels only; numpy and Pillow, no torch.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fastocr_core.vision.prepared import ModelVision, PreparedPage
from fastocr_core.vision.processor_file import image_processor_settings
from fastocr_core.vision.qwen_view import ink_share

TILE_PIXELS, PATCH_PIXELS = 384, 14
TILES_PER_SIDE = 6
TILES_UNSHRUNK = 9
_SHRINK_ABOVE = 1.1


@dataclass(frozen=True, slots=True)
class CanvasPlan:
    """How one image lies on its canvas. Pixels: `fitted_width`, `fitted_height` of the resized image, which
    is centred. Patches of the stitched canvas: `cut_rows`, `cut_columns` are dropped on each side, `rows` x
    `columns` remain after shrinking, each row with a newline token.
    """

    tile_rows: int
    tile_columns: int
    fitted_width: int
    fitted_height: int
    patches_per_side: int
    cut_rows: int
    cut_columns: int
    rows: int
    columns: int

    @property
    def image_tokens(self) -> int:
        """Everything the decoder sees of the image, newline tokens included."""
        return self.patches_per_side**2 + self.rows * (self.columns + 1)


def vision_llava(mode: str = "auto", folder: Path | None = None) -> ModelVision:
    """How LLaVA-OneVision sees, with the canvases of the checkpoint in `folder` or else of the published ones.

    ValueError for a mode other than auto or page.
    """
    if mode not in ("auto", "page"):
        raise ValueError(f"LLaVA-OneVision knows no mode {mode!r}; it has one, page")
    found = image_processor_settings(folder) if folder is not None else {}
    tile = _tile_pixels(found)
    patch = _patch_pixels(folder)
    canvases = _canvases(found, tile)
    settings = [("tile_pixels", float(tile))]
    for rows, columns in canvases:
        settings += [("canvas_rows", float(rows)), ("canvas_columns", float(columns))]
    most = _most_tokens(canvases, tile // patch)
    return ModelVision("llava_onevision", "page", patch, patch, most, 144, tuple(settings), takes_prompt=True)


def canvases_of(vision: ModelVision) -> list[tuple[int, int]]:
    """Rows and columns of tiles of every canvas, in the checkpoint's order."""
    sides = [int(value) for name, value in vision.settings if name.startswith("canvas_")]
    return list(zip(sides[::2], sides[1::2], strict=True))


def plan_canvas(width: int, height: int, vision: ModelVision) -> CanvasPlan:
    """Choose the canvas of an image and what remains of it: by the area it shows, then by the least margin."""
    tile = int(dict(vision.settings)["tile_pixels"])
    tile_rows, tile_columns = _best_canvas(width, height, tile, canvases_of(vision))
    by_width, by_height = tile_columns * tile / width, tile_rows * tile / height
    fitted_width, fitted_height = tile_columns * tile, tile_rows * tile
    if by_width < by_height:
        fitted_height = min(math.ceil(height * by_width), fitted_height)
    else:
        fitted_width = min(math.ceil(width * by_height), fitted_width)
    side = tile // vision.cell_width
    cut_rows, cut_columns = _margins(width, height, tile_rows * side, tile_columns * side)
    rows, columns = _shrunk(tile_rows * side - 2 * cut_rows, tile_columns * side - 2 * cut_columns, side)
    return CanvasPlan(
        tile_rows, tile_columns, fitted_width, fitted_height, side, cut_rows, cut_columns, rows, columns
    )


def prepare_llava(image: Image.Image, vision: ModelVision, dpi: float | None) -> PreparedPage:
    """The squeezed page and the tiles of its canvas in rows. `dpi` does not matter: a canvas is chosen by size."""
    plan = plan_canvas(image.width, image.height, vision)
    tile = int(dict(vision.settings)["tile_pixels"])
    colour = image.convert("RGB")
    whole = np.asarray(colour.resize((tile, tile), Image.Resampling.BICUBIC))
    fitted = colour.resize((plan.fitted_width, plan.fitted_height), Image.Resampling.BICUBIC)
    canvas = np.zeros((plan.tile_rows * tile, plan.tile_columns * tile, 3), np.uint8)
    top = (canvas.shape[0] - plan.fitted_height) // 2
    left = (canvas.shape[1] - plan.fitted_width) // 2
    canvas[top : top + plan.fitted_height, left : left + plan.fitted_width] = np.asarray(fitted)
    tiles = canvas.reshape(plan.tile_rows, tile, plan.tile_columns, tile, 3).swapaxes(1, 2)
    return PreparedPage(
        views=(whole, *np.ascontiguousarray(tiles).reshape(-1, tile, tile, 3)),
        grid_rows=plan.rows,
        grid_columns=plan.columns,
        image_tokens=plan.image_tokens,
        mode=vision.mode,
        tile_columns=plan.tile_columns,
        tile_rows=plan.tile_rows,
        transform=(image.width / tile, 0.0, 0.0, 0.0, image.height / tile, 0.0),
        source_width=image.width,
        source_height=image.height,
        scale=plan.fitted_width / image.width,
        ink_share=ink_share(whole),
    )


def count_tokens_llava(width: int, height: int, vision: ModelVision) -> int:
    """Exactly the visual tokens of an image of that size, newline tokens included."""
    return plan_canvas(width, height, vision).image_tokens


def _best_canvas(width: int, height: int, tile: int, canvases: list[tuple[int, int]]) -> tuple[int, int]:
    """Rows and columns of tiles; of equally good canvases the first."""
    best, most_shown, least_wasted = canvases[0], 0, math.inf
    for rows, columns in canvases:
        fit = min(columns * tile / width, rows * tile / height)
        shown = min(int(width * fit) * int(height * fit), width * height)
        wasted = rows * columns * tile * tile - shown
        if shown > most_shown or (shown == most_shown and wasted < least_wasted):
            best, most_shown, least_wasted = (rows, columns), shown, wasted
    return best


def _margins(width: int, height: int, rows: int, columns: int) -> tuple[int, int]:
    """Rows and columns of patches to drop on each side of a stitched grid, so that the image's proportions
    remain. The lengths are rounded to seven digits first, as the model's own code does.
    """
    if width / height > columns / rows:
        inside = int(round(height * (columns / width), 7))
        return (rows - inside) // 2, 0
    inside = int(round(width * (rows / height), 7))
    return 0, (columns - inside) // 2


def _shrunk(rows: int, columns: int, side: int) -> tuple[int, int]:
    """Size of the grid once it holds no more patches than about nine tiles."""
    ratio = math.sqrt(rows * columns / (TILES_UNSHRUNK * side * side))
    if ratio > _SHRINK_ABOVE:
        return int(rows // ratio), int(columns // ratio)
    return rows, columns


def _most_tokens(canvases: list[tuple[int, int]], side: int) -> int:
    """An upper bound for any image: base, the largest grid that is not shrunk, and its newlines.

    A grid of `rows` rows has at most as many as the highest canvas.
    """
    most_patches = max(rows * columns for rows, columns in canvases) * side * side
    unshrunk = math.floor(TILES_UNSHRUNK * side * side * _SHRINK_ABOVE**2)
    return side * side + min(most_patches, unshrunk) + max(rows for rows, _ in canvases) * side


def _canvases(found: dict[str, Any], tile: int) -> list[tuple[int, int]]:
    """Rows and columns of tiles of each canvas, from the checkpoint's list of [height, width] in pixels."""
    listed = found.get("image_grid_pinpoints")
    if not listed:
        sides = range(1, TILES_PER_SIDE + 1)
        return [(rows, columns) for rows in sides for columns in sides]
    if any(height % tile or width % tile for height, width in listed):
        raise ValueError(f"the checkpoint's canvases are not made of tiles of {tile} pixels")
    return [(int(height) // tile, int(width) // tile) for height, width in listed]


def _tile_pixels(found: dict[str, Any]) -> int:
    size = found.get("size")
    if isinstance(size, dict):
        return int(size.get("height") or size.get("shortest_edge") or TILE_PIXELS)
    return int(size or TILE_PIXELS)


def _patch_pixels(folder: Path | None) -> int:
    """The patch of the vision tower, which only config.json names."""
    if folder is None or not (folder / "config.json").is_file():
        return PATCH_PIXELS
    config = json.loads((folder / "config.json").read_text("utf-8"))
    vision = config.get("vision_config") if isinstance(config, dict) else None
    return int(vision.get("patch_size") or PATCH_PIXELS) if isinstance(vision, dict) else PATCH_PIXELS
