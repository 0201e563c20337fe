"""Sizes, tile grids and token order of DeepSeek-OCR and its descendants: plain arithmetic on numpy.

A page becomes an optional grid of tiles and always one global view. Each view gives a square of cells, and the
decoder sees the cells of the stitched tile grid row by row, then those of the global view; every row ends
with a newline vector and the whole with one separator (arXiv 2510.18234, section 3.2).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CELL_PIXELS = 64  # 16-pixel patches, halved twice by convolutions
DEFAULT_MAX_TILES = 9  # of the paper; vLLM's own configuration uses 6
_MIN_TILES = 2
# Pages up to this size in both directions get no tiles, and tiles are weighed at this size in every mode.
UNTILED_PIXELS = 640


@dataclass(frozen=True, slots=True)
class SizeMode:
    """How large the views are. `tile_pixels` is 0 where there are no tiles; a `stretched` global view does
    not keep the aspect of the page, any other is fitted and padded.
    """

    global_pixels: int
    tile_pixels: int = 0
    stretched: bool = False


SIZE_MODES = {
    "tiny": SizeMode(512, stretched=True),
    "small": SizeMode(640, stretched=True),
    "base": SizeMode(1024),
    "large": SizeMode(1280),
    "gundam": SizeMode(1024, 640),
    "gundam-m": SizeMode(1280, 1024),
}


def cells_per_side(pixels: int) -> int:
    """Cells along a square view of that many pixels."""
    return -(-(pixels // 16) // 4)


def tile_candidates(max_tiles: int) -> tuple[tuple[int, int], ...]:
    """All (columns, rows) of 2 to `max_tiles` tiles, by number of tiles. ValueError below 2."""
    if max_tiles < _MIN_TILES:
        raise ValueError(f"a tiled page has at least {_MIN_TILES} tiles; max_tiles {max_tiles} is too small")
    return tuple(
        (tiles // rows, rows)
        for tiles in range(_MIN_TILES, max_tiles + 1)
        for rows in range(tiles, 0, -1)
        if tiles % rows == 0
    )


def tile_grid(width: int, height: int, max_tiles: int = DEFAULT_MAX_TILES) -> tuple[int, int]:
    """(columns, rows) for a page of `width` x `height` pixels, (1, 1) for none.

    The grid whose aspect is nearest to the page's; among equals the later and larger one only if the page
    has more than half of its pixels.
    """
    if width <= UNTILED_PIXELS and height <= UNTILED_PIXELS:
        return 1, 1
    aspect, best, smallest = width / height, (1, 1), math.inf
    for columns, rows in tile_candidates(max_tiles):
        difference = abs(aspect - columns / rows)
        is_large_tie = difference == smallest and width * height > 0.5 * UNTILED_PIXELS**2 * columns * rows
        if difference < smallest or is_large_tie:
            best, smallest = (columns, rows), difference
    return best


@dataclass(frozen=True, slots=True)
class TokenOrder:
    """The image tokens of one page. `tile_columns` and `tile_rows` are 0 where there are no tiles;
    `tile_cells` and `global_cells` are cells per side of one tile and of the global view.
    """

    tile_columns: int
    tile_rows: int
    tile_cells: int
    global_cells: int

    @property
    def local_columns(self) -> int:
        """Cells across the stitched tiles."""
        return self.tile_columns * self.tile_cells

    @property
    def local_rows(self) -> int:
        """Cells down the stitched tiles."""
        return self.tile_rows * self.tile_cells

    @property
    def local_tokens(self) -> int:
        """Tokens before the first one of the global view, newlines included."""
        return self.local_rows * (self.local_columns + 1)

    @property
    def image_tokens(self) -> int:
        """All tokens that the decoder sees of the page, newlines and separator included."""
        return self.local_tokens + self.global_cells * (self.global_cells + 1) + 1

    def local_index(self, row: int, column: int) -> int:
        """Token of a cell of the stitched grid; the column after the last is the newline of the row."""
        assert 0 <= row < self.local_rows
        assert 0 <= column <= self.local_columns
        return row * (self.local_columns + 1) + column

    def global_index(self, row: int, column: int) -> int:
        """Token of a cell of the global view; the column after the last is the newline of the row."""
        assert 0 <= row < self.global_cells
        assert 0 <= column <= self.global_cells
        return self.local_tokens + row * (self.global_cells + 1) + column

    def sources(self) -> NDArray[np.int64]:
        """Where each token comes from, int64 [image_tokens].

        Indexes the cells of all views one after another, tiles first and row by row, each view row by row;
        then come the newline and, last, the separator.
        """
        tiles, side = self.tile_columns * self.tile_rows, self.tile_cells
        newline = tiles * side**2 + self.global_cells**2
        tile_cells = np.arange(tiles * side**2).reshape(self.tile_rows, self.tile_columns, side, side)
        stitched = tile_cells.transpose(0, 2, 1, 3).reshape(self.local_rows, self.local_columns)
        whole = np.arange(tiles * side**2, newline).reshape(self.global_cells, self.global_cells)
        rows = [
            np.pad(cells, ((0, 0), (0, 1)), constant_values=newline).ravel() for cells in (stitched, whole)
        ]
        return np.concatenate([*rows, np.array([newline + 1])]).astype(np.int64)


def token_order(width: int, height: int, mode: SizeMode, max_tiles: int) -> TokenOrder:
    """The image tokens of a page of `width` x `height` pixels."""
    columns, rows = tile_grid(width, height, max_tiles) if mode.tile_pixels else (1, 1)
    if (columns, rows) == (1, 1):
        return TokenOrder(0, 0, 0, cells_per_side(mode.global_pixels))
    return TokenOrder(columns, rows, cells_per_side(mode.tile_pixels), cells_per_side(mode.global_pixels))


def most_tokens(mode: SizeMode, max_tiles: int) -> int:
    """Image tokens of the page with the most, in that mode."""
    whole = cells_per_side(mode.global_pixels)
    if not mode.tile_pixels:
        return TokenOrder(0, 0, 0, whole).image_tokens
    tile = cells_per_side(mode.tile_pixels)
    return max(TokenOrder(*grid, tile, whole).image_tokens for grid in tile_candidates(max_tiles))
