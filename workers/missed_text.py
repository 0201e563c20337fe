"""The page held against its reading: does print stand where no line of the text has its place?

A reading that ends early, or leaves a column out, is sure of every word it wrote. What it left out is still to be seen on
the page: letters that stand in lines, outside all boxes. Only for models that say where (nearly) all of their text stands.
"""

import numpy as np
from numpy.typing import NDArray

from fastocr_core.output import PageText
from fastocr_core.vision.components import component_boxes, ink_threshold
from fastocr_core.vision.prepared import PreparedPage
from workers.ink_check import box_in_view
from workers.turn import letters_in_lines

PLACED_SHARE = 0.95  # of the letters and digits of a text
LEAST_LETTERS = 120  # in lines of the page; on emptier pages a stamp or a signature is much
LEAST_MISSED = 30  # about a line: less is a number at the edge, a word in a picture
TONES_STEP = 2  # a quarter of the pixels parts ink from paper as well as all
MISSED_TEXT = 0.03  # share of the letters of a page from which on it is worth a look
MARGIN = (0.25, 0.004)  # around a box: of its height, at most so much of the page's


def missed_share(page_text: PageText, prepared: PreparedPage, letters: int) -> float:
    """Letters in lines that lie in no block's box, as a share of the `letters` seen to stand in lines.

    0.0 where the model does not say places, and where what is left is too little to be a line.
    """
    if letters < LEAST_LETTERS or _placed_share(page_text) < PLACED_SHARE:
        return 0.0
    ink = _uncovered_ink(page_text, prepared)
    if not ink.any():
        return 0.0
    missed = letters_in_lines(component_boxes(ink), ink.shape[1])
    if missed < LEAST_MISSED:
        return 0.0
    return max(0.0, min(1.0, missed / letters) - _displaced_share(page_text))


def _displaced_share(page_text: PageText) -> float:
    """Share of the letters and digits whose box has its middle in the box of another block: read, but placed on a
    neighbouring line, so that their own seems to be missing.
    """
    placed = [block for block in page_text.blocks if block.box is not None and block.text.strip()]
    boxes = np.array([block.box for block in placed]).reshape(-1, 4)
    counts = np.array([sum(map(str.isalnum, block.text)) for block in placed])
    across, down = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
    inside = (boxes[:, :1] <= across) & (across <= boxes[:, 2:3])  # [n, n]: the middle of j in the box of i
    inside &= (boxes[:, 1:2] <= down) & (down <= boxes[:, 3:])
    np.fill_diagonal(inside, val=False)
    return float(counts[inside.any(axis=0)].sum() / max(1, counts.sum()))


def _placed_share(page_text: PageText) -> float:
    """Share of the letters and digits that stand in blocks with a box; 0.0 for an empty text."""
    counts = [(block.box, sum(map(str.isalnum, block.text))) for block in page_text.blocks]
    total = sum(count for _, count in counts)
    return sum(count for box, count in counts if box is not None) / total if total else 0.0


def _uncovered_ink(page_text: PageText, prepared: PreparedPage) -> NDArray[np.bool_]:
    """Ink of view 0 outside all boxes, also those of pictures: [height, width]."""
    view = prepared.views[0]
    grey = view[:, :, 0] if view.shape[2] == 1 else view.mean(axis=2).astype(np.uint8)
    ink: NDArray[np.bool_] = grey < ink_threshold(np.ascontiguousarray(grey[::TONES_STEP, ::TONES_STEP]))
    for block in page_text.blocks:
        if block.box is None:
            continue
        left, top, right, bottom = box_in_view(block.box, prepared)
        if not np.isfinite((left, top, right, bottom)).all():
            continue
        margin = min(MARGIN[0] * (bottom - top), MARGIN[1] * ink.shape[0])
        rows = slice(max(0, int(top - margin)), max(0, int(bottom + margin) + 1))
        columns = slice(max(0, int(left - margin)), max(0, int(right + margin) + 1))
        ink[rows, columns] = False
    return ink
