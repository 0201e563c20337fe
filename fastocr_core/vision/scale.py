"""The scale normaliser: how much a page must be resized so that its letters have the size the reader was
trained on.

Letters are measured on the page itself (connected components); a stated resolution is only a fallback,
since scans often carry none or a wrong one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastocr_core.vision.components import component_boxes, ink_threshold, tone_counts

TARGET_X_HEIGHT_PIXELS = 10.5
SCALE_AT_ONE_DPI = 164.0  # of a 10.5-point text face: scale = this / dpi
MEASURED_SIDE_PIXELS = 2600  # larger pages are measured on an integer reduction
LEAST_COMPONENTS = 12
SMALLEST_SURE_PIXELS = 7.0
BIN_RATIO = 1.06  # of the logarithmic histogram of heights
CAPITAL_RATIO = (1.24, 1.62)  # height of capitals and figures in x-heights, over the usual faces
LOWER_CASE_SHARE = 0.28  # of the votes of the highest mode that make a lower one the x-height


@dataclass(frozen=True, slots=True)
class LetterSize:
    """x_height_pixels of the given image, and on how many marks the measure stands (0: not measurable)."""

    x_height_pixels: float
    components: int


def grey_range(grey: NDArray[np.uint8]) -> tuple[int, int]:
    """Ink and paper tone: the 0.5th and 90th percentile of a grey page."""
    histogram = np.cumsum(tone_counts(grey))
    total = histogram[-1]
    return int(np.searchsorted(histogram, total * 0.005)), int(np.searchsorted(histogram, total * 0.9))


def measure_letters(grey: NDArray[np.uint8]) -> LetterSize:
    """Dominant x-height of a grey page [height, width], dark ink on light paper.

    The mode of component heights on a logarithmic scale: in Latin text about six letters in ten have
    x-height. Where capitals and figures are in the majority (contents, tables), the lower of the two modes.
    """
    factor = max(1, -(-max(grey.shape) // MEASURED_SIDE_PIXELS))
    if factor > 1:
        grey = _reduced(grey, factor)
    ink_tone, paper_tone = grey_range(grey)
    if paper_tone - ink_tone < 40:
        return LetterSize(0.0, 0)
    boxes = component_boxes(grey < ink_threshold(grey))
    widths, heights = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    letter_like = (heights >= 4) & (heights <= 160) & (widths >= 0.25 * heights) & (widths <= 2.2 * heights)
    letter_like &= boxes[:, 4] >= 0.12 * widths * heights
    specks = int((heights < 4).sum())
    heights = heights[letter_like].astype(np.float64)
    if len(heights) < LEAST_COMPONENTS:
        return LetterSize(0.0, 0)
    # taller marks count a little more, so that dots and specks do not outvote letters
    bins = np.log(heights) / np.log(BIN_RATIO)
    low = int(bins.min()) - 2
    votes = np.bincount((bins - low).round().astype(int), weights=heights, minlength=8)
    smooth = np.convolve(votes, [0.5, 1.0, 1.0, 1.0, 0.5], mode="same")
    peak = _lower_case_peak(smooth)
    near = np.abs(bins - low - peak) <= 2.5
    x_height = float(np.median(heights[near]))
    if x_height < SMALLEST_SURE_PIXELS and specks > len(heights):  # the tail of paper grain, not small print
        return LetterSize(0.0, 0)
    return LetterSize(x_height * factor, len(heights))


def _reduced(grey: NDArray[np.uint8], factor: int) -> NDArray[np.uint8]:
    """Means of blocks of `factor` x `factor` pixels, rounded down; what is left over at the far edges is dropped."""
    height, width = (side // factor * factor for side in grey.shape)
    total = np.zeros((height // factor, width // factor), np.uint32)
    for down in range(factor):
        for across in range(factor):
            total += grey[down:height:factor, across:width:factor]
    return (total // factor**2).astype(np.uint8)


def _lower_case_peak(votes: NDArray[np.float64]) -> int:
    """The bin of the x-height: the mode, or the mode that lies below it as x-height lies below capitals."""
    peak = int(votes.argmax())
    near, far = (round(float(np.log(ratio) / np.log(BIN_RATIO))) for ratio in CAPITAL_RATIO)
    below = votes[max(0, peak - far) : max(0, peak - near + 1)]
    if len(below) and below.max() >= LOWER_CASE_SHARE * votes[peak]:
        return max(0, peak - far) + int(below.argmax())
    return peak


def reading_scale(letters: LetterSize, dpi: float | None) -> float:
    """Factor that brings letters of that size to TARGET_X_HEIGHT_PIXELS; from dpi, else 1, when there are too
    few.
    """
    if letters.components:
        # bitonal and blurred letters measure about one pixel more than their outline
        return float(np.clip(TARGET_X_HEIGHT_PIXELS / max(letters.x_height_pixels - 0.5, 1.0), 0.08, 4.0))
    if dpi is not None and dpi > 0:
        return float(np.clip(SCALE_AT_ONE_DPI / dpi, 0.08, 4.0))
    return 1.0
