"""The head and the foot of a page that a rule sets off from its text, and the blocks of such lines that stand far from each
other: each is read by itself.

A reader that has come down a page is easily lost on the way across, and three lines at the right edge belong together. All
measures are in x-heights of the text.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from fastocr_core.vision.regions import Stretch

_RULE_SHARE = 0.5  # least length, of the width of the text
_THIN = 0.9  # a rule that the scan has turned a little is as high as this
_HEAD, _FOOT = 5.0, 8.0  # the most they measure from the rule to their far edge
_TEXT = 15.0  # the least that stays between them
_RULES_IN_TEXT = 1  # more are those of a table, whose first and last rows are no head and no foot
_LEAST_LETTERS = 3
_APART = 4.0  # white between blocks, about two words wide


def cut_at_rules(
    stretch: Stretch, marks: NDArray[np.float64], letters: NDArray[np.float64], x_height: float
) -> tuple[Stretch, ...]:
    """Pieces of a stretch from the top: head, text and foot, as far as rules set them off.

    marks: upright boxes of everything in the stretch, letters: of its letters, float64 [N, 4]: left, top, right, bottom,
    pixels.
    """
    if len(letters) < 3 * _LEAST_LETTERS:
        return (stretch,)
    rules = _rules(marks, letters, x_height)
    middles = (letters[:, 1] + letters[:, 3]) / 2
    first, last = float(letters[:, 1].min()), float(letters[:, 3].max())
    heads = [y for y in rules if y - first <= _HEAD * x_height and (middles < y).sum() >= _LEAST_LETTERS]
    feet = [y for y in rules if last - y <= _FOOT * x_height and (middles > y).sum() >= _LEAST_LETTERS]
    top, bottom = max(heads, default=first), min(feet, default=last)
    between = sum(top < y < bottom for y in rules)
    if bottom - top < _TEXT * x_height or between > _RULES_IN_TEXT:
        return (stretch,)
    edges = [stretch.top, *([top] if heads else []), *([bottom] if feet else []), stretch.bottom]
    return tuple(
        Stretch(stretch.left, above, stretch.right, below) for above, below in itertools.pairwise(edges)
    )


def _rules(marks: NDArray[np.float64], letters: NDArray[np.float64], x_height: float) -> list[float]:
    """Heights of the rules that no letter meets, pixels."""
    width = float(letters[:, 2].max() - letters[:, 0].min())
    is_rule = (marks[:, 2] - marks[:, 0] >= _RULE_SHARE * width) & (
        marks[:, 3] - marks[:, 1] <= _THIN * x_height
    )
    heights = [float(y) for y in (marks[is_rule, 1] + marks[is_rule, 3]) / 2]
    return [y for y in heights if not ((letters[:, 1] < y) & (letters[:, 3] > y)).any()]


def blocks_side_by_side(
    stretch: Stretch, letters: NDArray[np.float64], x_height: float
) -> tuple[Stretch, ...]:
    """Blocks of a head or foot from left to right; a piece higher than those stays whole.

    letters: upright boxes of the letters in it, float64 [N, 4]: left, top, right, bottom, pixels.
    """
    if not len(letters) or letters[:, 3].max() - letters[:, 1].min() > _FOOT * x_height:
        return (stretch,)
    sorted_letters = letters[np.argsort(letters[:, 0], kind="stable")]
    reach = np.maximum.accumulate(sorted_letters[:, 2])
    gaps = sorted_letters[1:, 0] - reach[:-1]
    cuts = [float(reach[index] + gaps[index] / 2) for index in np.flatnonzero(gaps > _APART * x_height)]
    edges = [stretch.left, *cuts, stretch.right]
    return tuple(
        Stretch(left, stretch.top, right, stretch.bottom) for left, right in itertools.pairwise(edges)
    )
