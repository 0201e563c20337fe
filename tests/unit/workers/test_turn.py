"""Quarter turns found from pixels: right or not at all, and with the way back to the page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from fastocr_core.vision import model_vision
from workers.blankness import BlankEvidence, is_blank
from workers.prepare import judge_page, map_box, prepare_page, with_turned_view
from workers.rasterize import RasterPage
from workers.turn import find_turn, turned_clockwise, unturning

PROSE = (
    "In the middle of the night the light of the little tower failed, and nobody in the village knew why. "
    "The keeper, still half asleep, climbed the winding stairs and found the big lamp broken into bits. "
    "Until the first light of day he rang the bell, which his father had hung there in the distant past. "
)


RUSSIAN = "В середине ночи погас огонь на башне, и никто в деревне не знал, отчего это произошло. "
UKRAINIAN = "У середині ночі згасло світло вежі, і ніхто в селі не знав, чому їхні човни повернули. "
GREEK = "Στη μέση της νύχτας έσβησε το φως του μικρού πύργου και κανείς δεν ήξερε γιατί. "


def _page(
    sentence: str = PROSE, size: tuple[int, int] = (1240, 1754), lines: int = 24, font: str | None = None
) -> Image.Image:
    page = Image.new("L", size, 250)
    draw = ImageDraw.Draw(page)
    words = (sentence * 20).split()
    for number in range(lines):
        line = " ".join(words[9 * number : 9 * number + 9])
        place = (100, 100 + 60 * number)
        if font is None:
            draw.text(place, line, fill=25, font_size=26)
        else:
            draw.text(place, line, fill=25, font=ImageFont.truetype(font, 26))
    return page


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
@pytest.mark.parametrize("mode", ["1", "L", "RGB"])
def test_a_turned_page_is_found_and_made_upright(degrees: int, mode: str) -> None:
    page = _page().convert(mode)
    lying = turned_clockwise(page, -degrees % 360)
    found = find_turn(lying)
    assert found.degrees == degrees
    assert turned_clockwise(lying, found.degrees).tobytes() == page.tobytes()
    assert found.letters > 500


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
@pytest.mark.parametrize("sentence", [PROSE.upper(), "4711 0815 1984 2001 1756 3370 9926 8080 "])
def test_capitals_and_figures_do_not_tell_and_stay_as_they_are(sentence: str, degrees: int) -> None:
    assert find_turn(turned_clockwise(_page(sentence), degrees)).degrees == 0


@pytest.mark.parametrize("sentence", [RUSSIAN, UKRAINIAN, GREEK])
def test_letters_that_hang_by_nature_do_not_turn_a_page_on_its_head(sentence: str) -> None:
    try:
        page = _page(sentence, font="DejaVuSerif.ttf")
    except OSError:
        pytest.skip("no typeface with Cyrillic and Greek letters (DejaVu Serif)")
    found = find_turn(page)
    assert found.across.hanging > found.across.rising  # one sign alone would say upside down
    assert found.degrees == 0


@pytest.mark.parametrize("size", [(1, 1), (2000, 3), (400, 400)])
def test_little_or_nothing_to_see_is_no_reason_to_turn(size: tuple[int, int]) -> None:
    empty = Image.new("L", size, 240)
    assert (find_turn(empty).degrees, find_turn(empty).letters) == (0, 0)
    if size == (400, 400):
        ImageDraw.Draw(empty).text((50, 200), "Page1", fill=0, font_size=30)
        assert find_turn(turned_clockwise(empty, 90)).degrees == 0


def test_the_dots_of_a_halftone_are_no_letters() -> None:
    page = Image.new("L", (1200, 1200), 255)
    draw = ImageDraw.Draw(page)
    for x in range(20, 1180, 12):
        for y in range(20, 1180, 12):
            draw.ellipse((x, y, x + 8, y + 8), fill=0)
    found = find_turn(page)
    assert found.degrees == 0
    assert found.letters < 100


@pytest.mark.parametrize("degrees", [0, 90])
@pytest.mark.parametrize(("ink", "search"), [(25, False), (165, False), (200, True)])
def test_strong_print_needs_no_search_for_the_faintest_mark(
    ink: int, search: bool, degrees: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = turned_clockwise(_page().point([*range(25), *[ink] * 100, *range(125, 256)]), degrees)
    searched: list[Image.Image] = []

    def noted(image: Image.Image) -> BlankEvidence:
        searched.append(image)
        return is_blank(image)

    monkeypatch.setattr("workers.prepare.is_blank", noted)
    judged = judge_page(page)
    assert bool(searched) == search
    assert (judged.blank.is_blank, judged.turn, judged.letters) == (
        False,
        -degrees % 360,
        find_turn(page).letters,
    )
    assert judged.blank.words > 100 or search


@pytest.mark.parametrize("shade", [200, 90])
def test_the_back_side_showing_through_is_no_print(shade: int) -> None:
    page = _page().transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    faint = Image.blend(Image.new("L", page.size, 250), page, (250 - shade) / 225)
    assert find_turn(faint).shows_print == (shade < 170)


@given(st.sampled_from([0, 90, 180, 270]), st.integers(1, 9), st.integers(1, 9), st.data())
def test_every_pixel_finds_its_way_back(degrees: int, width: int, height: int, data: st.DataObject) -> None:
    x, y = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    image = Image.new("L", (width, height))
    image.putpixel((x, y), 255)
    turned = turned_clockwise(image, degrees)
    spots = [
        (across, down)
        for across in range(turned.width)
        for down in range(turned.height)
        if turned.getpixel((across, down)) == 255
    ]
    (spot,) = spots
    box = (spot[0], spot[1], spot[0] + 1, spot[1] + 1)
    assert map_box(unturning(width, height, degrees), box) == (x, y, x + 1, y + 1)


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_boxes_of_a_turned_page_lie_on_the_page_as_shown(degrees: int) -> None:
    upright = _page(lines=3)
    ImageDraw.Draw(upright).rectangle((100, 1500, 300, 1600), fill=0)
    shown = turned_clockwise(upright, -degrees % 360)
    half = (0.5, 0.0, 0.0, 0.0, 0.5, 0.0)
    raster = RasterPage(
        shown, shown.width / 2, shown.height / 2, 0, 144, 144.0, True, "lifted", (), half, False
    )
    package = prepare_page(raster, model_vision("tiny"))
    assert package.turn_applied == degrees
    assert (package.image_width, package.image_height) == upright.size
    expected = map_box(unturning(*shown.size, degrees), (100, 1500, 300, 1600))
    assert map_box(package.image_to_page, (100, 1500, 300, 1600)) == tuple(value / 2 for value in expected)
    corner = package.prepared.views[0].shape[1], package.prepared.views[0].shape[0]
    x0, y0, x1, y1 = map_box(package.view_to_page, (0, 0, *corner))
    assert x1 - x0 == pytest.approx(shown.width / 2, abs=0.1 * shown.width)
    assert y1 - y0 == pytest.approx(shown.height / 2, abs=0.1 * shown.height)


@pytest.mark.parametrize("clockwise", [90, 180, 270])
def test_a_view_that_is_turned_once_more_keeps_its_way_back(clockwise: int) -> None:
    from fastocr_core.models.turned_page import turned_page

    raster = RasterPage(
        _page(lines=3), 620.0, 877.0, 0, 144, 144.0, True, "lifted", (), (0.5, 0.0, 0.0, 0.0, 0.5, 0.0), False
    )
    vision = model_vision("tiny")
    package = prepare_page(raster, vision)
    prepared = turned_page(package.prepared, -clockwise % 360, vision)
    again = with_turned_view(package, prepared, clockwise)
    height, width = package.prepared.views[0].shape[:2]
    before = map_box(package.view_to_page, (0, 0, width, height))
    after = map_box(again.image_to_page, (0, 0, again.image_width, again.image_height))
    assert after == pytest.approx(before)
    assert again.turn_applied == clockwise
