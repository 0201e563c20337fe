"""The head and the foot of a page that a rule sets off from its text, and the blocks of such lines that stand far from each
other: each is read by itself.

A reader that has come down a page is easily lost on the way across, and three lines at the right edge belong together. What
might be a table, or holds ink that is not plainly letters, stays as it is. All measures are in x-heights of the text.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from fastocr_core.vision.gaps import groups_apart
from fastocr_core.vision.regions import Stretch

_RULE_SHARE = 0.5  # least length, of the width of the text
_THIN = 0.9  # a rule that the scan has turned a little is as high as this
_HEAD, _FOOT = 5.0, 8.0  # the most they measure from the rule to their far edge
_TEXT = 15.0  # the least that stays between them
_RULES_IN_TEXT = 1  # more are those of a table, whose first and last rows are no head and no foot
_LEAST_LETTERS, _LETTER = 3, 0.6  # of a head or foot, and how high they are at least
_APART = 4.0  # white between blocks, about two words wide
_LINE = 1.2  # baselines nearer than this are one line


def cut_at_rules(
    stretch: Stretch, marks: NDArray[np.float64], is_letter: NDArray[np.bool_], x_height: float
) -> tuple[Stretch, ...]:
    """Pieces of a stretch from the top: head, text and foot, as far as rules set them off.

    marks: upright boxes of everything in the stretch, float64 [N, 4]: left, top, right, bottom, pixels; is_letter: bool [N].
    """
    letters = marks[is_letter]
    if len(letters) < 3 * _LEAST_LETTERS:
        return (stretch,)
    rules = _rules(marks, letters, x_height)
    middles = (letters[:, 1] + letters[:, 3]) / 2
    sure = middles[letters[:, 3] - letters[:, 1] >= _LETTER * x_height]
    other = marks[
        ~is_letter & (marks[:, 3] - marks[:, 1] > _THIN * x_height)
    ]  # words that touch, pictures, big letters
    strange = (other[:, 1] + other[:, 3]) / 2
    first, last = float(letters[:, 1].min()), float(letters[:, 3].max())
    heads = [
        y
        for y in rules
        if y - first <= _HEAD * x_height and (sure < y).sum() >= _LEAST_LETTERS and not (strange < y).any()
    ]
    feet = [
        y
        for y in rules
        if last - y <= _FOOT * x_height and (sure > y).sum() >= _LEAST_LETTERS and not (strange > y).any()
    ]
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
    stretch: Stretch, marks: NDArray[np.float64], is_letter: NDArray[np.bool_], x_height: float
) -> tuple[Stretch, ...]:
    """Blocks of a head or foot from left to right. It stays whole where it is higher than those, where two lines or more go
    through several blocks, as in a table, and where it holds ink that is not plainly letters.

    marks, is_letter: as for `cut_at_rules`.
    """
    letters = marks[is_letter]
    if not len(letters) or letters[:, 3].max() - letters[:, 1].min() > _FOOT * x_height:
        return (stretch,)
    if (marks[~is_letter, 3] - marks[~is_letter, 1] > _THIN * x_height).any():
        return (stretch,)
    blocks, cuts = groups_apart(letters, 0, _APART * x_height, x_height)
    if _shared_lines(blocks, x_height) > 1:
        return (stretch,)
    edges = [stretch.left, *cuts, stretch.right]
    return tuple(
        Stretch(left, stretch.top, right, stretch.bottom) for left, right in itertools.pairwise(edges)
    )


def _shared_lines(blocks: list[NDArray[np.float64]], x_height: float) -> int:
    """How many lines have letters in two blocks or more."""
    feet = [
        (float(foot), number)
        for number, block in enumerate(blocks)
        for foot in block[block[:, 3] - block[:, 1] >= _LETTER * x_height, 3]
    ]
    lines: list[list[tuple[float, int]]] = []
    for foot, number in sorted(feet):
        if lines and foot - lines[-1][0][0] <= _LINE * x_height:
            lines[-1].append((foot, number))
        else:
            lines.append([(foot, number)])
    return sum(len({number for _, number in line}) > 1 for line in lines)
