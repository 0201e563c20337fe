"""A page in parts: columns of the held-out pages in order, sheets beyond the grid, no letter lost or seen twice."""

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from fastocr_core.models.mini.heldout.pages import HeldOutPage, held_out_pages
from fastocr_core.vision.components import component_boxes
from fastocr_core.vision.mini_view import (
    CELL_HEIGHT,
    CELL_WIDTH,
    MAX_COLUMNS,
    MAX_ROWS,
    MINI_VISION,
    prepare_mini,
)
from fastocr_core.vision.prepared import PreparedPage


def _offset(page: PreparedPage, part: PreparedPage) -> tuple[float, float]:
    """Where the part begins on the view of the page, pixels."""
    a, _, c, _, e, f = page.transform
    assert (part.transform[0], part.transform[4]) == (a, e)
    return (part.transform[2] - c) / a, (part.transform[5] - f) / e


def _columns(page: PreparedPage) -> list[PreparedPage]:
    return [part for part in page.parts if part.scale == page.scale]


def _ink_of_parts(page: PreparedPage) -> np.ndarray:
    """How often each dark pixel of the page is seen in its parts, titles left out, int [H, W]."""
    height, width = page.views[0].shape[:2]
    seen = np.zeros((height, width), int)
    for part in _columns(page):
        x, y = map(round, _offset(page, part))
        view = part.views[0][: height - y, : width - x, 0]
        seen[y : y + view.shape[0], x : x + view.shape[1]] += view < 120
    return seen


def _letters(page: PreparedPage) -> np.ndarray:
    """Dark pixels of letters, without rules and pictures, bool [H, W]."""
    dark = page.views[0][:, :, 0] < 120
    letters = np.zeros_like(dark)
    for left, top, right, bottom, _ in component_boxes(dark):
        if bottom - top in range(4, 35) and right - left in range(2, 60):
            letters[top:bottom, left:right] = dark[top:bottom, left:right]
    return letters


@pytest.mark.parametrize("page", list(held_out_pages("columns")), ids=lambda page: page.file)
def test_columns_of_held_out_pages_are_told_apart(page: HeldOutPage) -> None:
    prepared = prepare_mini(page.image(), MINI_VISION, None)
    assert len(_columns(prepared)) >= 2
    assert prepared.image_tokens == sum(part.image_tokens for part in prepared.parts)
    for part in _columns(prepared):
        x, y = _offset(prepared, part)
        assert x / CELL_WIDTH == pytest.approx(round(x / CELL_WIDTH), abs=1e-6)
        assert y / CELL_HEIGHT == pytest.approx(round(y / CELL_HEIGHT), abs=1e-6)
        assert part.views[0].shape == (part.grid_rows * CELL_HEIGHT, part.grid_columns * CELL_WIDTH, 1)
    if len(_columns(prepared)) == len(prepared.parts):  # the letters of a title are seen elsewhere, smaller
        assert (_ink_of_parts(prepared)[_letters(prepared)] == 1).mean() > 0.998


@pytest.mark.parametrize("part", ["clean", "degraded", "layouts"])
def test_nothing_else_is_taken_for_columns(part: str) -> None:
    """Tables, lists, forms, contents and letters are read across; only a title may stand apart, above or below."""
    for page in held_out_pages(part):
        prepared = prepare_mini(page.image(), MINI_VISION, None)
        tops = [each.transform[5] for each in prepared.parts]
        assert tops == sorted(tops), page.file
        if part != "layouts":
            assert prepared.parts == (), page.file


def _titled(title_pixels: int, title_top: int = 40) -> Image.Image:
    sheet = Image.new("L", (900, 700), 245)
    pen = ImageDraw.Draw(sheet)
    pen.text((80, title_top), "The Harbour", 20, ImageFont.load_default(title_pixels))
    for line in range(16):
        text = "the lamp was lit at dusk and burned all night without smoke"
        pen.text((60, 180 + 28 * line), text, 20, ImageFont.load_default(18))
    return sheet


def test_a_title_in_large_letters_is_made_smaller_by_itself() -> None:
    prepared = prepare_mini(_titled(56), MINI_VISION, None)
    title, text = prepared.parts
    assert title.scale < 0.6 * text.scale == pytest.approx(0.6 * prepared.scale)
    left, top = title.transform[2], title.transform[5]
    assert left < 85
    assert top < 60
    ink = np.argwhere(title.views[0][:, :, 0] < 120)
    below = ink[:, 0].max() * title.transform[4] + top
    assert 70 < below < 175  # of the title, and nothing of the text
    assert text.transform[5] > below


def test_a_heading_a_little_larger_than_the_text_stays_with_it() -> None:
    assert prepare_mini(_titled(26, 120), MINI_VISION, None).parts == ()


@pytest.mark.parametrize("thick", [2, 5, 7])
def test_a_bar_does_not_widen_the_piece_it_stands_in(thick: int) -> None:
    plain, barred = _titled(56), _titled(56)
    ImageDraw.Draw(barred).rectangle((20, 640, 880, 639 + thick), 20)
    widths = [prepare_mini(sheet, MINI_VISION, None).parts[-1].grid_columns for sheet in (plain, barred)]
    assert widths[0] == widths[1]


def _stacked(times: int) -> Image.Image:
    page = next(iter(held_out_pages("clean"))).image().convert("L")
    sheet = Image.new("L", (page.width, page.height * times), 245)
    for index in range(times):
        sheet.paste(page, (0, index * page.height))
    return sheet


def test_a_sheet_higher_than_the_grid_is_cut_between_lines() -> None:
    sheet = _stacked(4)
    prepared = prepare_mini(sheet, MINI_VISION, None)
    assert prepared.scale > 0.8  # not made smaller to fit: a quarter of it would
    assert prepared.grid_rows > MAX_ROWS
    assert len(prepared.parts) >= 2
    assert all(part.grid_rows <= MAX_ROWS for part in prepared.parts)
    assert (_ink_of_parts(prepared)[_letters(prepared)] == 1).mean() > 0.998


def test_a_sheet_whose_lines_are_too_long_is_made_smaller() -> None:
    page = next(iter(held_out_pages("clean"))).image().convert("L")
    sheet = Image.new("L", (page.width * 3, page.height), 245)
    for index in range(3):
        sheet.paste(page.crop((0, 0, page.width - 1, page.height)), (index * (page.width - 90), 0))
    prepared = prepare_mini(sheet, MINI_VISION, None)
    assert all(part.grid_columns <= MAX_COLUMNS for part in prepared.parts or (prepared,))


@pytest.mark.parametrize("size", [(3, 9000), (9000, 3), (5000, 5000)])
def test_sheets_without_letters_fit_the_grid(size: tuple[int, int]) -> None:
    prepared = prepare_mini(Image.new("L", size, 230), MINI_VISION, None)
    assert prepared.parts == ()
    assert prepared.grid_rows <= MAX_ROWS
    assert prepared.grid_columns <= MAX_COLUMNS
