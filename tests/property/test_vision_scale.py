"""The eye of the embedded reader: letter size at any resolution, geometry back to the page, marks of ink."""

import io
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from fastocr_core.vision import count_image_tokens, model_vision, prepare
from fastocr_core.vision.components import component_boxes
from fastocr_core.vision.scale import SCALE_AT_ONE_DPI, TARGET_X_HEIGHT_PIXELS, measure_letters

MINI = model_vision("mini")
SENTENCE = "In the morning the harbour was quiet and nobody had seen a ship since Monday noon. "


def _page(dpi: int, points: float = 10.5) -> tuple[Image.Image, float]:
    """A page of 5 x 4 inches in Pillow's own font, and its x-height in pixels."""
    font = ImageFont.load_default(points / 72 * dpi)
    image = Image.new("L", (5 * dpi, 4 * dpi), 255)
    canvas = ImageDraw.Draw(image)
    text = SENTENCE * 12
    line_letters = int(4.2 * dpi / (font.getlength(text) / len(text)))
    for index in range(16):
        line = text[index * line_letters : (index + 1) * line_letters]
        canvas.text((0.4 * dpi, (0.3 + index * 0.21) * dpi), line, fill=0, font=font)
    big = ImageFont.load_default(1000)
    return image, -big.getbbox("x", anchor="ls")[1] / 1000 * points / 72 * dpi


@pytest.mark.parametrize("dpi", [75, 100, 150, 200, 300, 400])
def test_letters_come_out_alike_at_any_resolution(dpi: int) -> None:
    image, x_height = _page(dpi)
    prepared = prepare(image, MINI)
    assert prepared.scale * x_height == pytest.approx(TARGET_X_HEIGHT_PIXELS, rel=0.15)


@pytest.mark.parametrize(
    "case", [str.upper, str.title, lambda text: text.replace("a", "7").replace("e", "4")]
)
def test_capitals_and_figures_do_not_pass_for_small_letters(case: Callable[[str], str]) -> None:
    """A page on which every second line is written that way, as contents and tables are."""
    font = ImageFont.load_default(10.5 / 72 * 150)
    image = Image.new("L", (900, 700), 255)
    canvas = ImageDraw.Draw(image)
    for index in range(18):
        line = SENTENCE[:76] if index % 2 == 0 else case(SENTENCE[:60])
        canvas.text((40, 30 + index * 34), line, fill=0, font=font)
    x_height = -ImageFont.load_default(1000).getbbox("x", anchor="ls")[1] / 1000 * 10.5 / 72 * 150
    assert prepare(image, MINI).scale * x_height == pytest.approx(TARGET_X_HEIGHT_PIXELS, rel=0.15)


def test_a_fax_coded_scan_of_300_dpi_comes_out_right() -> None:
    image, x_height = _page(300)
    stored = io.BytesIO()
    image.convert("1").save(stored, "TIFF", compression="group4", dpi=(300, 300))
    with Image.open(stored) as scan:
        prepared = prepare(scan, MINI, dpi=300)
    assert prepared.scale * x_height == pytest.approx(TARGET_X_HEIGHT_PIXELS, rel=0.15)


def test_a_wrong_dpi_does_no_harm_where_letters_can_be_measured() -> None:
    image, x_height = _page(200)
    stored = io.BytesIO()
    image.save(stored, "PNG")
    with Image.open(stored) as scan:
        assert "dpi" not in scan.info
        scales = [prepare(scan, MINI, dpi=dpi).scale for dpi in (None, 72, 200, 1200)]
    assert scales == [pytest.approx(TARGET_X_HEIGHT_PIXELS / x_height, rel=0.15)] * 4


# x-heights measured by eye on the enlarged scans
@pytest.mark.parametrize(
    ("name", "x_height"), [("tess_eurotext.tif", 21.5), ("ocrmypdf_typewriter.png", 57.0)]
)
def test_real_scans_come_out_right(cases_dir: Path, name: str, x_height: float) -> None:
    with Image.open(cases_dir / name) as scan:
        prepared = prepare(scan, MINI)
    assert prepared.scale * x_height == pytest.approx(TARGET_X_HEIGHT_PIXELS, rel=0.15)


def test_an_empty_page_is_sized_by_its_dpi() -> None:
    leaf = Image.new("L", (2480, 3508), 240)
    assert measure_letters(np.asarray(leaf)).components == 0
    assert prepare(leaf, MINI, dpi=300).scale == pytest.approx(SCALE_AT_ONE_DPI / 300, rel=0.01)


