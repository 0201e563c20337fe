"""The pieces in which the embedded reader reads a page that it cannot read in one go: columns, sheets beyond its grid, titles
in letters too large for it, head and foot set off by a rule, what lies beyond a wide empty strip.

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
from fastocr_core.vision.head_and_foot import blocks_side_by_side, cut_at_rules
from fastocr_core.vision.prepared import PreparedPage
from fastocr_core.vision.regions import Boxes, Split, Stretch, split_columns, upright
from fastocr_core.vision.scale import TARGET_X_HEIGHT_PIXELS, measure_letters, reading_scale

INK_BELOW_PAPER = 60  # tones
_MARGIN_PIXELS = 10
_LEAST_ROWS, _LEAST_COLUMNS = 8, 8  # cells; smaller pages were never learned from
_LETTER_HEIGHTS, _LETTER_WIDTH, _LETTER_INK = (4, 38), 132, 6  # pixels at the reading size
_MEAN_LETTER = 1.25  # x-heights, over lower case and capitals
_JOINED_INK = (
    3.0  # pixels of ink per pixel of width: a line of words that touch or stand on their underline ...
)
_JOINED_HEIGHT = 0.9 * TARGET_X_HEIGHT_PIXELS  # ... and at least as high as its letters; a thick bar is lower
_RULE_PIXELS = 4  # a rule is at most so high ...
_RULE_HEIGHT = 0.035  # ... and this share of its width besides, on a turned page
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
    is_rule = (widths > _LETTER_WIDTH) & (heights <= _RULE_HEIGHT * widths + _RULE_PIXELS)
    split = split_columns(boxes[is_letter], TARGET_X_HEIGHT_PIXELS, boxes[is_rule]) or _WHOLE_PAGE
    small = (heights <= high) & (widths <= _LETTER_WIDTH)
    joined = (
        (heights <= 2 * high)
        & (heights >= _JOINED_HEIGHT)
        & (widths > _LETTER_WIDTH)
        & (marks[:, 4] >= _JOINED_INK * widths)
    )
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
        sheet = _Sheet(page, paper, grid, boxes[~own & small])
        kept = boxes[own & (heights >= _MARK_PIXELS) & (small | big | joined)]
        if big:
            parts.append(sheet.title(kept))
        else:
            parts.extend(sheet.text(kept, boxes[own & is_letter]))
    return () if len(parts) == 1 and fits and not any(is_big) else tuple(parts)


def _cut_across(split: Split, boxes: Boxes, is_letter: NDArray[np.bool_]) -> tuple[Split, tuple[bool, ...]]:
    """The stretches cut around their titles, at the rules of head and foot, and at wide empty strips; which of them are
    titles."""
    x, y = upright(boxes, split.degrees)
    wide, tall = (boxes[:, 2] - boxes[:, 0]) / 2, (boxes[:, 3] - boxes[:, 1]) / 2
    marks = np.stack([x - wide, y - tall, x + wide, y + tall], axis=1)
    owners = split.owner(boxes)
    pieces: list[tuple[Stretch, bool]] = []
    for index, stretch in enumerate(split.stretches):
        for piece, big in without_big_lines(stretch, marks[owners == index], TARGET_X_HEIGHT_PIXELS):
            cut = (piece,) if big else _text_pieces(piece, marks[owners == index], is_letter[owners == index])
            pieces.extend((each, big) for each in cut)
    return Split(tuple(stretch for stretch, _ in pieces), split.degrees), tuple(big for _, big in pieces)


def _text_pieces(
    piece: Stretch, marks: NDArray[np.float64], is_letter: NDArray[np.bool_]
) -> Iterator[Stretch]:
    """Head, text and foot of a piece, cut at wide empty strips, from the top; what is first or last and only a few lines
    high falls into its blocks."""
    middles = (marks[:, 1] + marks[:, 3]) / 2

    def within(stretch: Stretch) -> NDArray[np.bool_]:
        inside: NDArray[np.bool_] = (middles >= stretch.top) & (middles < stretch.bottom)
        return inside

    inside = within(piece)
    parts: list[Stretch] = []
    for part in cut_at_rules(piece, marks[inside], is_letter[inside], TARGET_X_HEIGHT_PIXELS):
        parts.extend(cut_at_gaps(part, marks[within(part) & is_letter], TARGET_X_HEIGHT_PIXELS))
    for number, part in enumerate(parts):
        at_an_end = len(parts) > 1 and number in (0, len(parts) - 1)
        inside = within(part)
        yield from (
            blocks_side_by_side(part, marks[inside], is_letter[inside], TARGET_X_HEIGHT_PIXELS)
            if at_an_end
            else (part,)
        )


@dataclass(frozen=True, slots=True)
class _Sheet:
    """The page that pieces are cut from. `foreign` are marks of other pieces, pixels; they are painted over."""

    page: PreparedPage
    paper: int
    grid: Grid
    foreign: Boxes

    def text(self, marks: Boxes, letters: Boxes) -> Iterator[PreparedPage]:
        """What holds the marks, along the cells of the page: one piece, or several where it is too high."""
        across, down = self.grid.cell_width, self.grid.cell_height
        left = max(0, int(marks[:, 0].min() - _MARGIN_PIXELS) // across)
        top = max(0, int(marks[:, 1].min() - _MARGIN_PIXELS) // down)
        right = min(self.page.grid_columns, -(-int(marks[:, 2].max() + _MARGIN_PIXELS) // across))
        bottom = min(self.page.grid_rows, -(-int(marks[:, 3].max() + _MARGIN_PIXELS) // down))
        if right - left > self.grid.most_columns:
            raise ValueError("a line of this page is longer than the reader's grid")
        middles = (letters[:, 1] + letters[:, 3]) / 2
        while top < bottom:
            cut = bottom
            if bottom - top > self.grid.most_rows:
                cut = _row_between_lines(
                    letters, top + self.grid.most_rows // 2, top + self.grid.most_rows, down
                )
            inside = (middles >= top * down) & (middles < cut * down)
            others = np.concatenate([self.foreign, letters[~inside]])
            yield self._piece(
                self._cut(left * across, top * down, right * across, cut * down, others),
                left * across,
                top * down,
            )
            top = cut

    def title(self, marks: Boxes) -> PreparedPage:
        """Big letters brought to the reading size."""
        height, width = self.page.views[0].shape[:2]
        tall = float(np.median(marks[:, 3] - marks[:, 1]))
        margin = max(_MARGIN_PIXELS, int(tall))
        left, top = max(0, int(marks[:, 0].min()) - margin), max(0, int(marks[:, 1].min()) - margin)
        right, bottom = (
            min(width, int(marks[:, 2].max()) + margin),
            min(height, int(marks[:, 3].max()) + margin),
        )
        pixels = self._cut(left, top, right, bottom, self.foreign)
        letters = measure_letters(pixels)
        scale = (
            reading_scale(letters, None)
            if letters.components
            else _MEAN_LETTER * TARGET_X_HEIGHT_PIXELS / tall
        )
        widest, highest = (
            self.grid.most_columns * self.grid.cell_width,
            self.grid.most_rows * self.grid.cell_height,
        )
        scale = min(scale, 1.0, widest / (right - left), highest / (bottom - top))
        size = max(1, round((right - left) * scale)), max(1, round((bottom - top) * scale))
        resized = np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS))
        return self._piece(resized, left, top, (right - left) / size[0], (bottom - top) / size[1])

    def _cut(self, left: int, top: int, right: int, bottom: int, foreign: Boxes) -> NDArray[np.uint8]:
        """Pixels of the page without foreign marks, uint8 [bottom - top, right - left]."""
        pixels = self.page.views[0][top:bottom, left:right, 0].copy()
        shifted = foreign - np.array([left, top, left, top])
        for x0, y0, x1, y1 in shifted[_meets(shifted, right - left, bottom - top)]:
            pixels[max(y0 - 1, 0) : y1 + 1, max(x0 - 1, 0) : x1 + 1] = self.paper
        return pixels

    def _piece(
        self, pixels: NDArray[np.uint8], left: int, top: int, wider: float = 1.0, taller: float = 1.0
    ) -> PreparedPage:
        """A page of its own, filled up to whole cells. `wider`, `taller`: pixels of the page per pixel of the piece."""
        height, width = pixels.shape
        rows = max(-(-height // self.grid.cell_height), _LEAST_ROWS)
        columns = max(-(-width // self.grid.cell_width), _LEAST_COLUMNS)
        view = np.full(
            (rows * self.grid.cell_height, columns * self.grid.cell_width, 1), self.paper, np.uint8
        )
        view[:height, :width, 0] = pixels
        a, b, c, d, e, f = self.page.transform
        return replace(
            self.page,
            views=(view,),
            grid_rows=rows,
            grid_columns=columns,
            image_tokens=rows * columns,
            transform=(
                a * wider, b * taller, c + a * left + b * top, d * wider, e * taller, f + d * left + e * top,
            ),
            scale=self.page.scale / wider,
            ink_share=float((view < self.paper - INK_BELOW_PAPER).mean()),
        )  # fmt: skip


def _row_between_lines(letters: Boxes, first: int, last: int, cell_height: int) -> int:
    """The row of cells in first..last, the lowest of the best, whose upper edge meets the fewest letters."""
    edges = np.arange(first, last + 1) * cell_height
    met = ((letters[:, 1] < edges[:, None]) & (letters[:, 3] > edges[:, None])).sum(1)
    return int(first + len(met) - 1 - met[::-1].argmin())


def _meets(boxes: Boxes, width: int, height: int) -> NDArray[np.bool_]:
    met: NDArray[np.bool_] = (
        (boxes[:, 0] < width) & (boxes[:, 1] < height) & (boxes[:, 2] > 0) & (boxes[:, 3] > 0)
    )
    return met
