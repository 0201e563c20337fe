"""Windows of stored pages: the truth says what is seen, in the conventions of made pages."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastocr_core.models.mini import alphabet
from fastocr_core.models.mini.train.fonts import Face
from fastocr_core.models.mini.train.ink import InkStyle, degraded, draw
from fastocr_core.models.mini.train.page_store import CHARACTER, StoredPage, write_document
from fastocr_core.models.mini.train.placement import PageLayout, truth_of
from fastocr_core.models.mini.train.real import RealPages, strip_labels, truth_of_characters
from tests.unit.mini.test_layout_kinds import kind_layout

PLAIN = InkStyle(strength=0.0)


def _characters(layout: PageLayout) -> np.ndarray:
    records = []
    number = 0
    for line_index, line in enumerate(layout.lines):
        for word in line:
            for letter, x, advance in word.letters():
                code = alphabet.CHARACTERS.index(letter)
                records.append(
                    (code, x + advance / 2, word.middle, x, x + advance, word.baseline, word.pixels, line_index, number)
                )  # fmt: skip
            number += 1
    return np.array(records, CHARACTER)


@pytest.fixture(scope="module")
def layout(face: Face) -> PageLayout:
    return kind_layout(face, 3, "mixed", 1280, 1600)


@pytest.fixture(scope="module")
def pages(layout: PageLayout, tmp_path_factory: pytest.TempPathFactory) -> RealPages:
    folder = tmp_path_factory.mktemp("store")
    pixels = draw(layout, np.random.default_rng(0), PLAIN)
    write_document(folder / "made.npz", [StoredPage(pixels, _characters(layout))])
    return RealPages(folder)


def test_pages_in_columns_are_left_out(face: Face, tmp_path: Path, pages: RealPages) -> None:
    """The view cuts columns apart before the reader sees them."""
    assert len(pages) == 1
    columns = kind_layout(face, 3, "two_columns", 1280, 1600)
    pixels = draw(columns, np.random.default_rng(0), PLAIN)
    write_document(tmp_path / "made.npz", [StoredPage(pixels, _characters(columns))])
    with pytest.raises(FileNotFoundError, match="one column"):
        RealPages(tmp_path)


def test_a_line_opens_with_its_row_and_a_word_with_its_column() -> None:
    """ "ab c" at the top and "d" below it, worked out by hand."""
    codes = np.array([alphabet.CHARACTERS.index(letter) for letter in "abcd"])
    x, y = np.array([20.0, 30.0, 60.0, 22.0]), np.array([40.0, 40.0, 41.0, 75.0])
    lefts = np.array([16.0, 16.0, 55.0, 17.5])
    truth = truth_of_characters(codes, x, y, lefts, np.array([0, 0, 0, 1]), np.array([0, 0, 1, 2]))
    a, b, c, d = (alphabet.FIRST_CHARACTER + codes).tolist()
    row, column = alphabet.FIRST_ROW, alphabet.FIRST_COLUMN
    assert truth.tokens.tolist() == [
        row + 2, column + 2, a, b, column + 6, c, row + 4, column + 2, d, alphabet.END
    ]  # fmt: skip
    assert truth.x.tolist() == [20, 20, 20, 30, 60, 60, 22, 22, 22, 0]
    assert truth.y.tolist() == [40, 40, 40, 40, 41, 41, 75, 75, 75, 0]
    assert truth.is_glyph.tolist() == [token in (a, b, c, d) for token in truth.tokens.tolist()]


def test_labels_name_the_glyph_in_each_strip(layout: PageLayout) -> None:
    letters, truth = _characters(layout), truth_of(layout)
    labels = strip_labels(truth, layout.height, layout.width)
    assert labels.shape == (layout.height // 16, layout.width // 4)
    first = int(np.flatnonzero(truth.is_glyph)[0])
    assert labels[int(truth.y[first]) // 16, int(truth.x[first]) // 4] == 1 + letters["code"][0]
    assert 0.9 * truth.is_glyph.sum() < (labels > 0).sum() <= truth.is_glyph.sum()


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_windows_show_the_words_they_say_and_no_others(
    pages: RealPages, layout: PageLayout, seed: int
) -> None:
    page = pages.page(np.random.default_rng(seed), 608, 640, PLAIN)
    assert page.pixels.shape == (608, 640)
    truth = page.truth
    known = [" ".join(word.text for word in line) for line in layout.lines]
    text = alphabet.text_of(truth.tokens.tolist()).splitlines()
    assert text
    place = 0
    for line in text:  # lines keep their order, each a stretch of a line of the page
        place = next(index for index in range(place, len(known)) if f" {line} " in f" {known[index]} ")
    ink = page.pixels < 200
    x, y = truth.x[truth.is_glyph].astype(int), truth.y[truth.is_glyph].astype(int)
    near = [
        bool(ink[max(b - 16, 0) : b + 12, max(a - 7, 0) : a + 8].any()) for a, b in zip(x, y, strict=True)
    ]
    assert np.mean(near) > 0.99
    free = ink.copy()
    for a, b in zip(x, y, strict=True):
        free[max(b - 26, 0) : b + 20, max(a - 22, 0) : a + 23] = False
    assert free.mean() < 0.002


def test_worn_windows_repeat_with_their_seed(pages: RealPages) -> None:
    first, second = (pages.page(np.random.default_rng(7), 576, 576, degraded(0.5)) for _ in range(2))
    assert (first.pixels == second.pixels).all()
    assert first.truth.tokens.tolist() == second.truth.tokens.tolist()


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no stored pages"):
        RealPages(tmp_path)
