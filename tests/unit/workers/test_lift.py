"""Taking the embedded image itself must show what drawing the page shows, or not be done."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageDraw

from tests.unit.workers.pdf_maker import PagePlan, make_pdf, text
from workers.inspect_document import inspect
from workers.rasterize import Rasterizer, RasterPage

FORCE_DRAWING = "1 1 1 rg 0 0 0.01 0.01 re f\n"


def _scan(width: int = 1275, height: int = 1650, mode: str = "L") -> Image.Image:
    """A picture without symmetry, at 150 dpi of a letter page."""
    image = Image.new(mode, (width, height), "white")
    draw = ImageDraw.Draw(image)
    draw.rectangle((width * 0.1, height * 0.05, width * 0.6, height * 0.1), fill="black")
    draw.ellipse((width * 0.7, height * 0.6, width * 0.9, height * 0.9), fill="grey")
    draw.text((width // 3, height // 3), "upright", fill="black", font_size=90)
    return image


def _page(rasterizer: Rasterizer, plan: PagePlan, dpi: int = 150) -> RasterPage:
    facts = inspect(make_pdf([plan]), rasterizer.limits, dpi, rasterizer)
    assert facts.reason is None
    page = rasterizer.page(0, dpi)
    assert isinstance(page, RasterPage), page
    return page


def _difference(first: RasterPage, second: RasterPage) -> float:
    grey = [page.image.convert("L").resize((200, 260), Image.Resampling.BOX) for page in (first, second)]
    return float(np.abs(np.asarray(grey[0], np.int16) - np.asarray(grey[1], np.int16)).mean())


TURNED = {
    0: "612 0 0 792 0 0",
    90: "0 -792 612 0 0 792",
    180: "-612 0 0 -792 612 792",
    270: "0 792 -612 0 612 0",
}
SAME = [
    PagePlan(_scan()),
    PagePlan(_scan(mode="RGB")),
    PagePlan(_scan(), page_keys="/Rotate 90"),
    PagePlan(_scan(), page_keys="/Rotate 180"),
    PagePlan(_scan(), page_keys="/Rotate 270"),
    PagePlan(_scan(), page_keys="/CropBox [61.2 79.2 550.8 712.8]"),
    PagePlan(_scan(), page_keys="/CropBox [0 300 300 792] /Rotate 90"),
    PagePlan(_scan(), matrix="700 0 0 900 -50 -40"),
    PagePlan(_scan(), picture_keys="/Decode [1 0]"),
    PagePlan(_scan(), before="0 0 612 792 re W n\n"),
    PagePlan(_scan(), after="3 Tr " + text("hidden words")),
    PagePlan(_scan(), before=text("words beneath the picture")),
    *(PagePlan(_scan(), matrix=TURNED[turn]) for turn in (180,)),
    *(PagePlan(_scan(1650, 1275), matrix=TURNED[turn]) for turn in (90, 270)),
]


@pytest.mark.parametrize("plan", SAME, ids=range(len(SAME)))
def test_a_lifted_page_shows_what_a_drawn_page_shows(plan: PagePlan, rasterizer: Rasterizer) -> None:
    lifted = _page(rasterizer, plan)
    drawn = _page(rasterizer, replace(plan, after=plan.after + FORCE_DRAWING))
    assert (lifted.how, drawn.how) == ("lifted", "rendered")
    assert _difference(lifted, drawn) < 2.0
    assert (lifted.page_width_points, lifted.page_height_points) == pytest.approx(
        (drawn.page_width_points, drawn.page_height_points)
    )
    aspects = [page.image.width / page.image.height for page in (lifted, drawn)]
    assert aspects[0] == pytest.approx(aspects[1], abs=0.01)
    a, _, c, _, e, f = lifted.image_to_page
    corner = (a * lifted.image.width + c, e * lifted.image.height + f)
    assert corner == pytest.approx((lifted.page_width_points, lifted.page_height_points))


NOT_ALONE = [
    PagePlan(_scan(), after=text("stamped")),
    PagePlan(_scan(), after="0 0 1 RG 10 10 m 300 300 l S\n"),
    PagePlan(_scan(), matrix="300 0 0 400 100 100"),
    PagePlan(_scan(), before=text("under a pale picture") + "/Pale gs\n", states="/Pale << /ca 0.2 >>"),
    PagePlan(_scan(), matrix="-612 0 0 792 612 0"),
    PagePlan(_scan(), matrix="611 20 -20 791 0 0"),
    PagePlan(_scan(), before="100 100 300 300 re W n\n"),
    PagePlan(_scan(mode="L"), soft_mask=True),
    PagePlan(_scan().convert("CMYK")),
    PagePlan(_scan(1275, 825)),
    PagePlan(_scan(16, 20)),
]


@pytest.mark.parametrize("plan", NOT_ALONE, ids=range(len(NOT_ALONE)))
def test_a_page_that_is_more_than_its_image_is_drawn(plan: PagePlan, rasterizer: Rasterizer) -> None:
    assert _page(rasterizer, plan).how == "rendered"


def test_an_annotation_is_not_lost(rasterizer: Rasterizer) -> None:
    annotation = "/Annots [<< /Type /Annot /Subtype /Square /Rect [90 90 300 300] /C [1 0 0] >>]"
    assert _page(rasterizer, PagePlan(_scan(), page_keys=annotation)).how == "rendered"


def test_a_fine_scan_is_halved_but_keeps_twice_the_wanted_resolution(rasterizer: Rasterizer) -> None:
    page = _page(rasterizer, PagePlan(_scan(5100, 6600)), dpi=150)
    assert page.image.size == (2550, 3300)
    assert page.dpi_used == pytest.approx(300)
    assert page.dpi_known


def test_an_image_that_is_shown_again_has_kept_its_pixels(rasterizer: Rasterizer) -> None:
    first = _page(rasterizer, PagePlan(_scan(5100, 6600)), dpi=150)
    for _ in range(2):
        again = rasterizer.page(0, 150)
        assert isinstance(again, RasterPage)
        assert again.image.size == first.image.size == (2550, 3300)
        assert again.image.tobytes() == first.image.tobytes()


def test_a_page_box_that_is_too_small_does_not_cost_pixels(rasterizer: Rasterizer) -> None:
    plan = PagePlan(_scan(1500, 2500), matrix="180 0 0 300 0 0", media_box="0 0 180 300")
    lifted = _page(rasterizer, plan)
    drawn = _page(rasterizer, replace(plan, soft_mask=True))
    assert (lifted.image.size, lifted.dpi_known) == ((1500, 2500), False)
    assert (drawn.image.size, drawn.dpi_known) == ((1500, 2500), False)


def test_a_poster_is_drawn_at_the_pixels_of_its_picture(rasterizer: Rasterizer) -> None:
    plan = PagePlan(_scan(2550, 3300), matrix="13000 0 0 16823 500 500", media_box="0 0 14000 18000")
    page = _page(rasterizer, plan)
    assert max(page.image.size) == pytest.approx(18000 / 16823 * 3300, abs=4)
    assert page.dpi_used == pytest.approx(page.image.height / 250, rel=0.001)


def test_text_over_a_coarse_background_is_drawn_at_the_wanted_resolution(rasterizer: Rasterizer) -> None:
    page = _page(rasterizer, PagePlan(_scan(450, 582), after=text("sharp")))
    assert page.image.size == (1275, 1650)


def test_a_small_fine_logo_does_not_decide_the_resolution(rasterizer: Rasterizer) -> None:
    plan = PagePlan(_scan(2000, 2000), matrix="50 0 0 50 500 700", after=text("letter"))
    assert _page(rasterizer, plan).image.size == (1275, 1650)


def test_the_survey_estimates_what_is_drawn(rasterizer: Rasterizer) -> None:
    plans = [
        PagePlan(_scan(2550, 3300)),
        PagePlan(after=text("words")),
        PagePlan(_scan(), page_keys="/Rotate 90"),
    ]
    facts = inspect(make_pdf(plans), rasterizer.limits, 150, rasterizer)
    for page_index, estimated in enumerate(facts.estimated_pixels):
        page = rasterizer.page(page_index, 150)
        assert isinstance(page, RasterPage)
        assert estimated == pytest.approx(page.image.width * page.image.height, rel=0.02)
