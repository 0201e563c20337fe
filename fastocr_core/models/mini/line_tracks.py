"""Which marks of ink belong to which line that was read: the slope of the page, the run of each line, owners of marks.

The reader names a line by the 16-px band in which it begins. Letters of x-height say where it really runs. numpy only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastocr_core.vision.components import component_boxes
from fastocr_core.vision.scale import TARGET_X_HEIGHT_PIXELS, grey_range

Floats = NDArray[np.float64]
STEEPEST = 0.05  # slope of lines, about 3 degrees
SLOPE_STEP = 0.0025  # across a line of 600 px: 1.5 px
INK_SHARE = 0.4  # of the way from paper to ink tone at which a pixel counts as ink
LEAST_CONTRAST = 40  # grey levels between ink and paper
SPECK_PIXELS = 2  # of ink: less than any dot
TALLEST, WIDE = 6.0, 14.0  # x-heights: of a letter of a heading, of more than a word
THINNEST = 0.45  # x-heights: wide marks below it are rules
FARTHEST_LINE = (
    24  # px between the middles of the band read and of the line meant: one band misread, and half of one
)
LEAST_PEAK = 0.3  # of the letters of the fullest line nearby that make another one worth a look
PER_PIXEL_OFF = 0.06  # px of gap before each word that a pixel between band and line is worth
WIDEST_GAP = 9.5  # px: a wider gap before a word is no surer than this one
PER_PIXEL_AWAY = 0.5  # px of gap that a pixel between the gap and the place read is worth
BACKGROUND_PIXELS = (32, 32)  # height and width of an area whose paper has one tone
MARK_CENTRE = -0.2  # x-heights: dots and accents rise higher than commas hang
SAME_LINE = 2.0  # px: a line that was read twice lies on the same marks


@dataclass(frozen=True, slots=True)
class RoughLine:
    """A line as it was read, in pixels of the view: `middle` of its letters where it begins, and left and right of each
    word."""

    middle: float
    words: tuple[tuple[float, float], ...]

    @property
    def left(self) -> float:
        return min(left for left, _ in self.words)

    @property
    def right(self) -> float:
        return max(right for _, right in self.words)


@dataclass(frozen=True, slots=True)
class LineTrack:
    """Where a line runs: height `middle` at `left`, changing by `slope` with every pixel to the right."""

    left: float
    middle: float
    slope: float

    def at(self, x: Floats) -> Floats:
        """Heights at places `x`."""
        return self.middle + (x - self.left) * self.slope


def ink_marks(pixels: NDArray[np.uint8]) -> Floats:
    """Marks that can be letters on a grey view [height, width]: left, top, right, bottom, sorted by left; [n, 4].

    None on a page without contrast. Rules, frames, pictures and specks are left out.
    """
    ink_tone, paper_tone = grey_range(pixels)
    if paper_tone - ink_tone < LEAST_CONTRAST:
        return np.zeros((0, 4))
    boxes = component_boxes(_ink(pixels, ink_tone))
    widths, heights = (boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1])
    unit = TARGET_X_HEIGHT_PIXELS
    speck = boxes[:, 4] <= SPECK_PIXELS
    rule = (heights < THINNEST * unit) & (widths > 3 * unit)
    large = (heights > TALLEST * unit) | ((heights > TALLEST / 2 * unit) & (widths > WIDE * unit))
    marks = boxes[~(speck | rule | large), :4].astype(np.float64)
    return marks[np.argsort(marks[:, 0], kind="stable")]


def _ink(pixels: NDArray[np.uint8], ink_tone: int) -> NDArray[np.bool_]:
    """Pixels nearer to the ink than to the paper around them, whose tone may differ from place to place."""
    down, across = BACKGROUND_PIXELS
    height, width = pixels.shape
    padded = np.pad(pixels, ((0, -height % down), (0, -width % across)), mode="edge")
    areas = padded.reshape(padded.shape[0] // down, down, padded.shape[1] // across, across)
    paper = areas[:, ::2, :, ::2].max((1, 3)).astype(np.float64)
    tones = np.maximum(INK_SHARE * ink_tone + (1 - INK_SHARE) * paper, ink_tone + LEAST_CONTRAST / 2)
    border = tones.astype(np.uint8)[:, None, :, None]
    return np.asarray((areas < border).reshape(padded.shape)[:height, :width])


def page_slope(marks: Floats) -> float:
    """Slope of the lines: the one along which the middles of x-height letters fall into the fewest heights."""
    x, y = _letters(marks)
    if len(x) < 20:
        return 0.0
    slopes = np.arange(-STEEPEST, STEEPEST + SLOPE_STEP / 2, SLOPE_STEP)
    heights = y[None] - slopes[:, None] * (x - x.mean())[None]
    bins = ((heights - heights.min()) / 2).astype(np.int64)
    counts = [np.bincount(row).astype(np.float64) for row in bins]
    sharpness = [float((count**2).sum()) for count in counts]
    flat = len(slopes) // 2
    best = int(np.argmax(sharpness))
    # a slope must be worth it: a few words of a title lie on every slope
    return float(slopes[best]) if sharpness[best] > 1.1 * sharpness[flat] else 0.0


def line_tracks(marks: Floats, lines: Sequence[RoughLine]) -> list[LineTrack]:
    """Where each line runs: of the lines of letters near the band in which it was read, the one whose gaps between words
    lie where its words were read to begin.
    """
    slope = page_slope(marks)
    x, y = _letters(marks)
    return [_track(line, slope, marks, x, y) for line in lines]


def _letters(marks: Floats) -> tuple[Floats, Floats]:
    """Middles of the marks of about x-height."""
    heights = (marks[:, 3] - marks[:, 1]) / TARGET_X_HEIGHT_PIXELS
    kept = marks[(heights > 0.75) & (heights < 1.3)]
    return (kept[:, 0] + kept[:, 2]) / 2, (kept[:, 1] + kept[:, 3]) / 2


def _track(line: RoughLine, slope: float, marks: Floats, x: Floats, y: Floats) -> LineTrack:
    rough = LineTrack(line.left, line.middle, slope)
    beside = (x > line.left - 4) & (x < line.right + 4)
    away = (y - rough.at(x))[beside]
    away = away[np.abs(away) < FARTHEST_LINE + 2]
    if len(away) < 2:
        return rough
    near = marks[np.abs((marks[:, 1] + marks[:, 3]) / 2 - rough.at(marks[:, 0])) < 2 * FARTHEST_LINE]
    best, most = 0.0, -np.inf
    for shift in _peaks(away):
        merit = _fit(line, rough, shift, near) - PER_PIXEL_OFF * abs(shift)
        if merit > most:
            best, most = shift, merit
    return LineTrack(line.left, line.middle + best, slope)


def _peaks(away: Floats) -> list[float]:
    """Heights at which letters crowd, from their heights `away` from a band; the middles of those that crowd there."""
    counts = np.bincount(np.rint(away + FARTHEST_LINE + 2).astype(np.int64), minlength=2 * FARTHEST_LINE + 5)
    crowd = np.convolve(counts, [1.0, 2.0, 3.0, 2.0, 1.0], mode="same")
    padded = np.concatenate([[0.0], crowd, [0.0]])
    summits = (crowd >= padded[:-2]) & (crowd > padded[2:]) & (crowd >= LEAST_PEAK * crowd.max())
    heights = np.flatnonzero(summits) - (FARTHEST_LINE + 2)
    return [float(np.median(away[np.abs(away - height) <= 2.5])) for height in heights]


def _fit(line: RoughLine, rough: LineTrack, shift: float, marks: Floats) -> float:
    """Mean over the words of the line of the gap before them, px, were the line `shift` px lower than read."""
    middles = (marks[:, 1] + marks[:, 3]) / 2
    on_line = marks[np.abs(middles - rough.at(marks[:, 0]) - shift) < 0.8 * TARGET_X_HEIGHT_PIXELS]
    if not len(on_line):
        return -np.inf
    starts = np.array([left for left, _ in line.words])
    return float(start_merits(on_line[:, 0], gaps_before(on_line), starts).max(1).clip(min=0.0).mean())


def gaps_before(marks: Floats) -> Floats:
    """Px of white before each of a line's marks, sorted by left; negative where marks overlap."""
    gaps = np.full(len(marks), WIDEST_GAP)
    gaps[1:] = marks[1:, 0] - np.maximum.accumulate(marks[:-1, 2])
    return gaps


