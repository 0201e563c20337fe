"""Real pages for training: what a PDF draws comes out as text in reading order, and at its place."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fastocr_core.models.mini import alphabet
from fastocr_core.models.mini.train.page_store import read_page
from fastocr_core.models.mini.train.real import RealPages, truth_of_characters
from tests.unit.workers.pdf_maker import PagePlan, make_pdf
from workers.training_pages import document_pages, is_held_out, main

_WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "lazy", "dogs", "while", "seven", "wizards", "box"]


def _shown(x: float, y: float, text: str, size: float = 10.0) -> str:
    return f"BT /F1 {size} Tf 1 0 0 1 {x} {y} Tm ({text}) Tj ET\n"


def _sentence(index: int, words: int = 5) -> str:
    return f"{index} " + " ".join(_WORDS[(index + step) % len(_WORDS)] for step in range(words))


def _column(x: float, first: int, count: int = 9) -> str:
    return "".join(_shown(x, 700 - 14 * row, _sentence(first + row)) for row in range(count))


def _file(folder: Path, *contents: str) -> Path:
    path = folder / "made.pdf"
    path.write_bytes(make_pdf([PagePlan(after=content) for content in contents]))
    return path


def _texts(path: Path) -> tuple[list[str], Counter[str]]:
    refused = Counter[str]()
    texts = []
    for page in document_pages(path, 10, refused):
        letters = page.characters
        truth = truth_of_characters(
            letters["code"].astype(np.int64),
            letters["x"],
            letters["y"],
            letters["x0"],
            letters["line"],
            letters["word"],
        )
        texts.append(alphabet.text_of(truth.tokens.tolist()))
    return texts, refused


def test_columns_are_read_one_after_the_other_and_a_late_running_title_first(tmp_path: Path) -> None:
    content = _column(60, 0) + _column(330, 20) + _shown(60, 750, "Running title") + _shown(500, 750, "17")
    texts, _ = _texts(_file(tmp_path, content))
    expected = ["Running title 17", *map(_sentence, range(9)), *map(_sentence, range(20, 29))]
    assert texts == ["\n".join(expected)]


def test_rows_of_tables_and_contents_are_one_line_without_their_leaders(tmp_path: Path) -> None:
    dots = " .".join([""] * 20)
    content = "".join(
        _shown(60, 700 - 14 * row, f"Chapter {row} of many")
        + _shown(250, 700 - 14 * row, dots)
        + _shown(520, 700 - 14 * row, str(7 * row))
        for row in range(8)
    )
    texts, _ = _texts(_file(tmp_path, content))
    assert texts == ["\n".join(f"Chapter {row} of many {7 * row}" for row in range(8))]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (_column(60, 0) + _column(330, 20, 3), "side by side"),
        (_column(330, 20) + _column(60, 0), "right before left"),
        ("".join(_shown(40, 700 - 14 * row, str(row)) for row in range(9)) + _column(60, 0), "side by side"),
        (_column(60, 0) + "BT /F1 10 Tf 0 1 -1 0 500 300 Tm (turned) Tj ET\n", "turned text"),
        (_column(60, 0) + "BT 3 Tr /F1 10 Tf 1 0 0 1 60 300 Tm (nobody sees this) Tj ET\n", "invisible text"),
        (_column(60, 0) + "1 g " + _shown(60, 300, "white on white paper, and quite long"), "letters without ink"),
        (_shown(60, 300, "few"), "hardly any text"),
    ],
)  # fmt: skip
def test_pages_in_doubt_are_refused(tmp_path: Path, content: str, reason: str) -> None:
    texts, refused = _texts(_file(tmp_path, content))
    assert (texts, dict(refused)) == ([], {reason: 1})


def test_ligatures_and_accents_drawn_apart_are_letters(tmp_path: Path) -> None:
    accented = (
        _shown(61, 300, "\\302") + _shown(60, 300, "e") + _shown(65.56, 300, "tude at will in the of\\256ce")
    )
    texts, _ = _texts(_file(tmp_path, _column(60, 0) + accented))
    assert texts[0].splitlines()[-1] == "étude at will in the office"


def test_words_that_cannot_be_written_leave_no_ink(tmp_path: Path) -> None:
    """A currency sign is in the font and not in the alphabet: its word goes from the text and from the picture."""
    texts, _ = _texts(_file(tmp_path, _column(60, 0) + _shown(60, 300, "before a\\244b after")))
    assert texts[0].splitlines()[-1] == "before after"
    page = document_pages(tmp_path / "made.pdf", 1, Counter())[0]
    last = page.characters[page.characters["baseline"] > 1300]
    left, right = float(last["x1"][5]), float(last["x0"][6])
    row = int(last["baseline"][0])
    assert page.pixels[row - 25 : row + 8, int(left) + 2 : int(right) - 2].min() == 255


def test_characters_stand_where_their_ink_is(tmp_path: Path) -> None:
    page = document_pages(_file(tmp_path, _column(60, 0)), 1, Counter())[0]
    round_letters = page.characters[page.characters["code"] == alphabet.CHARACTERS.index("o")]
    assert len(round_letters) > 10
    ink = 255.0 - page.pixels
    for letter in round_letters:
        left, top = int(letter["x0"]), int(letter["y"]) - 14
        window = ink[top : top + 29, left : int(letter["x1"]) + 1]
        rows, columns = np.mgrid[0 : window.shape[0], 0 : window.shape[1]] + 0.5
        assert (window * columns).sum() / window.sum() + left == pytest.approx(letter["x"], abs=1.2)
        assert (window * rows).sum() / window.sum() + top == pytest.approx(
            letter["y"], abs=1.0
        )  # the renderer rounds heights to a pixel


def test_the_command_keeps_languages_of_one_document_together(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    main(
        [
            str(_file(tmp_path, _column(60, 0), _column(60, 5))),
            "--folder",
            str(folder),
            "--held-out-share",
            "0",
        ]
    )
    assert len(RealPages(folder)) == 2
    assert read_page(folder / "made.npz", 1).pixels.shape == (2200, 1700)
    names = [f"guide-{number}" for number in range(300)]
    held_out = [name for name in names if is_held_out(name, 0.1)]
    assert 10 < len(held_out) < 60
    assert all(is_held_out(f"{name}-fr", 0.1) and is_held_out(f"{name}.de.a4", 0.1) for name in held_out)
