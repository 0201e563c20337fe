"""Print that no line of a reading covers: whole lines are noticed, pictures, rules, dirt and a few words are not."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from fastocr_core.output import Block, PageText
from fastocr_core.vision import model_vision
from tests.unit.workers.any_blocks import any_blocks
from tests.unit.workers.test_rows import PACKAGE, PREPARED, TEXT
from workers.assess import ReadingStandard, assess
from workers.ink_check import off_ink_share
from workers.missed_text import LEAST_LETTERS, MISSED_TEXT, missed_share
from workers.outcomes import Outcome
from workers.prepare import PagePackage, prepare_page
from workers.rasterize import RasterPage
from workers.read_twice import read_twice_share

SENTENCE = "The harbour was closed for a week and no ship left"
LINES, PITCH, LEFT, TOP = 20, 40, 90, 80
FONT = ImageFont.load_default(size=24)


def _paper() -> Image.Image:
    return Image.new("L", (900, 1000), 250)


def _printed(image: Image.Image) -> Image.Image:
    draw = ImageDraw.Draw(image)
    for number in range(LINES):
        draw.text((LEFT, TOP + PITCH * number), SENTENCE, fill=20, font=FONT)
    return image


def _package(image: Image.Image) -> PagePackage:
    way_back = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    raster = RasterPage(
        image, image.width, image.height, 0, 150, 150.0, True, "image", (), way_back, repaired=False
    )
    return prepare_page(raster, model_vision("mini"))


def _line(number: int) -> Block:
    left, top, right, bottom = FONT.getbbox(SENTENCE)
    x, y = LEFT, TOP + PITCH * number
    return Block("line", (x + left, y + top, x + right, y + bottom), f"{SENTENCE} {number}")


def _reading(blocks: Sequence[Block]) -> PageText:
    return replace(TEXT, text="\n".join(block.text for block in blocks), blocks=tuple(blocks))


ALL = tuple(map(_line, range(LINES)))
PAGE = _package(_printed(_paper()))


def _missed(blocks: Sequence[Block], package: PagePackage = PAGE) -> float:
    return missed_share(_reading(blocks), package.prepared, package.letters)


def test_a_page_read_to_its_end_misses_nothing() -> None:
    assert PAGE.letters > 500
    assert _missed(ALL) == 0.0
    assert _missed(ALL[::-1]) == 0.0
    whole = Block("text", (LEFT - 5.0, TOP - 5.0, 850.0, TOP + 5.0 + PITCH * LINES), SENTENCE)
    assert _missed([whole]) == 0.0  # a model that tells paragraphs apart, not lines


@given(st.sets(st.integers(0, LINES - 1), min_size=1, max_size=LINES - 2))
def test_the_share_is_that_of_the_lines_left_out(read: set[int]) -> None:
    assert _missed([ALL[number] for number in sorted(read)]) == pytest.approx(
        (LINES - len(read)) / LINES, abs=0.02
    )


def test_a_reading_that_ends_early_is_flagged_and_read_again() -> None:
    package = replace(PACKAGE, prepared=PAGE.prepared, letters=PAGE.letters)
    assert assess(_reading(ALL), package).outcome is Outcome.OK
    verdict = assess(_reading(ALL[:-2]), package)
    assert verdict.flags == ("suspicious", "missed_text")
    assert verdict.wants_dense_pass
    assert assess(_reading(ALL[:-2]), package, ReadingStandard(whole_page=False)).outcome is Outcome.OK


def test_a_model_that_does_not_say_places_is_not_judged() -> None:
    nowhere = Block("text", None, SENTENCE)
    assert _missed([nowhere] * 5) == 0.0
    assert _missed([ALL[0], nowhere]) == 0.0
    assert _missed([]) == 0.0
    assert _missed([*ALL[:10], Block("text", None, "p 7")]) == pytest.approx(0.5, abs=0.02)


def test_lines_placed_on_their_neighbours_are_not_missed() -> None:
    moved = [replace(block, box=ALL[min(number // 2 * 2 + 1, 19)].box) for number, block in enumerate(ALL)]
    assert _missed(moved) == 0.0


def test_a_word_in_the_margin_is_too_little() -> None:
    image = _printed(_paper())
    ImageDraw.Draw(image).text((LEFT, 30), "page 17 of 30", fill=20, font=FONT)
    assert _missed(ALL, _package(image)) == 0.0


def test_an_almost_empty_page_is_not_judged() -> None:
    """Two lines left of three are much of a page, but a stamp and a signature are as much."""
    image = _paper()
    for number in range(3):
        ImageDraw.Draw(image).text((LEFT, TOP + PITCH * number), SENTENCE, fill=20, font=FONT)
    few = _package(image)
    assert 0 < few.letters < LEAST_LETTERS
    assert _missed(ALL[:1], few) == 0.0
    assert missed_share(_reading(ALL[:1]), few.prepared, LEAST_LETTERS) > MISSED_TEXT


def _ruled(image: Image.Image) -> None:
    draw = ImageDraw.Draw(image)
    draw.rectangle((20, 20, 880, 980), outline=20, width=4)
    for number in range(LINES):
        draw.line((60, TOP + PITCH * number - 6, 860, TOP + PITCH * number - 6), fill=60, width=2)


def _speckled(image: Image.Image) -> None:
    draw, random = ImageDraw.Draw(image), np.random.default_rng(7)
    for x, y in random.integers(0, (900, 1000), (400, 2)).tolist():
        draw.ellipse((x, y, x + 3, y + 3), fill=40)


def _halftone(image: Image.Image) -> None:
    draw = ImageDraw.Draw(image)
    for x in range(60, 860, 9):
        for y in range(900, 990, 9):
            draw.ellipse((x, y, x + 6, y + 6), fill=40)


def _stained(image: Image.Image) -> None:
    draw = ImageDraw.Draw(image)
    draw.ellipse((600, 890, 850, 990), fill=90)
    draw.line([(60 + 8 * step, 940 + (7 * step * step) % 31) for step in range(60)], fill=30, width=4)


@pytest.mark.parametrize("dirt", [_ruled, _speckled, _halftone, _stained])
def test_rules_specks_pictures_and_pen_strokes_are_no_print(dirt: Callable[[Image.Image], None]) -> None:
    image = _printed(_paper())
    dirt(image)
    assert _missed(ALL, _package(image)) == 0.0


@given(any_blocks(SENTENCE))
def test_any_boxes_are_held_against_the_page(blocks: list[Block]) -> None:
    assert 0.0 <= _missed(blocks) <= 1.0


@pytest.mark.parametrize("edge", [float("nan"), float("inf"), -float("inf"), 1e300])
def test_boxes_that_are_no_places_harm_nothing(edge: float) -> None:
    blocks = tuple(Block("line", (edge, 0.0, 100.0, edge), f"a line of print {place}") for place in range(20))
    reading = replace(TEXT, text="a line of print " * 20, blocks=blocks)
    assert 0.0 <= missed_share(reading, PREPARED, 500) <= 1.0
    assert 0.0 <= off_ink_share(reading, PREPARED) <= 1.0
    assert 0.0 <= read_twice_share(reading) <= 1.0
