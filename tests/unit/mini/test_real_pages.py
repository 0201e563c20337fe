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


def test_truth_of_characters_is_the_truth_of_their_layout(layout: PageLayout) -> None:
    letters = _characters(layout)
    codes = letters["code"].astype(np.int64)
    truth = truth_of_characters(
        codes, letters["x"], letters["y"], letters["x0"], letters["line"], letters["word"]
    )
    expected = truth_of(layout)
    assert truth.tokens.tolist() == expected.tokens.tolist()
    assert truth.is_glyph.tolist() == expected.is_glyph.tolist()
    np.testing.assert_allclose(truth.x, expected.x, atol=1e-3)
    np.testing.assert_allclose(truth.y, expected.y, atol=1e-3)
    labels = strip_labels(truth, layout.height, layout.width)
    assert labels.shape == (layout.height // 16, layout.width // 4)
    first = int(np.flatnonzero(truth.is_glyph)[0])
    assert labels[int(truth.y[first]) // 16, int(truth.x[first]) // 4] == 1 + letters["code"][0]
    assert 0.9 * truth.is_glyph.sum() < (labels > 0).sum() <= truth.is_glyph.sum()


@settings(max_examples=25, deadline=None)
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
