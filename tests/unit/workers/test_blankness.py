"""Blank or not: small evidence is kept, texture and dirt are not taken for it."""

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

from workers.blankness import is_blank


def _leaf(grain: float = 4.0, tone: int = 220, size: tuple[int, int] = (1240, 1754)) -> Image.Image:
    random = np.random.default_rng(int(grain * 10) + tone)
    shade = np.linspace(-15, 15, size[0])
    samples = tone + shade + random.normal(0, grain, (size[1], size[0]))
    return Image.fromarray(samples.clip(0, 255).astype(np.uint8)).filter(ImageFilter.GaussianBlur(0.6))


def _specks(image: Image.Image, count: int) -> Image.Image:
    random = np.random.default_rng(count)
    draw = ImageDraw.Draw(image)
    for x, y, radius, tone in zip(
        random.integers(0, image.width, count),
        random.integers(0, image.height, count),
        random.choice([0, 1, 1, 2, 3], count),
        random.integers(20, 120, count),
        strict=True,
    ):
        draw.ellipse((int(x), int(y), int(x + radius), int(y + radius)), fill=int(tone))
    return image


@pytest.mark.parametrize("grain", [0.0, 2.0, 8.0, 20.0])
@pytest.mark.parametrize("specks", [0, 60, 800])
def test_texture_and_specks_are_no_text_and_a_word_among_them_is(grain: float, specks: int) -> None:
    leaf = _specks(_leaf(grain), specks)
    assert is_blank(leaf).is_blank
    ImageDraw.Draw(leaf).text((600, 900), "page seven", fill=70, font_size=22)
    assert not is_blank(leaf).is_blank


def test_a_page_number_alone_is_kept() -> None:
    leaf = _leaf(2.0)
    ImageDraw.Draw(leaf).text((620, 1650), "4", fill=60, font_size=24)
    assert not is_blank(leaf).is_blank


@pytest.mark.parametrize("mode", ["1", "L", "RGB"])
def test_one_tiny_word_on_a_large_sheet_in_any_mode(mode: str) -> None:
    sheet = Image.new("L", (3307, 4677), 255)
    assert is_blank(sheet.convert(mode)).is_blank
    ImageDraw.Draw(sheet).text((400, 420), "Page1", fill=0, font_size=40)
    assert not is_blank(sheet.convert(mode)).is_blank


@pytest.mark.parametrize("grain", [0.0, 4.0])
def test_one_small_word_on_a_coarse_page(grain: float) -> None:
    page = _leaf(grain, 240, (612, 792))
    assert is_blank(page).is_blank
    ImageDraw.Draw(page).text((70, 160), "Phone", fill=20, font_size=8)
    assert not is_blank(page).is_blank


@pytest.mark.parametrize("turn", [None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180])
def test_faint_lines_are_text_whichever_way_they_run(turn: Image.Transpose | None) -> None:
    leaf = _leaf(1.0, 235)
    for line in range(6):
        ImageDraw.Draw(leaf).text(
            (150, 200 + 60 * line), "the ink has faded over the years", fill=178, font_size=26
        )
    assert not is_blank(leaf if turn is None else leaf.transpose(turn)).is_blank


def test_shadows_at_the_edge_and_folds_are_no_text() -> None:
    leaf = _leaf(3.0)
    draw = ImageDraw.Draw(leaf)
    draw.rectangle((0, 0, 14, 1754), fill=20)
    draw.rectangle((0, 1745, 1240, 1754), fill=30)
    draw.line((620, 0, 622, 1754), fill=150, width=2)
    assert is_blank(leaf).is_blank


def test_faint_show_through_is_no_text_but_pale_ink_is() -> None:
    leaf = _leaf(2.0)
    behind = Image.new("L", leaf.size, 255)
    ImageDraw.Draw(behind).text((300, 300), "FOREWORD AND MORE", fill=0, font_size=60)
    mirrored = behind.transpose(Image.Transpose.FLIP_LEFT_RIGHT).filter(ImageFilter.GaussianBlur(3))
    faint = np.asarray(leaf, np.float32) - 0.05 * (255 - np.asarray(mirrored, np.float32))
    assert is_blank(Image.fromarray(faint.clip(0, 255).astype(np.uint8))).is_blank
    ImageDraw.Draw(leaf).text((300, 300), "pale ink on the page", fill=165, font_size=40)
    assert not is_blank(leaf).is_blank


def test_light_print_on_a_dark_page_is_kept() -> None:
    cover = _leaf(3.0, tone=45)
    assert is_blank(cover).is_blank
    ImageDraw.Draw(cover).text((300, 300), "Atlas of Rivers", fill=210, font_size=40)
    assert not is_blank(cover).is_blank


def test_a_picture_is_not_blank() -> None:
    leaf = _leaf(2.0)
    ImageDraw.Draw(leaf).ellipse((400, 500, 800, 900), fill=110, outline=60)
    assert not is_blank(leaf).is_blank


@pytest.mark.parametrize("size", [(1, 1), (3, 2000), (40, 8), (2000, 1)])
def test_odd_sizes_are_survived(size: tuple[int, int]) -> None:
    assert is_blank(Image.new("L", size, 230)).is_blank
