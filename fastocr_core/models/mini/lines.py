"""From the reader's tokens to lines with boxes: row and column tokens say where each word starts, the ink says the rest."""

import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fastocr_core.models.mini.alphabet import COLUMN_PIXELS, ROW_PIXELS, WrittenWord, written_words
from fastocr_core.models.mini.ink_boxes import Box, word_boxes
from fastocr_core.models.mini.line_tracks import RoughLine
from fastocr_core.vision.prepared import PreparedPage

_TYPICAL_ADVANCE_PIXELS = 9.0
_ADVANCES = (6.0, 14.0)  # px: between the columns of a table words say nothing of the width of letters
_WIDE, _NARROW = set("mwMWÆŒæœ@%—…"), set("iljtfrI.,:;'!|()[]-‘’·¡ìíîï")


@dataclass(frozen=True, slots=True)
class ReadLine:
    """text of one line; box (x0, y0, x1, y1) and word boxes in pixels of the given image."""

    text: str
    box: Box
    word_boxes: tuple[Box, ...]
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
    return (
        min(max(statistics.median(rates), _ADVANCES[0]), _ADVANCES[1]) if rates else _TYPICAL_ADVANCE_PIXELS
    )


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
    """Group tokens into lines. Words begin where they were read to begin; their boxes are drawn around the ink there."""
    grouped, opens, rough = _rough_lines(tokens)
    boxes = word_boxes(page.views[0][:, :, 0], rough)
    lines: list[ReadLine] = []
    for line, opening, row in zip(grouped, opens, boxes, strict=True):
        placed = tuple((*_to_image(page, x0, y0), *_to_image(page, x1, y1)) for x0, y0, x1, y1 in row)
        lefts, tops, rights, bottoms = zip(*placed, strict=True)
        whole = (min(lefts), min(tops), max(rights), max(bottoms))
        lines.append(ReadLine(" ".join(word.text for word in line), whole, placed, opening))
    return lines


def text_of_lines(tokens: Sequence[int]) -> str:
    """The text alone: lines joined by newlines, an empty line before one that starts a paragraph."""
    grouped, opens, _ = _rough_lines(tokens)
    return joined(
        (" ".join(word.text for word in line), opening) for line, opening in zip(grouped, opens, strict=True)
    )


def joined(lines: Iterable[tuple[str, bool]]) -> str:
    """Texts of lines, and whether each starts a paragraph, as the text of a page."""
    return "".join(("\n\n" if opens else "\n") + text for text, opens in lines).strip("\n")


def _rough_lines(tokens: Sequence[int]) -> tuple[list[list[WrittenWord]], list[bool], list[RoughLine]]:
    """Words by line, whether the line starts a paragraph, and where its words lie going by the tokens alone.

    Only the starts of words are read; their widths are guessed from their letters.
    """
    words = written_words(tokens)
    advance = _advance(words)
    by_line: dict[int, list[WrittenWord]] = {}
    for word in words:
        by_line.setdefault(word.line, []).append(word)
    grouped = list(by_line.values())
    rows = [line[0].row for line in grouped]
    gaps = [after - before for before, after in itertools.pairwise(rows) if after > before]
    usual = statistics.median(gaps) if gaps else 2.0
    opens = [False] * min(1, len(rows))
    opens += [
        after - before > 1.6 * usual + 0.5 or after < before for before, after in itertools.pairwise(rows)
    ]
    rough = [
        RoughLine(middle, _rough_words(line, advance))
        for line, middle in zip(grouped, _middles(rows, usual), strict=True)
    ]
    return grouped, opens, rough


def _rough_words(line: Sequence[WrittenWord], advance: float) -> tuple[tuple[float, float], ...]:
    """Left and right of each word in view pixels."""
    ends = []
    for index, word in enumerate(line):
        left = (word.column + 0.5) * COLUMN_PIXELS
        right = left + advance * _units(word.text)
        if index + 1 < len(line) and line[index + 1].column > word.column:
            right = min(right, (line[index + 1].column + 0.5) * COLUMN_PIXELS - 0.3 * advance)
        ends.append((left, right))
    return tuple(ends)
