"""From the reader's tokens to lines with boxes: row and column tokens say where each word starts."""

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from fastocr_core.models.mini.alphabet import COLUMN_PIXELS, ROW_PIXELS, WrittenWord, written_words
from fastocr_core.vision.prepared import PreparedPage
from fastocr_core.vision.scale import TARGET_X_HEIGHT_PIXELS

_TYPICAL_ADVANCE_PIXELS = 9.0
ASCENT, DESCENT = 1.02, 0.97  # top and bottom of a line from the middle of its letters, in x-heights
_WIDE, _NARROW = set("mwMWÆŒæœ@%—…"), set("iljtfrI.,:;'!|()[]-‘’·¡ìíîï")


@dataclass(frozen=True, slots=True)
class ReadLine:
    """text of one line; box (x0, y0, x1, y1) and word boxes in pixels of the given image."""

    text: str
    box: tuple[float, float, float, float]
    word_boxes: tuple[tuple[float, float, float, float], ...]
    starts_paragraph: bool


def _units(word: str) -> float:
    """Rough width of a word in average letters."""
    return sum(1.6 if c in _WIDE else 0.55 if c in _NARROW else 1.25 if c.isupper() else 1.0 for c in word)


def _advance(words: Sequence[WrittenWord]) -> float:
    """View pixels per average letter, from the distances between word starts of all lines."""
    rates = [
        (after.column - before.column) * COLUMN_PIXELS / (_units(before.text) + 0.55)
        for before, after in itertools.pairwise(words)
        if before.line == after.line and after.column > before.column
    ]
    return statistics.median(rates) if rates else _TYPICAL_ADVANCE_PIXELS


def _to_image(page: PreparedPage, x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = page.transform
    column = min(max(a * x + b * y + c, 0.0), float(page.source_width))
    return column, min(max(d * x + e * y + f, 0.0), float(page.source_height))


def _middles(rows: Sequence[int], usual: float) -> list[float]:
    """Heights of the lines in view pixels.

    Lines at an even pitch lie on a straight line, which is nearer than the middles of the bands read.
    """
    middles = [(row + 0.5) * ROW_PIXELS for row in rows]
    start = 0
    for end in range(1, len(rows) + 1):
        if end < len(rows) and abs(rows[end] - rows[end - 1] - usual) <= 1:
            continue
        if end - start >= 3:
            slope, height = statistics.linear_regression(range(end - start), middles[start:end])
            for index in range(start, end):
                low, high = rows[index] * ROW_PIXELS, (rows[index] + 1) * ROW_PIXELS
                middles[index] = min(max(height + slope * (index - start), low), high)
        start = end
    return middles


def lines_of(tokens: Sequence[int], page: PreparedPage) -> list[ReadLine]:
    """Group tokens into lines. Word widths are estimated from their letters: only word starts are read."""
    words = written_words(tokens)
    advance = _advance(words)
    grouped: dict[int, list[WrittenWord]] = {}
    for word in words:
        grouped.setdefault(word.line, []).append(word)
    rows = [line[0].row for line in grouped.values()]
    gaps = [after - before for before, after in itertools.pairwise(rows) if after > before]
    usual = statistics.median(gaps) if gaps else 2.0
    lines: list[ReadLine] = []
    previous: int | None = None
    for line, middle in zip(grouped.values(), _middles(rows, usual), strict=True):
        boxes = []
        for index, word in enumerate(line):
            left = (word.column + 0.5) * COLUMN_PIXELS
            right = left + advance * _units(word.text)
            if index + 1 < len(line) and line[index + 1].column > word.column:
                right = min(right, (line[index + 1].column + 0.5) * COLUMN_PIXELS - 0.3 * advance)
            top = _to_image(page, left, middle - ASCENT * TARGET_X_HEIGHT_PIXELS)
            bottom = _to_image(page, max(right, left + 2), middle + DESCENT * TARGET_X_HEIGHT_PIXELS)
            boxes.append((*top, *bottom))
        lefts, tops, rights, bottoms = zip(*boxes, strict=True)
        box = (min(lefts), min(tops), max(rights), max(bottoms))
        row = line[0].row
        opens = previous is not None and (row - previous > 1.6 * usual + 0.5 or row < previous)
        lines.append(ReadLine(" ".join(word.text for word in line), box, tuple(boxes), opens))
        previous = row
    return lines
