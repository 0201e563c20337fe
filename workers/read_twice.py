"""Text held against itself: were lines read that had been read before, from the same place?

A page that begins again from its head ends by itself, sure of every word, and covers all ink: nothing else tells.
"""

import statistics
from collections import defaultdict

from fastocr_core.output import Block, PageText

Box = tuple[float, float, float, float]

LEAST_CHARACTERS = 8  # letters and digits of a line; shorter ones say the same in many places
READ_TWICE = 0.2  # share of a text from which on it is worth a look
SAME_PLACE = 0.4  # intersection over union of two boxes


def read_twice_share(page_text: PageText) -> float:
    """Share of the letters and digits in placed blocks whose words stand in an earlier block of the same place.

    Equal lines of different places, as in a form, are no such thing; 0.0 where the model does not say places.
    """
    seen: dict[str, list[Block]] = defaultdict(list)
    placed = again = 0
    for block in page_text.blocks:
        words = "".join(character for character in block.text.casefold() if character.isalnum())
        if block.box is None or not words:
            continue
        placed += len(words)
        if len(words) < LEAST_CHARACTERS:
            continue
        if any(_same_place(block, earlier) for earlier in seen[words]):
            again += len(words)
        else:
            seen[words].append(block)
    return again / placed if placed else 0.0


def _same_place(one: Block, other: Block) -> bool:
    """Word by word, where words are told apart: the box of a whole line that runs askew covers its neighbours too."""
    boxes = (one.word_boxes, other.word_boxes)
    if not boxes[0] or len(boxes[0]) != len(boxes[1]):
        boxes = ((one.box,) if one.box else (), (other.box,) if other.box else ())
    return statistics.median(_overlap(*pair) for pair in zip(*boxes, strict=True)) >= SAME_PLACE


def _overlap(one: Box, other: Box) -> float:
    """Intersection over union."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    union = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)) - both
    return both / union if union > 0 else 0.0  # of boxes thin beyond numbers nothing is known
