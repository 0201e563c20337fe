"""What DeepSeek-OCR sees of a page: published token counts, tile grids, token order, and pixels as Pillow's."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from fastocr_core.vision.deepseek_tiles import (
    SIZE_MODES,
    TokenOrder,
    tile_candidates,
    tile_grid,
    token_order,
)
from fastocr_core.vision.deepseek_view import (
    count_tokens_deepseek,
    page_order,
    prepare_deepseek,
    token_boxes,
    view_transforms,
    vision_deepseek,
    vision_unlimited,
)

SIDES = st.integers(1, 6000)
LIMITS = st.integers(2, 32)
A4 = [(round(210 / 25.4 * dpi), round(297 / 25.4 * dpi)) for dpi in (144, 200, 300)]
LETTER = [(round(8.5 * dpi), 11 * dpi) for dpi in (150, 300)]


def noise(width: int, height: int) -> Image.Image:
    pixels = np.random.default_rng(width * height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.mark.parametrize(
    ("width", "height", "mode", "grid", "tokens"),
    [
        (1024, 1024, "tiny", (1, 1), 73),
        (1024, 1024, "small", (1, 1), 111),
        (1024, 1024, "base", (1, 1), 273),
        (1024, 1024, "large", (1, 1), 421),
        (1024, 1024, "gundam", (2, 2), 693),
        (1024, 1024, "gundam-m", (2, 2), 1477),
        (3000, 2000, "gundam", (3, 2), 893),
        (2000, 3000, "gundam", (2, 3), 903),
        *[(*size, "gundam", (2, 3), 903) for size in (*A4, *LETTER)],
        (640, 640, "gundam", (1, 1), 273),
        (641, 640, "gundam", (2, 2), 693),
        (1920, 1080, "gundam", (4, 2), 1093),
        (1920, 1080, "gundam:6", (2, 1), 483),
        (2000, 2000, "gundam", (3, 3), 1203),
        (2000, 2000, "gundam:6", (2, 2), 693),
        (1000, 800, "gundam", (2, 2), 693),
        (1250, 1000, "gundam", (3, 2), 893),
        (2500, 2000, "gundam", (3, 3), 1203),
        (5000, 500, "gundam", (9, 1), 1183),
    ],
)
def test_published_examples(width: int, height: int, mode: str, grid: tuple[int, int], tokens: int) -> None:
    vision = vision_deepseek(mode)
    page = prepare_deepseek(noise(width, height), vision, None)
    assert (page.tile_columns, page.tile_rows) == grid
    assert page.image_tokens == count_tokens_deepseek(width, height, vision) == tokens
    assert len(page.views) == (1 if grid == (1, 1) else grid[0] * grid[1] + 1)
    assert page_order(page).image_tokens == tokens


def test_candidates_of_the_paper() -> None:
    assert tile_candidates(4) == ((1, 2), (2, 1), (1, 3), (3, 1), (1, 4), (2, 2), (4, 1))
    assert len(tile_candidates(9)) == 22
    with pytest.raises(ValueError, match="too small"):
        tile_candidates(1)


@given(SIDES, SIDES, LIMITS)
@example(640, 640, 9)
@example(1250, 1000, 9)
def test_the_grid_is_nearest_in_aspect(width: int, height: int, most: int) -> None:
    columns, rows = tile_grid(width, height, most)
    if max(width, height) <= 640:
        assert (columns, rows) == (1, 1)
        return
    assert 2 <= columns * rows <= most
    distances = [abs(width / height - across / down) for across, down in tile_candidates(most)]
    assert abs(width / height - columns / rows) == min(distances)


@given(SIDES, SIDES, LIMITS, st.sampled_from(sorted(SIZE_MODES)))
def test_no_page_has_more_tokens_than_its_mode_says(width: int, height: int, most: int, mode: str) -> None:
    vision = vision_deepseek(mode, most)
    assert 0 < count_tokens_deepseek(width, height, vision) <= vision.max_image_tokens


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 4), st.integers(1, 5))
def test_every_cell_once_and_a_newline_after_every_row(
    columns: int, rows: int, tile: int, whole: int
) -> None:
    order = TokenOrder(columns, rows, tile, whole)
    sources = order.sources()
    assert len(sources) == order.image_tokens
    cells = columns * rows * tile**2 + whole**2
    assert sorted(sources[sources < cells].tolist()) == list(range(cells))
    assert sources[-1] == cells + 1
    assert (sources == cells).sum() == rows * tile + whole
    for row in range(order.local_rows):
        assert sources[order.local_index(row, order.local_columns)] == cells
        for column in range(order.local_columns):
            place = row // tile * columns + column // tile, row % tile, column % tile
            expected = (place[0] * tile + place[1]) * tile + place[2]
            assert sources[order.local_index(row, column)] == expected
    for row in range(whole):
        assert sources[order.global_index(row, whole)] == cells
        assert sources[order.global_index(row, 0)] == columns * rows * tile**2 + row * whole


def test_published_index_maps() -> None:
    order = token_order(2000, 3000, SIZE_MODES["gundam"], 9)  # 2 x 3 tiles
    first_global = 30 * 21
    assert order.local_index(13, 7) == 13 * 21 + 7
    assert order.global_index(0, 0) == first_global
    assert order.global_index(5, 16) == first_global + 17 * 5 + 16
    assert order.image_tokens - 1 == first_global + 272


@pytest.mark.parametrize("size", [(900, 700), (700, 900), (641, 2000), (3000, 11), (501, 333), (1, 1)])
def test_padded_view_is_that_of_pillow(size: tuple[int, int]) -> None:
    image = noise(*size)
    whole = prepare_deepseek(image, vision_deepseek("base"), None).views[0]
    assert np.array_equal(whole, np.asarray(ImageOps.pad(image, (1024, 1024), color=(127, 127, 127))))


def test_a_hairline_page_is_not_lost() -> None:
    page = prepare_deepseek(Image.new("RGB", (5000, 1), "black"), vision_deepseek("base"), None)
    assert (page.views[0] == 0).any()


def test_tiles_are_cut_row_by_row() -> None:
    image = noise(1300, 1900)
    page = prepare_deepseek(image, vision_deepseek("gundam"), None)
    stretched = np.asarray(image.resize((1280, 1920), Image.Resampling.BICUBIC))
    for number, view in enumerate(page.views[:-1]):
        row, column = divmod(number, 2)
        cut = stretched[row * 640 : (row + 1) * 640, column * 640 : (column + 1) * 640]
        assert np.array_equal(view, cut)


@pytest.mark.parametrize("mode", sorted(SIZE_MODES))
def test_native_sizes(mode: str) -> None:
    page = prepare_deepseek(noise(600, 300), vision_deepseek(mode), None)
    side = SIZE_MODES[mode].global_pixels
    assert page.views[-1].shape == (side, side, 3)
    assert page.views[-1].dtype == np.uint8
    is_stretched = not (page.views[-1] == 127).all(axis=(1, 2)).any()
    assert is_stretched == SIZE_MODES[mode].stretched


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_any_image_becomes_three_channels(mode: str) -> None:
    from fastocr_core.vision.modes import to_grey_or_rgb

    image = to_grey_or_rgb(noise(300, 200).convert(mode))
    assert prepare_deepseek(image, vision_deepseek("tiny"), None).views[0].shape == (512, 512, 3)


def test_a_noted_orientation_is_applied() -> None:
    image = noise(300, 200)
    image.getexif()[0x0112] = 6  # a quarter turn
    page = prepare_deepseek(image, vision_deepseek("base"), None)
    assert (page.source_width, page.source_height) == (200, 300)


@given(SIDES, SIDES, st.sampled_from(sorted(SIZE_MODES)))
def test_tokens_tile_the_page_and_transforms_agree(width: int, height: int, mode: str) -> None:
    vision = vision_deepseek(mode)
    order = token_order(width, height, SIZE_MODES[mode], 9)
    boxes = token_boxes(width, height, vision)
    assert len(boxes) == order.image_tokens
    cells = order.sources() < order.sources().max() - 1
    assert np.array_equal(~np.isnan(boxes).any(1), cells)
    local = boxes[: order.local_tokens][cells[: order.local_tokens]]
    if len(local):
        areas = (local[:, 2] - local[:, 0]) * (local[:, 3] - local[:, 1])
        assert areas.sum() == pytest.approx(width * height)
        assert local.min() >= -1e-6
        assert local[:, 2].max() == pytest.approx(width)
        assert local[:, 3].max() == pytest.approx(height)
        column = order.local_columns - 1
        last = boxes[order.local_index(1, column)]
        assert last[0] == pytest.approx(width * column / order.local_columns)
        assert last[1] == pytest.approx(height / order.local_rows)
    whole = boxes[order.local_tokens : -1][cells[order.local_tokens : -1]]
    assert whole[:, :2].min(0) == pytest.approx(np.minimum(whole[0, :2], 0), abs=1e-6)
    assert (whole[:, 2:].max(0) >= np.array([width, height]) * (1 - 1e-9)).all()


@given(st.integers(2, 3000), st.integers(2, 3000), st.sampled_from(sorted(SIZE_MODES)))
def test_corners_of_the_page_come_back(width: int, height: int, mode: str) -> None:
    vision = vision_deepseek(mode)
    a, _, c, _, e, f = view_transforms(width, height, vision)[-1]
    side = SIZE_MODES[mode].global_pixels
    x, y = -c / a, -f / e  # where the page begins in the view
    assert -1e-6 <= x <= side / 2
    assert -1e-6 <= y <= side / 2
    assert ((width - c) / a, (height - f) / e) <= (side + 1e-6, side + 1e-6)
    assert math.isclose(min(x, y), 0, abs_tol=1e-6), "one pair of edges touches the view"


@pytest.mark.parametrize("mode", ["gundam:1", "gundam:x", "base:6", "huge", "gundam:"])
def test_unknown_modes(mode: str) -> None:
    with pytest.raises(ValueError, match=r"mode|max_tiles"):
        vision_deepseek(mode)


def test_limits_are_recorded() -> None:
    assert vision_deepseek().mode == "gundam:9"
    assert vision_unlimited().mode == "gundam:32"
    assert prepare_deepseek(noise(700, 700), vision_deepseek("gundam:6"), None).mode == "gundam:6"
    assert vision_deepseek().max_image_tokens == 1263  # nine tiles in a column
