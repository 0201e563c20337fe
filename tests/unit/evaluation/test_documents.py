"""Stored pages of real documents as evaluation pages: text, order of columns, boxes around the ink."""

from pathlib import Path

import numpy as np
import pytest

from fastocr_core.evaluation.documents import document_pages, language_of
from fastocr_core.models.mini import alphabet
from fastocr_core.models.mini.train.page_store import CHARACTER, StoredPage, write_document


def _store(folder: Path, name: str, words: list[tuple[int, str, float, float]]) -> None:
    """A page with filled boxes for letters; words: line, text, left edge, baseline."""
    pixels = np.full((400, 600), 255, np.uint8)
    records = []
    for number, (line, text, x, baseline) in enumerate(words):
        for index, letter in enumerate(text):
            left = x + 12 * index
            pixels[int(baseline) - 10 : int(baseline), int(left) + 1 : int(left) + 10] = 0
            code = alphabet.CHARACTERS.index(letter)
            records.append((code, left + 6, baseline - 5, left, left + 12, baseline, 20, line, number))
    write_document(folder / f"{name}.npz", [StoredPage(pixels, np.array(records, CHARACTER))])


def test_pages_come_at_reading_size_with_text_boxes_and_names(tmp_path: Path) -> None:
    _store(tmp_path, "guide.fr.a4", [(0, "one", 40, 100), (0, "two", 120, 100), (1, "three", 40, 140)])
    _store(tmp_path, "index", [(0, "left", 40, 100), (1, "low", 40, 220), (2, "right", 320, 100)])
    guide, index = document_pages(tmp_path)
    assert (guide.text, guide.language, guide.layout) == ("one two\nthree", "fr", "one column")
    assert (index.text, index.language, index.layout) == ("left\nlow\nright", "", "columns")
    assert guide.load().size == (450, 300)
    text, box = guide.words[1]
    assert text == "two"
    assert box == pytest.approx((121 * 0.75, 90 * 0.75, 154 * 0.75, 100 * 0.75))
    assert [page.name for page in document_pages(tmp_path, 1)] == ["guide.fr.a4, page 1 kept"]


def test_languages_are_read_from_names_and_empty_folders_are_errors(tmp_path: Path) -> None:
    assert [language_of(name) for name in ("install.de", "l2tabu-english", "maint-guide_nl", "fr")] == [
        "de", "", "nl", "fr",
    ]  # fmt: skip
    with pytest.raises(FileNotFoundError, match="no stored pages"):
        document_pages(tmp_path)
