"""Where a page falls into columns of running text, so that each can be read by itself, one after the other.

A gutter is a white strip with lines of running text on both sides of it; what lies between columns of figures, labels or
short cells is none. Numbers are in x-heights of the body text, the unit in which all pages are alike.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_CELL = 0.42  # of the coarse picture of the page
_GUTTER = 1.6  # least width
_GUTTER_LINES = 10.0  # least height, about five lines
_WORD_GAP = 1.9  # wider ones end a stretch of text
_LEAST_ROWS, _SHORT_ROWS = 5, 3  # lines of a column; of the last one, which may end early
_LEAST_WIDTH = 11.0  # of a column
_FULL_LINES = 0.6  # lines of running text are mostly as wide as the column
_ALIGNED, _SAME_EDGE = 0.6, 1.0  # share of lines that begin at an edge with others, and how near that is
_CLOSE = 0.55  # of the height of a column that lines at their usual distance fill
_LEAST_LETTERS = 60
_TRIED = 6  # candidates for a gutter, the longest first
_TURNS = tuple(round(0.3 * step, 1) for step in range(-6, 7))  # degrees of skew that are told apart
_MARK_WIDTH, _MARK_GAP = 4.0, 3.4  # of the marks of a list at most, and of the room between them and the text
_LEAST_MARKS, _MARKED_LINES = 2, 0.5  # marks in a column, and the largest share of its lines that have one
_SECTION_GAP, _SAME_FOOT = 1.5, 0.5  # of side heads: room above, of the usual pitch; distance of feet in line
_SECTIONS = 2  # so many of them at least
_MOST_RULES = 3  # on a page; more are those of a table, and no column ends at them
_LONE_LINE, _LONE_GAP = 3.2, 3.0  # a running head or foot: at most so high, at least so far away

Boxes = NDArray[np.int64]  # [N, 4]: left, top, right, bottom (exclusive), pixels
_NO_BOXES: Boxes = np.zeros((0, 4), np.int64)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the page in upright coordinates (skew taken out), pixels: [left, right) x [top, bottom)."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Split:
    """How a page falls apart: stretches in reading order and the skew in which they are upright, degrees clockwise."""

    stretches: tuple[Stretch, ...]
    degrees: float

    def owner(self, boxes: Boxes) -> NDArray[np.int64]:
        """Index of the stretch in which each box has its middle, -1 for none: int64 [N]."""
        x, y = upright(boxes, self.degrees)
        owners = np.full(len(boxes), -1)
        for index, part in enumerate(self.stretches):
            inside = (x >= part.left) & (x < part.right) & (y >= part.top) & (y < part.bottom)
            owners[inside & (owners < 0)] = index
        return owners


def upright(boxes: Boxes, degrees: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Middles of boxes with a skew of `degrees` clockwise taken out, by shearing."""
    x, y = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
    slope = math.tan(math.radians(degrees))
    return x + slope * y, y - slope * x


def split_columns(letters: Boxes, x_height: float, rules: Boxes = _NO_BOXES) -> Split | None:
    """Cut a page between columns of running text; None where there are none.

    letters: boxes of single letters; x_height: of the body text, pixels; rules: boxes of lines drawn across, at which
    columns end.
    """
    if len(letters) < _LEAST_LETTERS:
        return None
    degrees = skew_of(letters, x_height)
    stretches = tuple(_Page(letters, x_height, degrees, rules).stretches(-math.inf, math.inf))
    return Split(stretches, degrees) if len(stretches) > 1 else None


def skew_of(letters: Boxes, x_height: float) -> float:
    """Degrees clockwise, one of a few up to 1.8 either way: that at which letters stand on the fewest lines."""

    def sharpness(degrees: float) -> float:
        feet = letters[:, 3] - math.tan(math.radians(degrees)) * (letters[:, 0] + letters[:, 2]) / 2
        counts = np.bincount(np.floor((feet - feet.min()) / (0.2 * x_height)).astype(int)).astype(np.float64)
        return float((counts**2).sum())

    best = max(_TURNS, key=sharpness)
    return best if sharpness(best) > 1.1 * sharpness(0.0) else 0.0


