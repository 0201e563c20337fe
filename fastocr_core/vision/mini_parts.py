"""The pieces in which the embedded reader reads a page that it cannot read in one go: columns, sheets beyond its grid, titles
in letters too large for it.

Each piece is a page of its own, letters of its neighbours painted over. Its cells are cells of the whole page, except in
titles, which are made smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fastocr_core.vision.big_lines import without_big_lines
from fastocr_core.vision.components import component_boxes
from fastocr_core.vision.gaps import cut_at_gaps
from fastocr_core.vision.prepared import PreparedPage
from fastocr_core.vision.regions import Boxes, Split, Stretch, split_columns, upright
from fastocr_core.vision.scale import TARGET_X_HEIGHT_PIXELS, measure_letters, reading_scale

INK_BELOW_PAPER = 60  # tones
_MARGIN_PIXELS = 10
_LEAST_ROWS, _LEAST_COLUMNS = 8, 8  # cells; smaller pages were never learned from
_LETTER_HEIGHTS, _LETTER_WIDTH, _LETTER_INK = (4, 34), 120, 6  # pixels at the reading size
_MEAN_LETTER = 1.25  # x-heights, over lower case and capitals
_ROOMY = 1.1  # letters of titles may all be capitals, which are measured as if they were small
_MARK_PIXELS = 3  # lower marks are specks
_WHOLE_PAGE = Split((Stretch(-math.inf, -math.inf, math.inf, math.inf),), 0.0)


@dataclass(frozen=True, slots=True)
class Grid:
    """Cell size in pixels and the most rows and columns of cells that are read at once."""

    cell_width: int
    cell_height: int
    most_rows: int
    most_columns: int


def parts_of(page: PreparedPage, paper: int, grid: Grid) -> tuple[PreparedPage, ...]:
    """Pieces of a page at reading size, in reading order; none where it is best read whole.

    paper: tone of its background. ValueError where a piece is wider than the grid and cannot be cut.
    """
    pixels = page.views[0][:, :, 0]
    marks = component_boxes(pixels < paper - INK_BELOW_PAPER)
    heights, widths = marks[:, 3] - marks[:, 1], marks[:, 2] - marks[:, 0]
    low, high = _LETTER_HEIGHTS
    is_letter = (
        (heights >= low) & (heights <= high) & (widths <= _LETTER_WIDTH) & (marks[:, 4] >= _LETTER_INK)
    )
    boxes = marks[:, :4]
    split = split_columns(boxes[is_letter], TARGET_X_HEIGHT_PIXELS) or _WHOLE_PAGE
    small = (heights <= high) & (widths <= _LETTER_WIDTH)
    split, is_big = _cut_across(split, boxes, is_letter)
    fits = page.grid_rows <= grid.most_rows and page.grid_columns <= grid.most_columns
    if len(split.stretches) == 1 and fits and not is_big[0]:
        return ()
    owners = split.owner(boxes)
    parts: list[PreparedPage] = []
    for index, big in enumerate(is_big):
        own = owners == index
        if not big and not (own & is_letter).any():
            continue
        foreign, kept = boxes[~own & small], boxes[own & (heights >= _MARK_PIXELS) & (small | big)]
        if big:
            title = _Cutting(page, kept, foreign, paper)
            parts.append(_resized(page, title, min(title.reading_scale(), title.most(grid)), paper, grid))
        else:
            frame = _frame(kept, page, grid)
            parts.extend(_pieces(page, frame, foreign, boxes[own & is_letter], paper, grid))
    return () if len(parts) == 1 and fits and not any(is_big) else tuple(parts)


def _cut_across(split: Split, boxes: Boxes, is_letter: NDArray[np.bool_]) -> tuple[Split, tuple[bool, ...]]:
    """The stretches cut around their titles and at wide empty strips; which of them are titles."""
    x, y = upright(boxes, split.degrees)
    wide, tall = (boxes[:, 2] - boxes[:, 0]) / 2, (boxes[:, 3] - boxes[:, 1]) / 2
    marks = np.stack([x - wide, y - tall, x + wide, y + tall], axis=1)
    owners = split.owner(boxes)
    pieces: list[tuple[Stretch, bool]] = []
    for index, stretch in enumerate(split.stretches):
        for piece, big in without_big_lines(stretch, marks[owners == index], TARGET_X_HEIGHT_PIXELS):
            inside = is_letter & (owners == index) & (y >= piece.top) & (y < piece.bottom)
            cut = (piece,) if big else cut_at_gaps(piece, marks[inside], TARGET_X_HEIGHT_PIXELS)
            pieces.extend((each, big) for each in cut)
    return Split(tuple(stretch for stretch, _ in pieces), split.degrees), tuple(big for _, big in pieces)


@dataclass(frozen=True, slots=True)
class _Frame:
    """Cells of the page: rows [top, bottom), columns [left, right)."""

    left: int
    top: int
    right: int
    bottom: int


def _frame(boxes: Boxes, page: PreparedPage, grid: Grid) -> _Frame:
    """The cells that hold the boxes and a margin."""
    left, top = boxes[:, 0].min() - _MARGIN_PIXELS, boxes[:, 1].min() - _MARGIN_PIXELS
    right, bottom = boxes[:, 2].max() + _MARGIN_PIXELS, boxes[:, 3].max() + _MARGIN_PIXELS
    return _Frame(
        max(0, int(left) // grid.cell_width),
        max(0, int(top) // grid.cell_height),
        min(page.grid_columns, -(-int(right) // grid.cell_width)),
        min(page.grid_rows, -(-int(bottom) // grid.cell_height)),
    )


def _pieces(
    page: PreparedPage, frame: _Frame, foreign: Boxes, letters: Boxes, paper: int, grid: Grid
) -> Iterator[PreparedPage]:
    """The frame as one piece, or as several where it is too high."""
    if frame.right - frame.left > grid.most_columns:
        raise ValueError("a line of this page is longer than the reader's grid")
    top = frame.top
    while frame.bottom - top > grid.most_rows:
        cut = _row_between_lines(letters, top + grid.most_rows // 2, top + grid.most_rows, grid.cell_height)
        below = letters[(letters[:, 1] + letters[:, 3]) / 2 >= cut * grid.cell_height]
        above = letters[(letters[:, 1] + letters[:, 3]) / 2 < cut * grid.cell_height]
        yield _piece(page, replace(frame, top=top, bottom=cut), np.concatenate([foreign, below]), paper, grid)
        foreign, letters, top = np.concatenate([foreign, above]), below, cut
    yield _piece(page, replace(frame, top=top), foreign, paper, grid)


def _row_between_lines(letters: Boxes, first: int, last: int, cell_height: int) -> int:
    """The row of cells in first..last, the lowest of the best, whose upper edge meets the fewest letters."""
    edges = np.arange(first, last + 1) * cell_height
    met = ((letters[:, 1] < edges[:, None]) & (letters[:, 3] > edges[:, None])).sum(1)
    return int(first + len(met) - 1 - met[::-1].argmin())


def _piece(page: PreparedPage, frame: _Frame, foreign: Boxes, paper: int, grid: Grid) -> PreparedPage:
    rows = max(frame.bottom - frame.top, _LEAST_ROWS)
    columns = max(frame.right - frame.left, _LEAST_COLUMNS)
    across, down = frame.left * grid.cell_width, frame.top * grid.cell_height
    view = np.full((rows * grid.cell_height, columns * grid.cell_width, 1), paper, np.uint8)
    source = page.views[0][down : frame.bottom * grid.cell_height, across : frame.right * grid.cell_width]
    height, width = source.shape[:2]
    view[:height, :width] = source
    shifted = foreign - np.array([across, down, across, down])
    for left, top, right, bottom in shifted[_meets(shifted, width, height)]:
        view[max(top - 1, 0) : bottom + 1, max(left - 1, 0) : right + 1] = paper
    a, b, c, d, e, f = page.transform
    return replace(
        page,
        views=(view,),
        grid_rows=rows,
        grid_columns=columns,
        image_tokens=rows * columns,
        transform=(a, b, c + a * across + b * down, d, e, f + d * across + e * down),
        ink_share=float((view < paper - INK_BELOW_PAPER).mean()),
        parts=(),
    )


class _Cutting:
    """Marks cut out of the view with a margin, others painted over."""

    def __init__(self, page: PreparedPage, own: Boxes, foreign: Boxes, paper: int) -> None:
        height, width = page.views[0].shape[:2]
        self._tall = float(np.median(own[:, 3] - own[:, 1]))
        margin = max(_MARGIN_PIXELS, int(self._tall))
        self.left, self.top = max(0, int(own[:, 0].min()) - margin), max(0, int(own[:, 1].min()) - margin)
        right, bottom = min(width, int(own[:, 2].max()) + margin), min(height, int(own[:, 3].max()) + margin)
        self.pixels = page.views[0][self.top : bottom, self.left : right, 0].copy()
        shifted = foreign - np.array([self.left, self.top, self.left, self.top])
        for x0, y0, x1, y1 in shifted[_meets(shifted, right - self.left, bottom - self.top)]:
            self.pixels[max(y0 - 1, 0) : y1 + 1, max(x0 - 1, 0) : x1 + 1] = paper

    def reading_scale(self) -> float:
        """What brings the letters of a title to the reading size."""
        letters = measure_letters(self.pixels)
        if letters.components:
            return _ROOMY * reading_scale(letters, None)
        return _ROOMY * _MEAN_LETTER * TARGET_X_HEIGHT_PIXELS / self._tall

    def most(self, grid: Grid) -> float:
        """The largest scale that the grid holds."""
        height, width = (int(side) for side in self.pixels.shape)
        return min(
            1.0, grid.most_columns * grid.cell_width / width, grid.most_rows * grid.cell_height / height
        )


def _resized(page: PreparedPage, cutting: _Cutting, scale: float, paper: int, grid: Grid) -> PreparedPage:
    """Letters of another size than the text of the page, brought to the reading size."""
    height, width = cutting.pixels.shape
    across, down = max(1, round(width * scale)), max(1, round(height * scale))
    rows = max(-(-down // grid.cell_height), _LEAST_ROWS)
    columns = max(-(-across // grid.cell_width), _LEAST_COLUMNS)
    view = np.full((rows * grid.cell_height, columns * grid.cell_width, 1), paper, np.uint8)
    resized = Image.fromarray(cutting.pixels).resize((across, down), Image.Resampling.LANCZOS)
    view[:down, :across, 0] = np.asarray(resized)
    a, b, c, d, e, f = page.transform
    wider, taller, left, top = width / across, height / down, cutting.left, cutting.top
    return replace(
        page,
        views=(view,),
        grid_rows=rows,
        grid_columns=columns,
        image_tokens=rows * columns,
        transform=(
            a * wider, b * taller, c + a * left + b * top, d * wider, e * taller, f + d * left + e * top,
        ),
        scale=page.scale / wider,
        ink_share=float((view < paper - INK_BELOW_PAPER).mean()),
        parts=(),
    )  # fmt: skip


def _meets(boxes: Boxes, width: int, height: int) -> NDArray[np.bool_]:
    met: NDArray[np.bool_] = (
        (boxes[:, 0] < width) & (boxes[:, 1] < height) & (boxes[:, 2] > 0) & (boxes[:, 3] > 0)
    )
    return met
