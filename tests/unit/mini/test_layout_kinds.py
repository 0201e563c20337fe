"""Every kind of page: words inside the page and apart from each other, in reading order, with truth that says the text."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastocr_core.models.mini import alphabet
from fastocr_core.models.mini.train.fonts import Face
from fastocr_core.models.mini.train.layout import KINDS, LayoutStyle, PageLayout, PlacedWord, truth_of
from tests.support.made_layouts import made_layout

seeds = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(sorted(KINDS))
sides = st.integers(6, 34).map(lambda cells: cells * 32)
SHARES = {
    "furniture_share": 0.6, "footnote_share": 0.4, "emphasis_share": 0.5, "reverse_share": 0.3,
    "neighbour_share": 0.2, "picture_share": 0.1, "short_share": 0.2,
}  # fmt: skip


def kind_layout(
    face: Face, seed: int, kind: str, width: int, height: int, skew_share: float = 0.0
) -> PageLayout:
    style = LayoutStyle(
        margin_pixels=(2, 90), min_pitch_pixels=18.0, kinds=((kind, 1.0),), skew_share=skew_share, **SHARES
    )
    return made_layout(face, seed, width, height, style)


def _letters_box(word: PlacedWord) -> tuple[float, float, float, float]:
    """Where the small letters of a word stand."""
    return word.x, word.baseline - word.face.x_height * word.pixels, word.x + word.width, word.baseline


def _meet(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@settings(max_examples=120)
@given(seeds, kinds, sides, sides)
@example(seed=353, kind="contents", width=192, height=192)  # a foot of three lines ran into the head
def test_words_stand_inside_the_page_and_apart(
    face: Face, seed: int, kind: str, width: int, height: int
) -> None:
    layout = kind_layout(face, seed, kind, width, height)
    words = [word for line in layout.lines for word in line]
    for word in words:
        assert word.x >= 0
        assert word.x + word.width <= width + 0.01
        assert word.baseline - word.face.x_height * word.pixels > 0
        assert word.baseline + word.face.descent * word.pixels <= height
    for line in layout.lines:
        for one, other in itertools.pairwise(line):
            assert one.x + one.width < other.x
    boxes = sorted(map(_letters_box, words), key=lambda box: box[1])
    for index, box in enumerate(boxes):
        for other in itertools.takewhile(lambda each: each[1] < box[3], boxes[index + 1 :]):  # noqa: B023
            assert not _meet(box, other)


@settings(max_examples=120)
@given(seeds, kinds, sides, sides)
def test_lines_follow_downwards_or_open_a_column(
    face: Face, seed: int, kind: str, width: int, height: int
) -> None:
    layout = kind_layout(face, seed, kind, width, height)
    for one, other in itertools.pairwise(layout.lines):
        opens = "columns" in kind and other[0].x > one[-1].x + one[-1].width
        if other[0].middle <= one[0].middle:
            assert opens
        elif not opens:  # a picture may stand above the first line of a column
            assert alphabet.row_token(other[0].middle) > alphabet.row_token(one[0].middle)


@settings(max_examples=80)
@given(seeds, kinds, st.sampled_from([0.0, 1.0]))
def test_truth_says_the_text(face: Face, seed: int, kind: str, skew_share: float) -> None:
    layout = kind_layout(face, seed, kind, 640, 704, skew_share)
    truth = truth_of(layout)
    assert alphabet.text_of(truth.tokens.tolist()) == layout.text
    written = alphabet.written_words(truth.tokens.tolist())
    placed = [(index, word) for index, line in enumerate(layout.lines) for word in line]
    for (index, word), read in zip(placed, written, strict=True):
        x, _ = layout.turned(np.array(word.x), np.array(word.middle))
        assert (read.text, read.line) == (word.text, index)
        assert read.column * 8 <= x < read.column * 8 + 8
    for line, words in itertools.groupby(written, key=lambda read: read.line):
        columns = [read.column for read in words]
        assert columns == sorted(columns), line
    assert (truth.x[truth.is_glyph] > 0).all()
    assert (truth.x[truth.is_glyph] < 640).all()
    assert (truth.y[truth.is_glyph] > 0).all()
    assert (truth.y[truth.is_glyph] < 704).all()


@settings(max_examples=80)
@given(seeds, kinds, sides, sides)
def test_marks_keep_off_the_letters(face: Face, seed: int, kind: str, width: int, height: int) -> None:
    layout = kind_layout(face, seed, kind, width, height)
    for rule in layout.rules:
        assert rule.x0 <= rule.x1
        assert rule.y0 <= rule.y1
        if rule.look in ("line", "dots", "tint", "picture"):
            area = (rule.x0, rule.y0, rule.x1 + 0.1, rule.y1 + 0.1)
            assert not any(_meet(area, _letters_box(word)) for line in layout.lines for word in line)


@settings(max_examples=40)
@given(seeds)
def test_cut_letters_are_cut_and_far_from_the_text(face: Face, seed: int) -> None:
    style = LayoutStyle(kinds=(("prose", 1.0),), neighbour_share=1.0)
    layout = made_layout(face, seed, 640, 640, style)
    assert layout.unread
    for word in layout.unread:
        assert word.x < 0 or word.x + word.width > layout.width
    at_left = layout.unread[0].x < 0
    for line in layout.lines:
        if at_left:
            assert line[0].x >= 29.9
        else:
            assert line[-1].x + line[-1].width <= layout.width - 29.9


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_kind_fills_a_page(face: Face, kind: str) -> None:
    """On a whole page each kind sets text, and most of it has more lines than a fallback of one or two."""
    counts = [len(kind_layout(face, seed, kind, 736, 1024).lines) for seed in range(12)]
    assert min(counts) >= 1
    assert np.median(counts) >= 8


def test_two_columns_are_read_one_after_the_other(face: Face) -> None:
    style = LayoutStyle(kinds=(("two_columns", 1.0),), heading_share=0.0, pitch=(1.2, 1.3))
    for seed in range(10):
        layout = made_layout(face, seed, 736, 704, style)
        turns = [
            index
            for index, (one, other) in enumerate(itertools.pairwise(layout.lines))
            if other[0].middle < one[0].middle
        ]
        assert turns
        first = max(word.x + word.width for line in layout.lines[1 : turns[0] + 1] for word in line[-1:])
        assert layout.lines[turns[0] + 1][0].x > min(first, 736 / 2 - 30)


def test_no_kinds_is_the_page_of_the_first_trainings(face: Face) -> None:
    """The held-out pages are drawn without kinds and must not change: their text and places are pinned."""
    layout = made_layout(face, 7)
    assert not layout.rules
    assert not layout.unread
    assert layout.skew_degrees == 0.0
