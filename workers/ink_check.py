"""Text held against the ink of its page: does it stand where something is printed, and is it about as much?

Rough on purpose. It finds readings that ended early, went on where the page had ended, or were made up.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastocr_core.output import PageText
from fastocr_core.vision.prepared import PreparedPage

INK_CONTRAST = 30  # between the lightest and darkest fiftieth of a box with print in it
FIFTIETH = (2.0, 98.0)
LEAST_PLACED_CHARACTERS = 20
OFF_INK_SHARE = 0.2
LEAST_LETTERS = 120
LITTLE_TEXT_SHARE = 0.2  # characters per mark that stands in a line
MUCH_TEXT = (400, 12.0)  # characters allowed on an empty page, and for each such mark
INK_PER_CHARACTER = 5e-6  # of the page: an eleven-point letter takes four times as much


@dataclass(frozen=True, slots=True)
class InkCheck:
    """`off_ink`: much of the text stands where nothing is printed. `little_text`, `much_text`: far less or more
    than the page has room or marks for.
    """

    off_ink: bool
    little_text: bool
    much_text: bool


def check_ink(page_text: PageText, prepared: PreparedPage, letters: int) -> InkCheck:
    """Compare a reading with its page, on which `letters` marks were seen to stand in lines."""
    characters = sum(character.isalnum() for character in page_text.text)
    little = letters >= LEAST_LETTERS and characters < LITTLE_TEXT_SHARE * letters
    room = MUCH_TEXT[0] + MUCH_TEXT[1] * letters
    much = characters > room and prepared.ink_share < INK_PER_CHARACTER * characters
    return InkCheck(off_ink_share(page_text, prepared) >= OFF_INK_SHARE, little, much)


def off_ink_share(page_text: PageText, prepared: PreparedPage) -> float:
    """Share of the placed characters whose box shows nothing but paper; 0.0 where too little is placed."""
    placed = off = 0
    view = prepared.views[0]
    grey = view[:, :, 0] if view.shape[2] == 1 else view.mean(axis=2)
    for block in page_text.blocks:
        count = sum(character.isalnum() for character in block.text)
        if block.box is None or not count:
            continue
        placed += count
        if not _has_ink(grey, box_in_view(block.box, prepared)):
            off += count
    return off / placed if placed >= LEAST_PLACED_CHARACTERS else 0.0


def box_in_view(
    box: tuple[float, float, float, float], prepared: PreparedPage
) -> tuple[float, float, float, float]:
    """A box in pixels of the given image, in pixels of view 0."""
    a, b, c, d, e, f = prepared.transform
    determinant = a * e - b * d
    corners = [(x - c, y - f) for x in (box[0], box[2]) for y in (box[1], box[3])]
    across = [(e * x - b * y) / determinant for x, y in corners]
    down = [(a * y - d * x) / determinant for x, y in corners]
    return min(across), min(down), max(across), max(down)


def _has_ink(grey: NDArray[np.uint8] | NDArray[np.float64], box: tuple[float, float, float, float]) -> bool:
    height, width = grey.shape
    if not np.isfinite(box).all():
        return False
    left, top = max(0, int(box[0])), max(0, int(box[1]))
    right, bottom = min(width, int(box[2]) + 1), min(height, int(box[3]) + 1)
    if left >= right or top >= bottom:
        return False
    low, high = np.percentile(grey[top:bottom, left:right], FIFTIETH)
    return bool(high - low >= INK_CONTRAST)
