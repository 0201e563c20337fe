"""Lines of letters so much larger than the text of a page that they are read by themselves, made smaller: titles.

All measures are in x-heights of the text, the unit in which pages are alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastocr_core.vision.regions import Stretch

_BIG = 1.7  # height of the smallest letters of a big line; capitals of the text have 1.5
_LARGEST = 12.0  # higher marks are pictures
_WIDEST = 4.0  # times the height: a letter, or a few that touch
_LETTER = 0.6  # height from which a mark counts as a letter
_LEAST_LETTERS, _BIG_SHARE = 5, 0.9  # of a line: big letters, and their share of its letters
_HIGHEST_RUN = 30.0  # of big lines close to each other


def without_big_lines(
    stretch: Stretch, marks: NDArray[np.float64], x_height: float
) -> tuple[tuple[Stretch, bool], ...]:
    """Cut a stretch above and below its big lines: pieces from the top, each with whether it is big.

    marks: upright boxes of everything in the stretch, float64 [N, 4]: left, top, right, bottom, pixels.
    """
    pieces: list[tuple[Stretch, bool]] = []
    top = stretch.top
    for first, last in _runs(marks / x_height):
        above, below = first * x_height, last * x_height
        pieces += [(_between(stretch, top, above), False), (_between(stretch, above, below), True)]
        top = below
    pieces.append((_between(stretch, top, stretch.bottom), False))
    return tuple(pieces)


def _between(stretch: Stretch, top: float, bottom: float) -> Stretch:
    return Stretch(stretch.left, top, stretch.right, bottom)


def _runs(marks: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Upper and lower edges of big lines, those that overlap together, from the top."""
    widths, heights = marks[:, 2] - marks[:, 0], marks[:, 3] - marks[:, 1]
    is_big = (
        (heights >= _BIG) & (heights <= _LARGEST) & (widths <= _WIDEST * heights) & (widths >= 0.1 * heights)
    )
    big = marks[is_big]
    letters = marks[(heights >= _LETTER) & (heights <= _LARGEST)]
    middles = (letters[:, 1] + letters[:, 3]) / 2
    found: list[tuple[float, float]] = []
    for first, last in _joined(big[np.argsort(big[:, 1], kind="stable")]):
        inside = letters[(middles >= first) & (middles < last)]
        high = int((inside[:, 3] - inside[:, 1] >= _BIG).sum())
        if high >= max(_LEAST_LETTERS, _BIG_SHARE * len(inside)) and last - first <= _HIGHEST_RUN:
            found.append((first, last))
    return found


def _joined(boxes: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Heights that boxes sorted by their upper edge cover, overlapping ones together."""
    spans: list[tuple[float, float]] = []
    for top, bottom in boxes[:, [1, 3]]:
        if spans and top < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], float(bottom)))
        else:
            spans.append((float(top), float(bottom)))
    return spans
