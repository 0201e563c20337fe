"""Word boxes drawn tight around the ink: the reader says in which strip a word begins, the page says where its ink lies.

Between two words there is a gap; the gap nearest to where a word was read to begin, and wide enough, is its beginning. What
finds no ink keeps its rough box. numpy only, deterministic.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fastocr_core.models.mini.line_tracks import (
    Floats,
    LineTrack,
    RoughLine,
    gaps_before,
    ink_marks,
    line_tracks,
    owners,
    start_merits,
)
from fastocr_core.vision.scale import TARGET_X_HEIGHT_PIXELS

Box = tuple[float, float, float, float]

ASCENT, DESCENT = 1.02, 0.97  # top and bottom of a rough box from the middle of its letters, in x-heights
FARTHEST = 14.0  # px between the place read and a gap: one strip misread, and half of one
WORD_GAP_SHARE = 0.7  # of the usual gap between the words of its line: what ends a word
ENDING_GAP = (3.0, 7.5)  # px: the same, in bounds
LETTER_PIXELS = (9.5, 28.0)  # what the letters of a line may measure
HIGHEST, DEEPEST = (
    1.45,
    1.15,
)  # of the letters of its line: how far a word may reach up and down from their middle
LINE_BORDER = -1.0  # px from the middle between two lines: accents rise higher than tails hang


def word_boxes(pixels: NDArray[np.uint8], lines: Sequence[RoughLine]) -> list[list[Box]]:
    """Boxes (x0, y0, x1, y1) of all words of all lines, in pixels of the grey view [height, width].

    A box holds the marks of its word; it reaches neither over the middle between two lines nor into the next word.
    """
    if not lines:
        return []
    marks = ink_marks(pixels)
    tracks = line_tracks(marks, lines)
    borders = _borders(lines, tracks)
    height, width = pixels.shape
    limit = np.array((width, height, width, height), np.float64)
    boxes = []
    for line, track, border, owned in zip(lines, tracks, borders, owners(marks, lines, tracks), strict=True):
        inked = _line(marks[owned], line, border, track)
        placed = [
            _rough(word, border, track) if box is None else box
            for word, box in zip(line.words, inked, strict=True)
        ]
        boxes.append([_box(box) for box in np.clip(_apart(np.array(placed)), 0.0, limit)])
    return boxes


def _box(values: Floats) -> Box:
    left, top, right, bottom = (float(value) for value in values)
    return left, top, right, bottom


def _rough(word: tuple[float, float], border: tuple[float, float], track: LineTrack) -> Box:
    left, right = word
    middle = float(track.at(np.array((left + right) / 2)))
    top = middle + max(border[0], -ASCENT * TARGET_X_HEIGHT_PIXELS)
    return left, top, max(right, left + 2), middle + min(border[1], DESCENT * TARGET_X_HEIGHT_PIXELS)


def _apart(boxes: Floats) -> Floats:
    """Boxes [n, 4] of a line's words, none reaching past the left side of the next."""
    following = boxes[1:, 0]
    ahead = following > boxes[:-1, 0]
    boxes[:-1, 2][ahead] = np.minimum(boxes[:-1, 2], following)[ahead]
    return boxes


def _borders(lines: Sequence[RoughLine], tracks: Sequence[LineTrack]) -> list[tuple[float, float]]:
    """How far up and down from its middle each line may reach: half of the way to the next line beside it, in px."""
    lefts = np.array([line.left for line in lines])
    rights = np.array([line.right for line in lines])
    borders = []
    for line, track in zip(lines, tracks, strict=True):
        beside = (lefts < line.right) & (rights > line.left)
        away = np.array([other.middle - float(track.at(np.array(other.left))) for other in tracks])
        above, below = away[beside & (away < -4)], away[beside & (away > 4)]
        borders.append(
            (
                float(above.max()) / 2 + LINE_BORDER if len(above) else -np.inf,
                float(below.min()) / 2 + LINE_BORDER if len(below) else np.inf,
            )
        )
    return borders


def _line(marks: Floats, line: RoughLine, border: tuple[float, float], track: LineTrack) -> list[Box | None]:
    """Boxes of a line's words from its marks [n, 4], sorted by left; None where a word has no ink of its own."""
    if not len(marks):
        return [None] * len(line.words)
    gaps = gaps_before(marks)
    starts = _starts(marks[:, 0], gaps, line)
    between = [
        gaps[start]
        for before, start in itertools.pairwise(starts)
        if before is not None and start is not None
    ]
    ending = float(np.clip(WORD_GAP_SHARE * np.median(between), *ENDING_GAP)) if between else ENDING_GAP[1]
    size = float(np.clip(np.median(marks[:, 3] - marks[:, 1]), *LETTER_PIXELS))
    highest, deepest = max(border[0], -HIGHEST * size), min(border[1], DEEPEST * size)
    boxes: list[Box | None] = []
    for start, end in zip(starts, _ends(marks, gaps, line, starts, ending), strict=True):
        if start is None:
            boxes.append(None)
            continue
        left, top = marks[start:end, :2].min(0)
        right, bottom = marks[start:end, 2:].max(0)
        middle = float(track.at(np.array((left + right) / 2)))
        top, bottom = max(top, middle + highest), min(bottom, middle + deepest)
        boxes.append((left, top, right, bottom) if bottom > top else None)
    return boxes


def _starts(lefts: Floats, gaps: Floats, line: RoughLine) -> list[int | None]:
    """For each word the index of the mark it begins with; None where no gap is near the place read."""
    starts: list[int | None] = []
    first = 0
    for left, _ in line.words:
        if first == len(lefts):
            starts.append(None)
            continue
        best = first + int(np.argmax(start_merits(lefts[first:], gaps[first:], np.array([left]))))
        if abs(lefts[best] - left) > FARTHEST:
            starts.append(None)
            continue
        starts.append(best)
        first = best + 1
    return starts


def _ends(
    marks: Floats, gaps: Floats, line: RoughLine, starts: Sequence[int | None], ending: float
) -> list[int]:
    """For each word the index after its last mark: at the next word, or before it at a gap of `ending` px or more."""
    ends = []
    following = len(marks)  # first mark of the next word
    for (left, right), start in zip(reversed(line.words), reversed(starts), strict=True):
        if (
            start is None
        ):  # without ink of its own, but what stands where it was read to begin is not its neighbour's
            ends.append(following)
            following = min(following, int(np.searchsorted(marks[:, 0], left)))
            continue
        half = marks[start, 0] + 0.5 * (right - left)
        reached = np.maximum.accumulate(marks[start:following, 2])[:-1]
        wide = np.flatnonzero((gaps[start + 1 : following] >= ending) & (reached >= half))
        ends.append(start + 1 + int(wide[0]) if len(wide) else max(following, start + 1))
        following = start
    return ends[::-1]