class _Page:
    """Letters of a page at one skew."""

    def __init__(self, letters: Boxes, x_height: float, degrees: float, rules: Boxes) -> None:
        x, y = upright(letters, degrees)
        wide, high = (letters[:, 2] - letters[:, 0]) / 2, (letters[:, 3] - letters[:, 1]) / 2
        self._unit = x_height
        order = np.argsort(y, kind="stable")
        self._boxes = np.stack([x - wide, y - high, x + wide, y + high], axis=1)[order] / x_height
        if len(rules) > _MOST_RULES:
            rules = _NO_BOXES
        x, y = upright(rules, degrees)
        wide = (rules[:, 2] - rules[:, 0]) / 2
        self._rules = np.stack([x - wide, y, x + wide, y], axis=1) / x_height

    def stretches(self, top: float, bottom: float) -> Iterator[Stretch]:
        """What lies between two heights (x-heights), in reading order; nothing without letters."""
        middle = (self._boxes[:, 1] + self._boxes[:, 3]) / 2
        boxes = self._boxes[(middle >= top) & (middle < bottom)]
        if not len(boxes):
            return
        found = _columns(boxes, self._rules)
        if found is None:
            yield self._stretch(-math.inf, top, math.inf, bottom)
            return
        yield from self.stretches(top, found.top)
        for left, right in itertools.pairwise(found.edges):
            yield self._stretch(left, max(top, found.top), right, min(bottom, found.bottom))
        yield from self.stretches(found.bottom, bottom)

    def _stretch(self, left: float, top: float, right: float, bottom: float) -> Stretch:
        return Stretch(*(value * self._unit for value in (left, top, right, bottom)))


@dataclass(frozen=True, slots=True)
class _Columns:
    """edges: the outer ones are infinite, those between lie in the middle of gutters."""

    top: float
    bottom: float
    edges: tuple[float, ...]


def _columns(boxes: NDArray[np.float64], rules: NDArray[np.float64]) -> _Columns | None:
    """The highest block of columns among letters (x-heights), None where no gutter holds; none goes through a rule."""
    origin = boxes[:, :2].min(0) - _CELL
    cells = np.floor((boxes - np.tile(origin, 2)) / _CELL).astype(int)
    covered = _covered(cells)
    width = math.ceil(_GUTTER / _CELL)
    if covered.shape[1] <= width:
        return None
    crossed = covered.copy()
    for left, top, right, _ in np.floor((rules - np.tile(origin, 2)) / _CELL).astype(int):
        if 0 <= top < len(crossed):
            crossed[top, max(left, 0) : max(right, 0) + 1] = True
    windows = np.lib.stride_tricks.sliding_window_view(~crossed, width, axis=1)
    free: NDArray[np.bool_] = np.all(windows, axis=-1)
    runs = _runs(free)
    runs = runs[runs[:, 2] - runs[:, 1] >= _GUTTER_LINES / _CELL]
    tried: list[tuple[int, int]] = []
    for _, first, last in runs[np.argsort(runs[:, 1] - runs[:, 2], kind="stable")]:
        if any(abs(first - one) <= 2 and abs(last - other) <= 2 for one, other in tried):
            continue
        tried.append((int(first), int(last)))
        if len(tried) > _TRIED:
            break
        found = _block(boxes, free, covered, int(first), int(last), origin)
        if found is not None:
            return found
    return None