def start_merits(lefts: Floats, gaps: Floats, starts: Floats) -> Floats:
    """How well each mark [m] would do as the beginning of the words read to begin at `starts` [n]: px of gap, [n, m]."""
    return np.minimum(gaps, WIDEST_GAP) - PER_PIXEL_AWAY * np.abs(lefts - starts[:, None])


def owners(marks: Floats, lines: Sequence[RoughLine], tracks: Sequence[LineTrack]) -> list[NDArray[np.intp]]:
    """For each line the indices of its marks, from left to right. A mark belongs to the line nearest to it."""
    unit = TARGET_X_HEIGHT_PIXELS
    x, y = (marks[:, 0] + marks[:, 2]) / 2, (marks[:, 1] + marks[:, 3]) / 2
    distances = np.full((len(lines), len(marks)), np.inf)
    for index, (line, track) in enumerate(zip(lines, tracks, strict=True)):
        away = np.abs(y - track.at(x) - MARK_CENTRE * unit)
        reach = 3 * unit + 0.4 * (line.words[-1][1] - line.words[-1][0])  # the last word's end is a guess
        inside = (x > line.left - 2 * unit) & (x < line.right + reach) & (away < 2 * unit)
        distances[index, inside] = away[inside]
    nearest = distances.min(0, initial=np.inf)
    return [np.flatnonzero((row <= nearest + SAME_LINE) & np.isfinite(row)) for row in distances]
