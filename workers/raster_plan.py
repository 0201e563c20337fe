"""How many pixels a page is worth: pure rules about resolution, without any PDF or image library.

A scan keeps its own pixels where the budget allows, a drawn page gets the resolution the model asks for.
Pixels are given away only by powers of two and only while at least twice the wanted resolution remains, so
that the model's own resampler does the last step.
"""

import math
from dataclasses import dataclass

POINTS_PER_INCH = 72.0
USUAL_LONG_SIDE_INCHES = 11.0
MIN_SCAN_SIDE_PIXELS = 400  # below this an image that fills a page is a tint or a texture, not a scan
OVERSAMPLING_KEPT = 2.0
DEFAULT_DPI_VALUES = (72, 96)  # written by software that does not know; says nothing about the scan
HONEST_DPI_RANGE = (100.0, 1250.0)
HONEST_SCAN_LONG_SIDE_INCHES = (5.5, 50.0)
HONEST_DRAWING_LONG_SIDE_INCHES = (2.0, 50.0)


@dataclass(frozen=True, slots=True)
class PlacedImage:
    """An image as drawn on a page: own size in pixels, drawn size in points, share of the page it covers."""

    width_pixels: int
    height_pixels: int
    width_points: float
    height_points: float
    cover: float

    @property
    def dpi(self) -> float:
        """Resolution at which the image is drawn, along its finer direction."""
        return POINTS_PER_INCH * max(
            self.width_pixels / max(self.width_points, 1e-6),
            self.height_pixels / max(self.height_points, 1e-6),
        )


def halvings(
    width_pixels: int, height_pixels: int, long_side_inches: float | None, wanted_dpi: int, max_pixels: float
) -> int:
    """How often a scan may be halved on both sides.

    Without a trustworthy physical size (`long_side_inches` None) only the pixel budget counts: a large sheet
    with small print must not be shrunk on a guess.
    """
    count = 0
    if long_side_inches is not None:
        enough = OVERSAMPLING_KEPT * wanted_dpi * max(long_side_inches, USUAL_LONG_SIDE_INCHES)
        while max(width_pixels, height_pixels) / 2 ** (count + 1) >= enough:
            count += 1
    while width_pixels * height_pixels / 4**count > max_pixels:
        count += 1
    return count


def clamp_dpi(width_points: float, height_points: float, dpi: float, max_pixels: float) -> float:
    """Lower a resolution until the page fits the pixel budget."""
    inches_squared = (width_points / POINTS_PER_INCH) * (height_points / POINTS_PER_INCH)
    if inches_squared <= 0:
        return dpi
    return min(dpi, math.sqrt(max_pixels / inches_squared) * 0.999)


def _within(value: float, bounds: tuple[float, float]) -> bool:
    return bounds[0] <= value <= bounds[1]


def is_honest_resolution(scan_dpi: float) -> bool:
    """Whether a resolution was set by somebody who knew: in a scanner's range, not a default."""
    return round(scan_dpi) not in DEFAULT_DPI_VALUES and _within(scan_dpi, HONEST_DPI_RANGE)


def is_honest_scan(width_points: float, height_points: float, scan_dpi: float) -> bool:
    """Whether size and resolution of a scanned page of a PDF can both be believed; many page boxes cannot."""
    long_side_inches = max(width_points, height_points) / POINTS_PER_INCH
    return is_honest_resolution(scan_dpi) and _within(long_side_inches, HONEST_SCAN_LONG_SIDE_INCHES)


def governing_scan_dpi(images: list[PlacedImage]) -> float | None:
    """Resolution of the scan a page consists of, or None if its images do not make up the page.

    One image over half of the page decides (the finest, for layered scans); otherwise strips that together
    cover most of it. A small logo never does.
    """
    large = [image for image in images if image.cover >= 0.5]
    if not large:
        strips = [image for image in images if image.cover >= 0.02]
        if sum(image.cover for image in strips) >= 0.8:
            large = strips
    long_sides = [max(image.width_pixels, image.height_pixels) for image in large]
    if not large or (len(large) == 1 and long_sides[0] < MIN_SCAN_SIDE_PIXELS):
        return None
    return max(image.dpi for image in large)


def render_dpi(
    width_points: float,
    height_points: float,
    images: list[PlacedImage],
    has_drawing: bool,
    wanted_dpi: int,
    max_pixels: float,
) -> tuple[float, bool]:
    """Resolution at which to draw a page, and whether it says something about the size of the print.

    `has_drawing`: text or lines are drawn besides the images, so less than the wanted resolution would hurt.
    """
    scan_dpi = governing_scan_dpi(images)
    if scan_dpi is None:
        dpi = clamp_dpi(width_points, height_points, float(wanted_dpi), max_pixels)
        long_side_inches = max(width_points, height_points) / POINTS_PER_INCH
        return dpi, _within(long_side_inches, HONEST_DRAWING_LONG_SIDE_INCHES)
    honest = is_honest_scan(width_points, height_points, scan_dpi)
    width_pixels = max(1, round(width_points / POINTS_PER_INCH * scan_dpi))
    height_pixels = max(1, round(height_points / POINTS_PER_INCH * scan_dpi))
    scan_inches = max(width_points, height_points) / POINTS_PER_INCH if honest else None
    dpi = scan_dpi / 2 ** halvings(width_pixels, height_pixels, scan_inches, wanted_dpi, math.inf)
    if has_drawing:
        dpi = max(dpi, float(wanted_dpi))
    return clamp_dpi(width_points, height_points, dpi, max_pixels), honest