def _covered(cells: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Cells under boxes of cells [N, 4], all edges included."""
    steps = np.zeros((cells[:, 3].max() + 3, cells[:, 2].max() + 3), np.int32)
    left, top, right, bottom = cells.T
    np.add.at(steps, (top, left), 1)
    np.add.at(steps, (bottom + 1, left), -1)
    np.add.at(steps, (top, right + 1), -1)
    np.add.at(steps, (bottom + 1, right + 1), 1)
    covered: NDArray[np.bool_] = steps.cumsum(0).cumsum(1)[:-1, :-1] > 0
    return covered


def _runs(free: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Vertical runs of True: int64 [N, 3] of column, first row, row after the last."""
    padded = np.zeros((free.shape[1], free.shape[0] + 2), np.int8)
    padded[:, 1:-1] = free.T
    change = np.diff(padded, axis=1)
    column, first = np.nonzero(change == 1)
    _, last = np.nonzero(change == -1)
    return np.stack([column, first, last], axis=1)


def _block(
    boxes: NDArray[np.float64],
    free: NDArray[np.bool_],
    covered: NDArray[np.bool_],
    first: int,
    last: int,
    origin: NDArray[np.float64],
) -> _Columns | None:
    """Columns between two rows of the coarse picture, lone lines above and below left out."""
    first, last = _without_lone_lines(covered, first, last)
    if last - first < _GUTTER_LINES / _CELL:
        return None
    open_columns = np.flatnonzero(free[first:last].all(0))
    width = covered.shape[1] - free.shape[1] + 1
    edges = [-math.inf]
    for group in np.split(open_columns, np.flatnonzero(np.diff(open_columns) > 1) + 1):
        inked = covered[first:last]
        if len(group) and inked[:, : group[0]].any() and inked[:, group[-1] + width :].any():
            edges.append(float(origin[0] + (group[0] + group[-1] + width) / 2 * _CELL))
    edges.append(math.inf)
    top, bottom = origin[1] + first * _CELL, origin[1] + last * _CELL
    middle_x, middle_y = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
    inside = (middle_y >= top) & (middle_y < bottom)
    boxes, middle_x = boxes[inside], middle_x[inside]
    edges = _without_marks(boxes, middle_x, edges)
    columns = [boxes[(middle_x >= left) & (middle_x < right)] for left, right in itertools.pairwise(edges)]
    sound = [_is_running_text(column, index + 2 > len(columns)) for index, column in enumerate(columns)]
    if len(sound) < 2 or not all(sound):
        return None
    return _Columns(float(top), float(bottom), tuple(edges))


def _without_marks(
    boxes: NDArray[np.float64], middles: NDArray[np.float64], edges: list[float]
) -> list[float]:
    """Edges but those between the marks of a list and its text: marks stand before some lines, not before all."""
    kept = edges[:1]
    for edge, right in itertools.pairwise(edges[1:]):
        marks = boxes[(middles >= kept[-1]) & (middles < edge)]
        text = boxes[(middles >= edge) & (middles < right)]
        if not _are_marks(marks, text) or _head_sections(boxes[middles < kept[-1]], marks):
            kept.append(edge)
    return [*kept, edges[-1]]


def _are_marks(marks: NDArray[np.float64], text: NDArray[np.float64]) -> bool:
    """Whether letters are the marks of the text at the right of them: narrow, near it, and before few of its lines."""
    if not len(marks) or not len(text):
        return False
    end = float(marks[:, 2].max())
    if end - marks[:, 0].min() > _MARK_WIDTH or text[:, 0].min() - end > _MARK_GAP:
        return False
    items = 1 + int((np.diff(np.sort(marks[:, 3])) > 1.0).sum())
    return _LEAST_MARKS <= items <= _MARKED_LINES * len(_lines(text))


def _head_sections(beside: NDArray[np.float64], marks: NDArray[np.float64]) -> bool:
    """Whether paragraphs at the left of marks begin in line with them, as labels do beside the text they belong to."""
    heights = _lines(beside)[:, 3]
    if len(heights) < 2:
        return False
    steps = np.diff(heights)
    begun = heights[np.append(True, steps > _SECTION_GAP * np.quantile(steps, 0.25, method="lower"))]
    in_line = np.abs(begun[:, None] - marks[:, 3]).min(1, initial=math.inf) < _SAME_FOOT
    return int(in_line.sum()) >= _SECTIONS


def _without_lone_lines(covered: NDArray[np.bool_], first: int, last: int) -> tuple[int, int]:
    """Shrink a range of rows past running heads and feet, which belong to no column."""
    for _ in range(2):
        inked = np.flatnonzero(covered[first:last].any(1)) + first
        if not len(inked):
            return first, first
        gaps = np.flatnonzero(np.diff(inked) > _LONE_GAP / _CELL)
        if len(gaps) and inked[gaps[0]] - inked[0] < _LONE_LINE / _CELL:
            first = int(inked[gaps[0] + 1])
        if len(gaps) and inked[-1] - inked[gaps[-1] + 1] < _LONE_LINE / _CELL and inked[gaps[-1]] >= first:
            last = int(inked[gaps[-1]]) + 1
    return first, last


def _is_running_text(boxes: NDArray[np.float64], is_last: bool) -> bool:
    """Whether letters stand in enough lines, most of them as wide as the column and beginning at its edge."""
    lines = _lines(boxes)
    if len(lines) < (_SHORT_ROWS if is_last else _LEAST_ROWS):
        return False
    starts, ends, heights = lines[:, 0], lines[:, 1], lines[:, 3]
    usual = float(np.quantile(np.diff(heights), 0.25, method="lower"))
    if usual * (len(lines) - 1) < _CLOSE * (heights[-1] - heights[0]):
        return False  # labels beside a text, or a running head and a foot
    room = float(np.quantile(ends, 0.9)) - float(np.quantile(starts, 0.1))
    if room < _LEAST_WIDTH:
        return False
    full = float(np.median(lines[:, 2])) >= _FULL_LINES * room
    return full and _aligned_share(starts) >= _ALIGNED


def _aligned_share(starts: NDArray[np.float64]) -> float:
    """Share of lines that begin where at least two others do: at the edge, at an indent, behind the marks of a list."""
    near = np.abs(starts[:, None] - starts[None]) < _SAME_EDGE
    return float((near.sum(1) >= 3).mean())


def _lines(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lines of letters, from the top: start, end, width without wide gaps, height; float64 [lines, 4]."""
    small = np.abs(boxes[:, 3] - boxes[:, 1] - 1.0) < 0.35  # letters without ascender or descender
    if small.sum() < 4:
        return np.zeros((0, 4))
    step = 0.1
    base = boxes[:, 1].min()
    steps = np.zeros(int((boxes[:, 3].max() - base) / step) + 4, np.int64)
    np.add.at(
        steps, ((boxes[small, 1] - base) / step).astype(int) + 2, 1
    )  # a little less than the whole letter
    np.add.at(steps, ((boxes[small, 3] - base) / step).astype(int) - 1, -1)
    rows = np.concatenate([[False], steps.cumsum() > 0, [False]])
    change = np.flatnonzero(np.diff(rows.astype(np.int8)))
    middles = ((boxes[:, 1] + boxes[:, 3]) / 2 - base) / step
    lines = []
    for first, last in zip(change[::2], change[1::2], strict=True):
        line = boxes[(middles >= first - 3) & (middles < last + 3)]
        if len(line) >= 2:
            lines.append(_measured(line))
    return np.array(lines) if lines else np.zeros((0, 4))


def _measured(line: NDArray[np.float64]) -> tuple[float, float, float, float]:
    line = line[np.argsort(line[:, 0], kind="stable")]
    ends = np.maximum.accumulate(line[:, 2])
    breaks = np.flatnonzero(line[1:, 0] - ends[:-1] > _WORD_GAP)
    starts = line[np.concatenate([[0], breaks + 1]), 0]
    stops = ends[np.concatenate([breaks, [len(line) - 1]])]
    return float(line[0, 0]), float(ends[-1]), float((stops - starts).sum()), float(np.median(line[:, 3]))
