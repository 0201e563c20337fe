"""The page generator: truth that fits the page, ink that fits the truth, labels and boxes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastocr_core.models.mini import alphabet, tower
from fastocr_core.models.mini.lines import lines_of
from fastocr_core.models.mini.train.fonts import Face
from fastocr_core.models.mini.train.ink import InkStyle, age, blank_leaf, draw
from fastocr_core.models.mini.train.layout import LayoutStyle, PageLayout, PlacedWord, truth_of
from fastocr_core.models.mini.train.real import strip_labels
from fastocr_core.models.mini.train.samples import LAYERS_OF_DOUBT, doubtful_strips
from fastocr_core.vision.prepared import PreparedPage
from tests.support.made_layouts import made_layout

seeds = st.integers(0, 2**32 - 1)
sides = st.integers(6, 30).map(lambda cells: cells * tower.CELL_WIDTH)


@settings(max_examples=40)
@given(seeds, sides, sides)
def test_every_glyph_stands_inside_the_page(face: Face, seed: int, width: int, height: int) -> None:
    layout = made_layout(face, seed, width, height)
    truth = truth_of(layout)
    assert (truth.x[truth.is_glyph] > 0).all()
    assert (truth.x[truth.is_glyph] < width).all()
    for line in layout.lines:
        for word in line:
            assert word.x + word.width <= width
            assert word.baseline + word.face.descent * word.pixels <= height
            assert word.baseline - word.face.x_height * word.pixels > 0


@settings(max_examples=40)
@given(seeds)
def test_true_tokens_say_the_text_and_name_the_strips(face: Face, seed: int) -> None:
    layout = made_layout(face, seed)
    truth = truth_of(layout)
    assert alphabet.text_of(truth.tokens.tolist()) == layout.text
    placed = [word for line in layout.lines for word in line]
    written = alphabet.written_words(truth.tokens.tolist())
    for word, read in zip(placed, written, strict=True):
        assert read.text == word.text
        assert read.column * 8 <= word.x < read.column * 8 + 8
    for index, line in enumerate(layout.lines):
        middle = line[0].baseline - line[0].face.x_height * line[0].pixels / 2
        row = next(read.row for read in written if read.line == index)
        assert row * 16 <= middle < row * 16 + 16


def test_letters_are_drawn_where_the_truth_says(face: Face) -> None:
    """In a long word the rounding of advances must not add up: its last bar is as exact as its first."""
    word = "l" + "i" * 25 + "l"
    pixels, start = 17.75, 20.3
    width = sum(face.advances[letter] for letter in word) * pixels
    layout = PageLayout(320, 64, ((PlacedWord(word, start, width, 40.0, pixels, face),),))
    for seed, oversampled in enumerate((0.0, 1.0)):
        style = InkStyle(strength=0.0, oversampled=oversampled)
        image = draw(layout, np.random.default_rng(seed), style)
        tall = np.flatnonzero((image[26:28] < 128).any(axis=0))  # only the ls reach above the dots
        truth = truth_of(layout)
        first, last = truth.x[truth.is_glyph][[0, -1]]
        assert tall[0] + 0.5 == pytest.approx(first, abs=2.0)
        assert tall[-1] + 0.5 == pytest.approx(last, abs=2.0)


@settings(max_examples=20)
@given(seeds)
def test_strip_labels_hold_the_glyphs_of_the_text(face: Face, seed: int) -> None:
    layout = made_layout(face, seed)
    labels = strip_labels(truth_of(layout), layout.height, layout.width)
    truth = truth_of(layout)
    assert labels.shape == (layout.height // 16, layout.width // 4)
    glyphs = truth.tokens[truth.is_glyph] - alphabet.FIRST_CHARACTER + 1
    rows, columns = (truth.y[truth.is_glyph] // 16).astype(int), (truth.x[truth.is_glyph] // 4).astype(int)
    assert set(zip(*np.nonzero(labels), strict=True)) == set(zip(rows, columns, strict=True))
    hits = labels[rows, columns] == glyphs
    assert hits.mean() > 0.9  # two narrow glyphs may share a strip


@settings(max_examples=10)
@given(seeds)
def test_doubt_spreads_each_strip_over_at_most_one(face: Face, seed: int) -> None:
    layout = made_layout(face, seed)
    generator = np.random.default_rng(seed)
    classes, weights = doubtful_strips(truth_of(layout), 32, 20, generator)
    assert classes.shape == weights.shape == (LAYERS_OF_DOUBT, 32, 160)
    assert (weights >= 0).all()
    assert (weights.sum(0) <= 1 + 1e-5).all()
    assert classes.min() >= 0
    assert classes.max() < tower.GLYPHS
    likeliest = np.where(weights.max(0) > 0.5, np.take_along_axis(classes, weights.argmax(0)[None], 0)[0], 0)
    labels = strip_labels(truth_of(layout), layout.height, layout.width)
    assert (likeliest == labels)[likeliest > 0].mean() > 0.8


@settings(max_examples=20)
@given(seeds, st.integers(3, 200), st.integers(4, 200), st.floats(0, 1))
def test_ink_keeps_shape_and_type(seed: int, height: int, width: int, strength: float) -> None:
    generator = np.random.default_rng(seed)
    pixels = generator.integers(0, 256, (height, width), dtype=np.uint8)
    aged = age(pixels, generator, InkStyle(strength=strength))
    assert aged.shape == pixels.shape
    assert aged.dtype == np.uint8
    leaf = blank_leaf(generator, height + 3, width + 3)
    assert leaf.shape == (height + 3, width + 3)
    assert leaf.dtype == np.uint8


def _view_of(layout: PageLayout) -> PreparedPage:
    view = np.full((layout.height, layout.width, 1), 255, np.uint8)
    rows, columns = layout.height // 32, layout.width // 32
    return PreparedPage(
        (view,), rows, columns, rows * columns, "page", 1, 1, (1.0, 0.0, 0.0, 0.0, 1.0, 0.0),
        layout.width, layout.height, 1.0, 0.1,
    )  # fmt: skip


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(width, 0.0) * max(height, 0.0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return shared / (sum(areas) - shared)


def test_word_boxes_lie_on_the_words(face: Face) -> None:
    """True tokens in, boxes out: against advance width times the height from ascenders to descenders."""
    overlaps = []
    for seed in range(12):
        layout = made_layout(face, seed, style=LayoutStyle((8.5, 10.5), heading_share=0.0))
        lines = lines_of(truth_of(layout).tokens.tolist(), _view_of(layout))
        assert "\n".join(line.text for line in lines) == layout.text
        boxes = [box for line in lines for box in line.word_boxes]
        for word, box in zip((word for line in layout.lines for word in line), boxes, strict=True):
            font = word.face.sized(word.pixels)
            _, top, _, bottom = font.getbbox("dp", anchor="ls")
            truth = (word.x, word.baseline + top, word.x + word.width, word.baseline + bottom)
            overlaps.append(_overlap(truth, box))
    assert np.median(overlaps) >= 0.6


def test_a_wide_gap_opens_a_paragraph(face: Face) -> None:
    def line(baseline: float) -> tuple[PlacedWord, ...]:
        return (PlacedWord("word", 20.0, 40.0, baseline, 18.0, face),)

    layout = PageLayout(320, 320, tuple(line(baseline) for baseline in (40.0, 68.0, 96.0, 190.0, 218.0)))
    lines = lines_of(truth_of(layout).tokens.tolist(), _view_of(layout))
    assert [each.starts_paragraph for each in lines] == [False, False, False, True, False]


def test_no_tokens_give_no_lines() -> None:
    assert lines_of([alphabet.END], _view_of(PageLayout(64, 64, ()))) == []
