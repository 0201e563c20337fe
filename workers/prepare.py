"""A raster page made ready for a model: judged for blankness, turned upright, resized, with the way back.

The result is all that crosses from the CPU to the OCR stage: uint8 views and plain facts.
"""

from dataclasses import dataclass, replace

from PIL import Image

from fastocr_core.vision import ModelVision, PreparedPage, prepare
from workers.blankness import BlankEvidence, is_blank
from workers.raster_protocol import TRUNCATION_NOTE, Affine
from workers.rasterize import RasterPage
from workers.turn import PRINT_CONTRAST, ink_tones, turn_of, turned_clockwise, unturning

ERROR_WORDS = ("error", "may not be correct")  # as the libraries say it


@dataclass(frozen=True, slots=True)
class PagePackage:
    """One page ready to be read.

    `image_to_page` takes a pixel of the image given to the model to a point of the page as the document shows
    it, `view_to_page` a pixel of view 0; both are (a, b, c, d, e, f): (x, y) -> (ax+by+c, dx+ey+f).
    `turn_applied` degrees clockwise made the shown page upright. `letters` are marks that stand in lines.
    """

    prepared: PreparedPage
    blank: BlankEvidence
    image_to_page: Affine
    view_to_page: Affine
    page_width_points: float
    page_height_points: float
    rotate_key: int
    turn_applied: int
    dpi_asked: int
    dpi_used: float | None
    image_width: int
    image_height: int
    how: str
    warnings: tuple[str, ...]
    repaired: bool
    letters: int = 0

    @property
    def is_cut_short(self) -> bool:
        """Whether part of the page is missing from the file."""
        return TRUNCATION_NOTE in self.warnings

    @property
    def may_lack_content(self) -> bool:
        """Whether drawing met errors, so that something of the page may not be seen."""
        return self.is_cut_short or any(word in text for text in self.warnings for word in ERROR_WORDS)

    @property
    def is_blank_for_sure(self) -> bool:
        """Whether the page need not be read: all of it was seen, and it shows no writing."""
        return self.blank.is_blank and not self.may_lack_content


@dataclass(frozen=True, slots=True)
class PageJudgement:
    """What is on a page image: blankness, the clockwise turn in degrees that makes it upright, and how many letters
    stand in lines.
    """

    blank: BlankEvidence
    turn: int
    letters: int


def prepare_page(raster: RasterPage, vision: ModelVision) -> PagePackage:
    """Turn a page upright and bring it into the model's own sizes. The resolution is passed on only where it
    can be believed.
    """
    judged = judge_page(raster.image)
    turn = judged.turn
    image = turned_clockwise(raster.image, turn)
    prepared = prepare(image, vision, raster.dpi_used if raster.dpi_known else None)
    image_to_page = compose(raster.image_to_page, unturning(*raster.image.size, turn))
    return PagePackage(
        prepared=prepared,
        blank=judged.blank,
        image_to_page=image_to_page,
        view_to_page=compose(image_to_page, prepared.transform),
        page_width_points=raster.page_width_points,
        page_height_points=raster.page_height_points,
        rotate_key=raster.rotate_key,
        turn_applied=turn,
        dpi_asked=raster.dpi_asked,
        dpi_used=raster.dpi_used,
        image_width=image.width,
        image_height=image.height,
        how=raster.how,
        warnings=raster.warnings,
        repaired=raster.repaired,
        letters=judged.letters,
    )


def judge_page(image: Image.Image) -> PageJudgement:
    """Judge a page image of any mode.

    Print that nobody can miss is no blank page, so that most pages need not be searched for the faintest mark.
    """
    tones = ink_tones(image)
    found = turn_of(tones) if tones.contrast >= PRINT_CONTRAST else None
    if found is not None and found.shows_print:
        blank = BlankEvidence(is_blank=False, words=found.letters, lone_marks=0, threshold=0)
    else:
        blank = is_blank(image)
    if blank.is_blank:
        return PageJudgement(blank, 0, 0)
    found = found or turn_of(tones)
    return PageJudgement(blank, found.degrees, found.letters)


def with_turned_view(package: PagePackage, prepared: PreparedPage, clockwise: int) -> PagePackage:
    """The package of a page whose view 0 was turned by `clockwise` degrees and prepared again from there.

    The turned view is then the image that the model was given.
    """
    height, width = package.prepared.views[0].shape[:2]
    image_to_page = compose(package.view_to_page, unturning(width, height, clockwise))
    return replace(
        package,
        prepared=prepared,
        image_to_page=image_to_page,
        view_to_page=compose(image_to_page, prepared.transform),
        turn_applied=(package.turn_applied + clockwise) % 360,
        image_width=prepared.source_width,
        image_height=prepared.source_height,
    )


def compose(outer: Affine, inner: Affine) -> Affine:
    """The affine map that applies `inner` first and `outer` second."""
    a, b, c, d, e, f = outer
    p, q, r, s, t, u = inner
    return (
        a * p + b * s,
        a * q + b * t,
        a * r + b * u + c,
        d * p + e * s,
        d * q + e * t,
        d * r + e * u + f,
    )


def map_box(transform: Affine, box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """The upright box around a mapped box: x0, y0, x1, y1."""
    a, b, c, d, e, f = transform
    x0, y0, x1, y1 = box
    corners = [(a * x + b * y + c, d * x + e * y + f) for x in (x0, x1) for y in (y0, y1)]
    across, down = [x for x, _ in corners], [y for _, y in corners]
    return min(across), min(down), max(across), max(down)
