"""Word boxes against truth: intersection over union of words that were read, matched by text and place in the sequence."""

from collections.abc import Sequence
from difflib import SequenceMatcher

Box = tuple[float, float, float, float]


def box_iou(one: Box, other: Box) -> float:
    """Intersection over union of two boxes (x0, y0, x1, y1), 0 to 1."""
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(0.0, across) * max(0.0, down)
    union = _area(one) + _area(other) - shared
    return shared / union if union > 0 else 0.0


def _area(box: Box) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def matched_ious(truth: Sequence[tuple[str, Box]], found: Sequence[tuple[str, Box]]) -> list[float]:
    """IoU of every word of `found` that is aligned with an equal word of `truth`; misread words are not judged."""
    pairs = aligned([text for text, _ in truth], [text for text, _ in found])
    return [box_iou(truth[left][1], found[right][1]) for left, right in pairs]


def aligned(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
    """Index pairs of equal words in an alignment of two sequences, rising in both."""
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return [
        (block.a + step, block.b + step)
        for block in matcher.get_matching_blocks()
        for step in range(block.size)
    ]
