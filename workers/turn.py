"""Which way round a page lies, found from its pixels: lines of print that run down, or stand on their heads.

Two signs that do not depend on each other must agree before a page is turned: letters that rise above their
neighbours are more frequent than letters that hang below them, and the dots of i and j stand above. Both
hold for Latin script; where either is missing (capitals, figures, most other scripts) the page stays as it is.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fastocr_core.vision.components import component_boxes, threshold_between
from workers.raster_protocol import Affine

WORKING_LONG_SIDE_PIXELS = 2600
LEAST_CONTRAST = 40
LETTER_HEIGHTS_PIXELS = (5, 120)
LETTER_HEIGHTS = (0.6, 2.4)  # of a letter, in typical heights
LETTER_WIDTHS = (0.12, 2.5)  # in own heights
DOT_SIDE = 0.5  # at most, in typical heights
NEIGHBOUR_GAP = 0.45  # in typical heights; lines of print lie further apart
SAME_EDGE = 0.13  # edges of neighbours this close are one line, in typical heights
OTHER_EDGE = 0.25  # edges this far apart are not
MAX_LETTERS = 8000
PRINT_LETTERS = 100  # so many letters in lines, and so much darker than the paper, are no accident
PRINT_CONTRAST = 80
LINE_RATIO = 2.5  # neighbours along the lines for each neighbour across them
LEAST_RISING = 4.0  # standard deviations by which rising letters must outweigh hanging ones
LEAST_DOTS = 2.5  # the same for dots above and below
RISING_RATIO, DOT_RATIO = 1.5, 2.0
TO_CLOCKWISE = {
    90: Image.Transpose.ROTATE_270,
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_90,
}

Boxes = NDArray[np.int64]  # [n, 4 or 5]: left, top, right, bottom


@dataclass(frozen=True, slots=True)
class LineEvidence:
    """What speaks for lines of print along the x axis: letters with a neighbour on their right, and how many
    letters and dots say that up is up (`rising`, `dots_above`) or down (`hanging`, `dots_below`).
    """

    neighbours: int
    rising: int
    hanging: int
    dots_above: int
    dots_below: int

    @property
    def upright(self) -> int:
        """1 if both signs say upright, -1 if both say upside down, else 0."""
        rising = _verdict(self.rising, self.hanging, LEAST_RISING, RISING_RATIO)
        dots = _verdict(self.dots_above, self.dots_below, LEAST_DOTS, DOT_RATIO)
        return rising if rising == dots else 0


@dataclass(frozen=True, slots=True)
class TurnEvidence:
    """`degrees` (0, 90, 180, 270) clockwise make the page upright; `letters` are marks that stand in
    lines: dots of a halftone have neighbours everywhere and cancel out. `contrast` is how much darker than the
    rest the marks are on the mean, 0 to 255.
    """

    degrees: int
    letters: int
    across: LineEvidence
    down: LineEvidence
    contrast: float

    @property
    def shows_print(self) -> bool:
        """Whether the page is printed beyond doubt. False says nothing."""
        return self.letters >= PRINT_LETTERS and self.contrast >= PRINT_CONTRAST


@dataclass(frozen=True, slots=True)
class InkTones:
    """A page in grey at working resolution, the tone below which lies ink (0: there is none), and by how much the
    ink is darker than the rest on the mean.
    """

    grey: Image.Image
    threshold: int
    contrast: float


def find_turn(image: Image.Image) -> TurnEvidence:
    """Judge a page of any mode. In doubt the answer is 0."""
    return turn_of(ink_tones(image))


def turn_of(tones: InkTones) -> TurnEvidence:
    """The same where the tones are known already."""
    boxes = np.zeros((0, 5), np.int64)
    if tones.threshold:
        boxes = component_boxes(np.asarray(tones.grey) < tones.threshold)
    across = _evidence(boxes)
    down = _evidence(_turned_left(boxes, tones.grey.width))  # as if turned, to have lines that run down level
    degrees = 0
    if down.neighbours >= LINE_RATIO * max(across.neighbours, 1):
        degrees = {1: 270, -1: 90, 0: 0}[down.upright]
    elif across.neighbours >= LINE_RATIO * max(down.neighbours, 1) and across.upright < 0:
        degrees = 180
    return TurnEvidence(degrees, abs(across.neighbours - down.neighbours), across, down, tones.contrast)


def letters_in_lines(boxes: Boxes, width: int) -> int:
    """How many of the marks [n, 5] of an upright image `width` pixels wide stand in lines of print, and for sure: the dots of
    a strip of halftone have a little more neighbours along it than across it.
    """
    down = _evidence(_turned_left(boxes, width)).neighbours
    return max(0, _evidence(boxes).neighbours - round(LINE_RATIO * down))


def ink_tones(image: Image.Image) -> InkTones:
    """Part ink from paper; the quick half of the work."""
    grey = image if image.mode == "L" else image.convert("L")
    factor = max(1, -(-max(grey.size) // WORKING_LONG_SIDE_PIXELS))
    if factor > 1:
        grey = grey.reduce(factor)
    counts = np.array(grey.histogram(), np.int64)
    tones = np.flatnonzero(counts)
    if int(tones[-1]) - int(tones[0]) < LEAST_CONTRAST:
        return InkTones(grey, 0, 0.0)
    threshold = threshold_between(counts)
    mass = counts * np.arange(256)
    ink, paper = (
        float(mass[part].sum() / counts[part].sum()) for part in (slice(0, threshold), slice(threshold, 256))
    )
    return InkTones(grey, threshold, paper - ink)


def turned_clockwise(image: Image.Image, degrees: int) -> Image.Image:
    """The image turned by a multiple of 90 degrees, losing nothing."""
    return image.transpose(TO_CLOCKWISE[degrees]) if degrees else image


def unturning(width: int, height: int, degrees: int) -> Affine:
    """Takes a pixel of the turned image to one of the image before, which is `width` x `height`."""
    return {
        0: (1.0, 0.0, 0.0, 0.0, 1.0, 0.0),
        90: (0.0, 1.0, 0.0, -1.0, 0.0, float(height)),
        180: (-1.0, 0.0, float(width), 0.0, -1.0, float(height)),
        270: (0.0, -1.0, float(width), 1.0, 0.0, 0.0),
    }[degrees]


def _verdict(for_it: int, against: int, deviations: float, ratio: float) -> int:
    if abs(for_it - against) < deviations * sqrt(for_it + against + 1):
        return 0
    if max(for_it, against) < ratio * min(for_it, against):
        return 0
    return 1 if for_it > against else -1


def _turned_left(boxes: Boxes, width: int) -> Boxes:
    left, top, right, bottom = (boxes[:, column] for column in range(4))
    return np.stack([top, width - right, bottom, width - left], axis=1)


def _evidence(boxes: Boxes) -> LineEvidence:
    """Look for lines of print along the x axis."""
    widths, heights = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    plausible = (heights >= LETTER_HEIGHTS_PIXELS[0]) & (heights <= LETTER_HEIGHTS_PIXELS[1])
    plausible &= (widths >= LETTER_WIDTHS[0] * heights) & (widths <= LETTER_WIDTHS[1] * heights)
    if plausible.sum() < 8:
        return LineEvidence(0, 0, 0, 0, 0)
    typical = _typical_height(heights[plausible])
    plausible &= (heights >= LETTER_HEIGHTS[0] * typical) & (heights <= LETTER_HEIGHTS[1] * typical)
    letters = boxes[plausible][:MAX_LETTERS, :4]
    owners = _owners(letters, int(boxes[:, 2].max()), int(boxes[:, 3].max()))
    right = _right_neighbours(letters, owners, typical)
    found = right >= 0
    rising, hanging = _rising_and_hanging(letters[found], letters[right[found]], typical)
    small = (np.maximum(widths, heights) <= DOT_SIDE * typical) & (np.minimum(widths, heights) >= 2)
    dots = boxes[small][: 2 * MAX_LETTERS, :4]
    above = _dots_beside(dots, letters, owners, typical, 1)
    below = _dots_beside(dots, letters, owners, typical, -1)
    return LineEvidence(int(found.sum()), rising, hanging, above, below)


def _typical_height(heights: NDArray[np.int64]) -> float:
    """The median over the marks weighted by height, so that specks do not outvote letters."""
    ordered = np.sort(heights)
    weight = np.cumsum(ordered)
    return float(ordered[np.searchsorted(weight, weight[-1] / 2)])


def _owners(letters: Boxes, width: int, height: int) -> NDArray[np.int32]:
    """A map [height, width] of the middles of letters: the number of the letter there, -1 for none."""
    owners = np.full((height, width), -1, np.int32)
    thirds = (letters[:, 3] - letters[:, 1]) // 3
    tops, bottoms = letters[:, 1] + thirds, letters[:, 3] - thirds
    lefts, rights = letters[:, 0], letters[:, 2]
    for number, (left, top, right, bottom) in enumerate(
        zip(lefts.tolist(), tops.tolist(), rights.tolist(), bottoms.tolist(), strict=True)
    ):
        owners[top:bottom, left:right] = number
    return owners


def _right_neighbours(letters: Boxes, owners: NDArray[np.int32], typical: float) -> NDArray[np.int64]:
    """[n]: the letter that follows closely on the right, -1 for none."""
    found = np.full(len(letters), -1, np.int64)
    middle = (letters[:, 1] + letters[:, 3]) // 2
    for gap in range(int(NEIGHBOUR_GAP * typical) + 1):
        columns = letters[:, 2] + gap
        seen = np.where(columns < owners.shape[1], owners[middle, columns.clip(max=owners.shape[1] - 1)], -1)
        found = np.where((found < 0) & (letters[seen, 0] >= letters[:, 0]), seen, found)
    return found


def _rising_and_hanging(first: Boxes, second: Boxes, typical: float) -> tuple[int, int]:
    """Pairs of neighbours on one base line of which one reaches higher, and on one top line of which one
    reaches lower.
    """
    tops, bottoms = np.abs(first[:, 1] - second[:, 1]), np.abs(first[:, 3] - second[:, 3])
    same, other = max(1.0, SAME_EDGE * typical), max(2.0, OTHER_EDGE * typical)
    rising = (bottoms <= same) & (tops >= other)
    hanging = (tops <= same) & (bottoms >= other)
    return int(rising.sum()), int(hanging.sum())


def _dots_beside(
    dots: Boxes, letters: Boxes, owners: NDArray[np.int32], typical: float, direction: int
) -> int:
    """Dots with a narrow letter right below them (direction 1) or right above them (-1)."""
    if not len(dots) or not len(letters):
        return 0
    edge = dots[:, 3] if direction > 0 else dots[:, 1] - 1
    column = ((dots[:, 0] + dots[:, 2]) // 2).clip(0, owners.shape[1] - 1)
    found = np.full(len(dots), -1, np.int64)
    for step in range(round(1.2 * typical)):
        row = edge + direction * step
        inside = (row >= 0) & (row < owners.shape[0])
        seen = np.where(inside, owners[row.clip(0, owners.shape[0] - 1), column], -1)
        found = np.where(found < 0, seen, found)
    below = letters[found]
    gap = below[:, 1] - dots[:, 3] if direction > 0 else dots[:, 1] - below[:, 3]
    narrow = below[:, 2] - below[:, 0] <= 0.75 * (below[:, 3] - below[:, 1])
    return int(((found >= 0) & narrow & (gap >= 0) & (gap <= 0.5 * typical)).sum())
