"""Readers behind one contract, and the table that sets them side by side."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from PIL import Image

from fastocr_core import DecodePolicy, EngineLimits, load
from fastocr_core.evaluation import rapid, tesseract
from fastocr_core.evaluation.pages import EvaluationPage, held_out, printed
from fastocr_core.evaluation.reader import blank_share, evaluate, facts, markdown, summary
from fastocr_core.evaluation.readers import EngineReader, ReaderMissingError, Reading
from fastocr_core.evaluation.scoring import folded_phrase, score
from fastocr_core.evaluation.tables import markdown_table

BOX = (0.0, 0.0, 10.0, 10.0)


def _page(name: str, text: str | None, part: str = "clean", **more: object) -> EvaluationPage:
    settings = {"language": "en", "layout": "prose"} | more
    return EvaluationPage(name, part, text, lambda: Image.new("L", (8, 8), 255), **settings)  # type: ignore[arg-type]


class Said:
    """A reader that says what it is told to."""

    def __init__(self, name: str, *texts: str | None) -> None:
        self.name, self.version, self._texts = name, "1", texts

    def read(self, pages: Sequence[EvaluationPage]) -> Iterator[Reading]:
        for page, text in zip(pages, self._texts, strict=True):
            if text is None:
                yield Reading("", (), 2.0, "broke")
            else:
                words = tuple((word, BOX) for word in text.split()) if page.words else ()
                yield Reading(text, words, 1.0, finish="loop" if "again" in text else "stop")


def test_what_each_score_needs() -> None:
    words = (("one", BOX), ("two", (0.0, 0.0, 5.0, 10.0)))
    exact = score(_page("p", "one two", words=words), Reading("one two", (*words[:1], ("two", BOX)), 1.0))
    assert (exact.cer, exact.wer, exact.word_f1, exact.in_order) == (0.0, 0.0, 1.0, True)
    assert exact.ious == (1.0, 0.5)
    loose = score(_page("p", "one two", exact=False), Reading("two one", (), 1.0))
    assert (loose.cer, loose.in_order, loose.word_f1) == (None, None, 1.0)
    phrase = score(_page("p", None, must_contain=("Größe ſie", "no")), Reading("die grÖSSE  sie", (), 1.0))
    assert (phrase.word_f1, phrase.phrases, phrase.phrases_found) == (None, 2, 1)
    blank = score(_page("p", ""), Reading(" a\nb ", (), 1.0))
    assert (blank.blank, blank.characters, blank.cer) == (True, 2, None)
    assert folded_phrase("A\u0308  x\n") == "ä x"


def test_markdown_and_facts_side_by_side() -> None:
    pages = [
        _page("a", "one two three four", degradation="none"),
        _page("b", "five six seven eight", part="columns", language="de", degradation="fax"),
        _page("leaf", "", layout="blank"),
        _page("c.pdf p. 1", None, part="cases", must_contain=("ten",), language=""),
    ]
    good = Said("good", "one two three four", "five six seven eight", "", "it is TEN")
    bad = Said("bad", "one two", None, "ink again", "nine")
    results = evaluate([good, bad], pages)
    text = markdown(results)
    assert "| good | 1 | 4 | 0.0% | 0.0% | 0.0% | 1.000 | 100% | 100% | - | 1 of 1 | 0 | 0 | 1.0 |" in text
    assert "| bad | 1 | 4 |" in text
    assert "| fax | 1 | 0.0% / 1.000 | 100.0% / 0.000 |" in text
    assert "| c.pdf p. 1 | 1 of 1 | 0 of 1 |" in text
    report = json.loads(json.dumps(facts(results)))
    assert [each["two_columns_in_order"] for each in report["readers"]] == [1.0, 0.0]
    assert [each["blank_pages_empty"] for each in report["readers"]] == [1.0, 0.0]
    assert report["readers"][1]["groups"]["language"]["de"]["cer"] == 1.0
    assert report["readers"][1]["pages"][1]["error"] == "broke"
    assert summary([]).cer is None
    with pytest.raises(ValueError, match="no page"):
        evaluate([good], [])
    with pytest.raises(ValueError, match="no reader"):
        evaluate([], pages)


def test_a_blank_page_that_failed_was_not_read_as_empty() -> None:
    leaves = [_page("one", "", layout="blank"), _page("two", "", layout="blank")]
    (result,) = evaluate([Said("broken", "", None)], leaves)
    assert blank_share(result.scores) == 0.5
    assert "| 50% |" in markdown([result])


def test_cells_cannot_break_a_table() -> None:
    table = markdown_table(("a", "b"), [("x|y", "1\n2")])
    assert table.splitlines()[2] == "| x\\|y | 1 2 |"
    with pytest.raises(ValueError, match="a row of 1 cells"):
        markdown_table(("a", "b"), [("x",)])


def test_held_out_pages_come_with_their_truth() -> None:
    pages = held_out(count=2)
    assert [page.part for page in pages] == ["clean"] * 3 + ["degraded"] * 2 + ["columns"] * 2 + [
        "layouts"
    ] * 2
    assert len(printed(pages)) == 8
    page = pages[0]
    assert [word for word, _ in page.words] == (page.text or "").split()
    assert (pages[2].blank, pages[2].layout, pages[2].degradation) == (True, "blank", "")
    assert pages[3].degradation not in ("", "none")


def test_a_model_reads_as_a_reader() -> None:
    pages = held_out(("clean",), 1)
    limits = EngineLimits(max_output_tokens=12)
    reader = EngineReader(load("tiny"), DecodePolicy.fastocr(0.1), 2, limits)
    readings = list(reader.read(pages))
    assert reader.name == "tiny fastocr 10%"
    assert len(readings) == 2
    assert all(reading.error is None and reading.seconds > 0 for reading in readings)


def test_word_boxes_come_with_the_words_of_mini() -> None:
    limits = EngineLimits(max_output_tokens=60)
    (reading, _) = EngineReader(load("mini"), DecodePolicy.dense(), 1, limits).read(held_out(("clean",), 1))
    assert [word for word, _ in reading.words] == reading.text.split()
    assert all(right > left and bottom > top for _, (left, top, right, bottom) in reading.words)


def test_tesseract_reads_a_page_in_its_language() -> None:
    if shutil.which("tesseract") is None:
        pytest.skip("the program tesseract is not installed")
    reader = tesseract.TesseractReader()
    page = held_out(("clean",), 1)[0]
    (reading,) = reader.read([page])
    assert reading.error is None
    assert score(page, reading).cer < 0.1  # type: ignore[operator]
    assert len(reading.words) > 100
    assert reader.pack_of("") == "eng"
    if "deu" in reader.packs:
        assert reader.pack_of("de") == "deu"


def test_a_failing_tesseract_is_a_reading(tmp_path: Path) -> None:
    program = tmp_path / "tesseract"
    program.write_text(
        '#!/bin/sh\ncase "$1" in --version) echo tesseract 5.0;; --list-langs) echo eng;; *) exit 3;; esac\n'
    )
    program.chmod(0o755)
    reader = tesseract.TesseractReader(str(program))
    assert (reader.version, reader.pack_of("fr")) == ("5.0", "eng")
    (reading,) = reader.read([_page("p", "one")])
    assert reading.error is not None
    assert subprocess.CalledProcessError.__name__ in reading.error


def test_readers_that_are_not_there_say_so(tmp_path: Path) -> None:
    with pytest.raises(ReaderMissingError, match="not installed"):
        tesseract.TesseractReader("no-such-program")
    (tmp_path / "PP_det_x.onnx").touch()
    (tmp_path / "cls_is_missing.onnx").touch()
    with pytest.raises(ReaderMissingError, match="brings no Cls model"):
        rapid.bundled_models(tmp_path)


def test_tsv_of_tesseract_becomes_lines() -> None:
    head = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n"
    rows = [
        '5\t1\t1\t1\t1\t1\t10\t20\t30\t8\t96\t"Ab',
        "5\t1\t1\t1\t1\t2\t50\t20\t10\t8\t96\tcd",
        "4\t1\t1\t1\t2\t0\t10\t40\t50\t8\t-1\t",
        "5\t1\t1\t1\t2\t1\t10\t40\t30\t8\t96\tef",
        "5\t1\t2\t1\t1\t1\t10\t90\t30\t8\t96\tgh",
        "5\t1\t2\t1\t1\t2\t60\t90\t30\t8\t96\t ",
    ]
    text, words = tesseract.text_and_words(head + "\n".join(rows) + "\n")
    assert text == '"Ab cd\nef\n\ngh'
    assert words[0] == ('"Ab', (10.0, 20.0, 40.0, 28.0))


def test_words_of_rapidocr() -> None:
    lines = [[("ab", 0.9, [[1, 2], [9, 3], [9, 8], [1, 7]]), (" ", 0.5, [[1, 2]] * 4)], [("cd", 0.1, None)]]
    assert rapid.words_of(lines) == (("ab", (1.0, 2.0, 9.0, 8.0)),)
