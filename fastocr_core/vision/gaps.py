"""Wide empty strips of a page: what lies above and below one is read by itself, and the emptiness is not read at all.

So a foot far below a short text is not forgotten, and a page that is half empty costs half.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from fastocr_core.vision.regions import Stretch

_EMPTY = 12.0  # height of a strip, x-heights: about five lines
_WORD_LETTERS = 2  # a piece has so many letters, or one of full height
_FULL_HEIGHT = 0.9


def cut_at_gaps(stretch: Stretch, letters: NDArray[np.float64], x_height: float) -> tuple[Stretch, ...]:
    """Pieces of a stretch from the top; specks by themselves make none, but stay with the piece above or below.

    letters: upright boxes of the letters in it, float64 [N, 4]: left, top, right, bottom, pixels.
    """
    if not len(letters):
        return (stretch,)
    _, cuts = groups_apart(letters, 1, _EMPTY * x_height, x_height)
    edges = [stretch.top, *cuts, stretch.bottom]
    return tuple(
        Stretch(stretch.left, top, stretch.right, bottom) for top, bottom in itertools.pairwise(edges)
    )


def groups_apart(
    letters: NDArray[np.float64], axis: int, least: float, x_height: float
) -> tuple[list[NDArray[np.float64]], list[float]]:
    """Letters that strips emptier than `least` pixels part along an axis (0 across, 1 down), and the middles of the strips.

    Specks by themselves are no group, and no strip ends at them. letters: float64 [N, 4], N at least 1.
    """
    ordered = letters[np.argsort(letters[:, axis], kind="stable")]
    reach = np.maximum.accumulate(ordered[:, axis + 2])
    wide = np.flatnonzero(ordered[1:, axis] - reach[:-1] > least) + 1
    groups = np.split(np.arange(len(ordered)), wide)
    sound = [group for group in groups if _is_text(ordered[group], x_height)]
    cuts = [float(reach[one[-1]] + ordered[other[0], axis]) / 2 for one, other in itertools.pairwise(sound)]
    return [ordered[group] for group in sound], cuts


def _is_text(letters: NDArray[np.float64], x_height: float) -> bool:
    """Whether so few letters are more than a speck: two of them, or one of full height. float64 [N, 4], N at least 1."""
    tallest = float((letters[:, 3] - letters[:, 1]).max())
    return len(letters) >= _WORD_LETTERS or tallest >= _FULL_HEIGHT * x_height
