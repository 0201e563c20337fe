"""Type cast narrower and fatter than its face: its truth must stand where its ink does."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastocr_core.models.mini.train.fonts import PLAIN, Cast, Face, any_cast
from fastocr_core.models.mini.train.ink import InkStyle, draw
from fastocr_core.models.mini.train.layout import LayoutStyle, compose
from fastocr_core.models.mini.train.placement import PageLayout, PlacedWord, truth_of
from tests.support.made_layouts import AsciiWords

CLEAN = InkStyle(strength=0.0, oversampled=1.0)


def _bars(face: Face, pixels: float = 20.0) -> tuple[np.ndarray, np.ndarray]:
    """The drawn page of a word of bars, and where its letters should stand."""
    word = "l" * 12
    width = sum(face.advances[letter] * pixels + 8 for letter in word)
    layout = PageLayout(320, 64, ((PlacedWord(word, 20.0, width, 40.0, pixels, face, spacing=8.0),),))
    truth = truth_of(layout)
    return draw(layout, np.random.default_rng(0), CLEAN), truth.x[truth.is_glyph]


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_every_bar_stands_where_the_truth_says(face: Face, seed: int) -> None:
    cast = any_cast(np.random.default_rng(seed))
    image, places = _bars(cast.of(face))
    ink = (255.0 - image[28:38]).sum(axis=0)
    for place in places:
        near = np.arange(max(0, round(place) - 3), round(place) + 4)
        assert (ink[near] * near).sum() / ink[near].sum() == pytest.approx(place - 0.5, abs=1.2)


def test_a_narrow_cast_is_narrower_and_a_heavy_one_has_more_ink(face: Face) -> None:
    plain, narrow, heavy = (
        _bars(cast.of(face))[0].astype(int) for cast in (PLAIN, Cast(squeeze=0.8), Cast(weight=0.03))
    )

    def wide(image: np.ndarray) -> int:
        return int(np.ptp(np.flatnonzero((image < 128).any(axis=0))))

    assert wide(narrow) - 88 == pytest.approx(0.8 * (wide(plain) - 88), abs=3)  # the gaps stay
    assert (255 - heavy).sum() > 1.3 * (255 - plain).sum()
    assert wide(heavy) == pytest.approx(wide(plain), abs=3)


def test_the_plain_cast_is_the_face_itself_and_bold_gains_less(face: Face) -> None:
    assert PLAIN.of(face) is face
    bold = replace(face, path=face.path.replace("plain.ttf", "plain-Bold.ttf"))
    assert Cast(weight=0.03).of(bold).weight == pytest.approx(0.01)


def test_cast_pages_hold_no_word_outside(face: Face) -> None:
    faces, weights = [face], np.ones(1)
    kinds = (("mixed", 1.0), ("plain", 1.0))
    for seed in range(12):
        style = LayoutStyle(kinds=kinds, cast_share=1.0)
        page = compose(np.random.default_rng(seed), 512, 512, faces, weights, AsciiWords(), style)
        words = [word for line in page.lines for word in line]
        assert any(word.face.squeeze != 1.0 or word.face.weight > 0 for word in words) or not words
        assert all(word.x >= 0 and word.x + word.width <= 512.5 for word in words)


def _heads(face: Face, cast: Cast) -> list[PageLayout]:
    style = LayoutStyle(kinds=(("strip", 1.0),), margin_pixels=(4, 20))
    pages = []
    for seed in range(120):
        generator = np.random.default_rng(seed)
        pages.append(compose(generator, 640, 160, [cast.of(face)], np.ones(1), AsciiWords(), style))
    return pages


def test_heads_on_fat_pages_are_fatter_and_narrower_than_the_text_and_the_truth_goes_along(
    face: Face,
) -> None:
    pages = _heads(face, Cast(0.9, 0.03))
    faces = [word.face for page in pages for line in page.lines for word in line]
    assert any(each.weight > 0.06 and each.squeeze < 0.8 for each in faces)
    assert all(each.weight <= 0.09 for each in faces)
    for each in faces[:200]:
        squeezed = face.advances["H"] * each.squeeze
        room = each.advances["H"] - squeezed  # for the ink that was added to the head alone
        assert room == pytest.approx(
            0.5 * (each.weight - 0.03) if each.weight > 0.03 else 0.0, abs=0.02 * squeezed
        )
    assert {each.face.weight for page in _heads(face, PLAIN) for line in page.lines for each in line} == {0.0}


def test_heads_on_fat_pages_are_set_in_slab_capitals_of_another_family_now_and_then(face: Face) -> None:
    slab = replace(face, path="/fonts/fontsource/besley/besley-Bold.ttf")
    slanted = replace(face, path="/fonts/fontsource/besley/besley-BoldItalic.ttf")
    faces, weights = [face, slab, slanted], np.array([1.0, 0.0, 0.0])
    style = LayoutStyle(kinds=(("strip", 1.0),), margin_pixels=(4, 20), cast_share=1.0)
    used: dict[float, set[str]] = {}
    for seed in range(60):
        page = compose(np.random.default_rng(seed), 640, 160, faces, weights, AsciiWords(), style)
        for word in (word for line in page.lines for word in line):
            used.setdefault(word.face.weight > 0, set()).add(word.face.path)
    assert used[True] == {face.path, slab.path}
    assert used[False] == {face.path}, "on pages in plain type heads are of the family"


def test_a_piece_of_a_head_may_stand_between_two_lines_but_belongs_to_the_upper(face: Face) -> None:
    sunk = 0
    for page in _heads(face, PLAIN):
        for upper, lower in zip(page.lines, page.lines[1:], strict=False):
            if len({word.pixels for word in upper}) > 1:
                continue  # sizes of their own, baselines of their own
            fall = upper[-1].baseline - upper[0].baseline
            assert fall <= 0.5 * (lower[0].baseline - upper[0].baseline) + 0.01
            sunk += fall > 2.0
    assert sunk >= 3