@settings(max_examples=60)
@given(
    st.integers(1, 900),
    st.integers(1, 900),
    st.sampled_from(["L", "RGB", "RGBA", "1", "P", "LA"]),
    st.one_of(st.none(), st.floats(40, 700)),
)
def test_any_image_becomes_a_view_of_whole_cells(
    width: int, height: int, mode: str, dpi: float | None
) -> None:
    image = Image.new("L", (width, height), 255).convert(mode)
    page = prepare(image, MINI, dpi)
    (view,) = page.views
    assert view.dtype == np.uint8
    assert view.shape == (page.grid_rows * 16, page.grid_columns * 32, 1)
    assert page.image_tokens == page.grid_rows * page.grid_columns <= MINI.max_image_tokens
    assert page.grid_rows <= 128
    assert page.grid_columns <= 48
    assert (page.source_width, page.source_height) == (width, height)
    a, b, c, d, e, f = page.transform
    right, bottom = a * view.shape[1] + c, e * view.shape[0] + f
    assert (b, c, d, f) == (0.0, 0.0, 0.0, 0.0)
    assert right >= width - 1e-6  # the view covers the page
    assert bottom >= height - 1e-6


@settings(max_examples=40)
@given(
    st.integers(200, 900), st.integers(200, 900), st.floats(60, 400), st.floats(0.1, 0.8), st.floats(0.1, 0.8)
)
def test_a_mark_is_found_where_the_transform_says(
    width: int, height: int, dpi: float, across: float, down: float
) -> None:
    left, top, side = round(across * width), round(down * height), 24
    image = Image.new("L", (width, height), 255)
    ImageDraw.Draw(image).rectangle((left, top, left + side - 1, top + side - 1), fill=0)
    page = prepare(image, MINI, dpi)
    view = page.views[0][:, :, 0].astype(float)
    ink = view.max() - view
    a, b, c, d, e, f = page.transform
    rows, columns = np.indices(ink.shape) + 0.5
    x, y = (columns * ink).sum() / ink.sum(), (rows * ink).sum() / ink.sum()
    tolerance = 1.0 + 0.5 / page.scale
    assert a * x + b * y + c == pytest.approx(left + side / 2, abs=tolerance)
    assert d * x + e * y + f == pytest.approx(top + side / 2, abs=tolerance)


def test_plans_never_promise_fewer_tokens_than_a_page_of_print_takes() -> None:
    image, _ = _page(MINI.wanted_dpi)
    assert count_image_tokens(image.width, image.height, MINI) >= prepare(image, MINI).image_tokens


bitmaps = st.integers(1, 14).flatmap(
    lambda width: st.lists(
        st.lists(st.booleans(), min_size=width, max_size=width), min_size=1, max_size=14
    ).map(lambda rows: np.array(rows, bool))
)


def _flood_filled(ink: np.ndarray) -> list[tuple[int, ...]]:
    height, width = ink.shape
    seen = np.zeros_like(ink)
    boxes = []
    for start in zip(*np.nonzero(ink), strict=True):
        if seen[start]:
            continue
        seen[start] = True
        waiting, members = deque([start]), []
        while waiting:
            row, column = waiting.popleft()
            members.append((row, column))
            for near_row in range(max(row - 1, 0), min(row + 2, height)):
                for near_column in range(max(column - 1, 0), min(column + 2, width)):
                    if ink[near_row, near_column] and not seen[near_row, near_column]:
                        seen[near_row, near_column] = True
                        waiting.append((near_row, near_column))
        rows, columns = zip(*members, strict=True)
        boxes.append((min(columns), min(rows), max(columns) + 1, max(rows) + 1, len(members)))
    return sorted(tuple(int(side) for side in box) for box in boxes)


@settings(max_examples=200)
@given(bitmaps)
def test_component_boxes_are_those_of_a_flood_fill(ink: np.ndarray) -> None:
    found = sorted(tuple(box) for box in component_boxes(ink).tolist())
    assert found == _flood_filled(ink)


def test_the_grain_of_an_empty_leaf_is_not_stretched_into_ink() -> None:
    grain = np.random.default_rng(4).normal(200, 14, (640, 480)).clip(150, 235).astype(np.uint8)
    view = prepare(Image.fromarray(grain), model_vision("mini")).views[0]
    assert view.std() < 1.5 * grain.std()


@pytest.mark.parametrize("pixels", [24, 40])
def test_lists_of_capitals_and_figures_are_measured_by_their_small_letters(pixels: int) -> None:
    font = ImageFont.load_default(pixels)
    sheet = Image.new("L", (900, 40 * 30), 245)
    for line in range(28):
        ImageDraw.Draw(sheet).text((60, 40 * line), f"{10 + line}    Form {871 + line}", 20, font)
    box = font.getbbox("x", anchor="ls")
    assert measure_letters(np.asarray(sheet)).x_height_pixels == pytest.approx(-box[1], rel=0.12)
