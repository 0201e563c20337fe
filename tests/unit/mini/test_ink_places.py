"""Ink lies where the truth says, upright and turned; marks are drawn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastocr_core.models.mini.train.fonts import Face
from fastocr_core.models.mini.train.ink import InkStyle, draw
from fastocr_core.models.mini.train.layout import PageLayout, PlacedWord, Rule, truth_of
from tests.unit.mini.test_layout_kinds import kind_layout

PLAIN = InkStyle(strength=0.0)


@settings(max_examples=25)
@given(st.floats(-2, 2), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1.0]))
def test_single_letters_lie_at_their_truth(face: Face, degrees: float, seed: int, oversampled: float) -> None:
    """Each o of a sparse page has its centre of ink where the truth puts it, but for whole pixels of the font engine."""
    allowed = 1.0 if oversampled else 1.7
    generator = np.random.default_rng(seed)
    lines = []
    for y in range(80, 900, 120):
        x = float(generator.uniform(50, 100))
        line = []
        while x < 600:
            line.append(
                PlacedWord("o", x, face.advances["o"] * 18.0, y + float(generator.random()), 18.0, face)
            )
            x += float(generator.uniform(60, 160))
        lines.append(tuple(line))
    layout = PageLayout(672, 960, tuple(lines), skew_degrees=degrees)
    image = 255.0 - draw(layout, generator, InkStyle(strength=0.0, oversampled=oversampled))
    truth = truth_of(layout)
    for x, y in zip(truth.x[truth.is_glyph], truth.y[truth.is_glyph], strict=True):
        left, top = int(x) - 20, int(y) - 20
        window = image[top : top + 41, left : left + 41]
        rows, columns = np.mgrid[0:41, 0:41] + 0.5
        assert (window * columns).sum() / window.sum() + left == pytest.approx(x, abs=allowed)
        assert (window * rows).sum() / window.sum() + top == pytest.approx(y, abs=allowed)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["two_columns", "tables", "lists", "letter"]))
def test_ink_is_near_every_true_glyph_of_skewed_pages(face: Face, seed: int, kind: str) -> None:
    layout = kind_layout(face, seed, kind, 640, 704, skew_share=1.0)
    image = draw(layout, np.random.default_rng(seed), PLAIN)
    truth = truth_of(layout)
    found = []
    for x, y in zip(truth.x[truth.is_glyph].astype(int), truth.y[truth.is_glyph].astype(int), strict=True):
        window = image[max(0, y - 12) : y + 13, max(0, x - 3) : x + 4]
        found.append(int(window.max()) - int(window.min()) > 100)
    assert np.mean(found) > 0.97


def _page_with(rule: Rule) -> np.ndarray:
    return draw(PageLayout(200, 100, (), (rule,)), np.random.default_rng(0), PLAIN)


@pytest.mark.parametrize("look", ["line", "dots", "dashes"])
def test_rules_are_drawn_along_their_height(look: str) -> None:
    image = _page_with(Rule(20, 50, 180, 50, look, 2.0, 10.0))  # type: ignore[arg-type]
    dark = np.argwhere(image < 160)
    assert dark[:, 0].min() >= 47
    assert dark[:, 0].max() <= 53
    assert dark[:, 1].min() <= 30
    assert dark[:, 1].max() >= 165
    broken = len(np.unique(dark[:, 1])) < 140
    assert broken == (look != "line")


def test_boxes_tints_and_bars_fill_what_they_should() -> None:
    assert (_page_with(Rule(20, 20, 180, 80, "tint", tone=100))[25:75, 25:175] == 100).all()
    assert (_page_with(Rule(20, 20, 180, 80, "reverse"))[25:75, 25:175] == 0).all()
    box = _page_with(Rule(20, 20, 180, 80, "box", 2.0))
    assert (box[25:75, 25:175] == 255).all()
    assert (box < 128).sum() > 2 * (160 + 60)
    assert _page_with(Rule(20, 20, 180, 80, "picture", tone=128))[25:75, 25:175].std() > 5


def test_letters_on_a_reverse_bar_are_white(face: Face) -> None:
    word = PlacedWord("HHHH", 30.0, face.advances["H"] * 80, 60.0, 20.0, face)
    layout = PageLayout(200, 100, ((word,),), (Rule(20, 30, 180, 70, "reverse"),))
    image = draw(layout, np.random.default_rng(0), PLAIN)
    assert (image[32:68, 150:178] == 0).all()
    assert image[45:60, 30:70].max() > 200
