"""Real files as evaluation pages: what the index says of them, and truth from a text layer."""

import json
from pathlib import Path

import pymupdf
import pytest

from fastocr_core.vision import model_vision
from workers.evaluation_cases import case_pages, known_pages, phrases_by_page, truth_beside
from workers.text_layer import page_texts


def _document(folder: Path, texts: list[str]) -> Path:
    document = pymupdf.open()
    for text in texts:
        document.new_page().insert_text((72, 100), text)
    file = folder / "made.pdf"
    document.save(file)
    return file


def test_pages_of_an_index(tmp_path: Path) -> None:
    _document(tmp_path, ["one two", "three", ""])
    (tmp_path / "made.gt.txt").write_text("one tſo", "utf-8")
    entries = [
        {"file": "made.pdf", "pages": 3, "expect": {"page_text": {"2": ["three"]}, "blank_pages": [3]}},
        {"file": "gone.pdf", "pages": 1, "expect": {"note": "nothing is known of it"}},
    ]
    (tmp_path / "index.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
    known = known_pages(tmp_path)
    assert [(page.number, page.text, page.exact, page.must_contain) for page in known] == [
        (1, "one tso", True, ()), (2, None, False, ("three",)), (3, "", False, ()),
    ]  # fmt: skip
    pages, failures = case_pages(tmp_path, model_vision("mini"))
    assert failures == []
    assert [page.blank for page in pages] == [False, False, True]
    assert pages[0].dpi == pytest.approx(150, abs=2)
    assert pages[0].load().size == (1240, 1755)
    assert len(case_pages(tmp_path, model_vision("mini"), 2)[0]) == 2


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.4\nnothing")
    entry = {"file": "bad.pdf", "pages": 1, "expect": {"must_contain": ["x"]}}
    (tmp_path / "index.jsonl").write_text(json.dumps(entry), "utf-8")
    pages, failures = case_pages(tmp_path, model_vision("mini"))
    assert pages == []
    assert len(failures) == 1
    assert failures[0].startswith("bad.pdf cannot be opened")


def test_a_missing_file_is_said_and_the_others_are_read(tmp_path: Path) -> None:
    _document(tmp_path, ["one two"])
    entries = [{"file": name, "expect": {"must_contain": ["one"]}} for name in ("gone.png", "made.pdf")]
    (tmp_path / "index.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
    pages, failures = case_pages(tmp_path, model_vision("mini"))
    assert [page.name for page in pages] == ["made.pdf p. 1"]
    assert len(failures) == 1
    assert "gone.png" in failures[0]


@pytest.mark.parametrize("line", ['{"pages": 1}', "[1]", "{", '{"file": "a.png", "expect": 3}'])
def test_a_line_that_says_nothing_of_a_file_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "index.jsonl").write_text(f"\n{line}\n", "utf-8")
    with pytest.raises(ValueError, match=r"line 2 of index\.jsonl"):
        known_pages(tmp_path)


def test_text_layer_of_a_pdf(tmp_path: Path) -> None:
    file = _document(tmp_path, ["one two", "three"])
    assert [text.split() for text in page_texts(file, [2, 1])] == [["three"], ["one", "two"]]
    with pytest.raises(ValueError, match=r"made\.pdf gave no text"):
        page_texts(file, [9])


def test_phrases_and_truth_of_an_entry(tmp_path: Path) -> None:
    expect = {
        "must_contain": ["a"],
        "every_page_must_contain": ["b"],
        "page_text": {"x1": ["c"], "00000010": ["d"]},
    }
    assert phrases_by_page(expect, 2) == {1: ("a", "b"), 2: ("b",)}
    (tmp_path / "other.txt").write_text("words", "utf-8")
    assert truth_beside(tmp_path, {"file": "z.pdf", "ground_truth": "other.txt (loose)"}) == ("words", False)
    assert truth_beside(tmp_path, {"file": "z.pdf"}) == (None, False)


def test_the_case_files_give_text_phrases_and_blank_pages(cases_dir: Path) -> None:
    known = {(page.file, page.number): page for page in known_pages(cases_dir)}
    eurotext = known["tess_eurotext.tif", 1]
    assert eurotext.exact
    assert "The (quick)" in (eurotext.text or "")
    layer = [page for (file, _), page in known.items() if file.startswith("unstructured") and page.text]
    assert len(layer) == 20
    assert not any(page.exact for page in layer)
    assert known["olmocr_blank_book_pg1.pdf", 1].text == ""
    assert known["ocrmypdf_typewriter.png", 1].language == "nl"
    assert "ſ" not in (known["ocrd_kant_0020.jp2", 1].text or "")
