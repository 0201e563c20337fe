"""The layout that dots.ocr writes: whole, cut anywhere, slightly wrong, or something else altogether."""

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastocr_core.models.dots_ocr.cells import CATEGORIES, Cell, markdown_of, parse_cells

PAGE = [
    {"bbox": [10, 20, 300, 40], "category": "Title", "text": "# A {title} [1]"},
    {"bbox": [10, 60, 300, 90], "category": "Formula", "text": "E = mc^2"},
    {"bbox": [10, 100, 300, 400], "category": "Picture"},
    {"bbox": [10, 420, 300, 500], "category": "Table", "text": '<table><tr><td>"1"</td></tr></table>'},
    {"bbox": [10, 520, 300, 560], "category": "Text", "text": "last\nwords"},
]
CELLS = (
    Cell("Title", (10, 20, 300, 40), "# A {title} [1]"),
    Cell("Formula", (10, 60, 300, 90), "E = mc^2"),
    Cell("Picture", (10, 100, 300, 400), ""),
    Cell("Table", (10, 420, 300, 500), '<table><tr><td>"1"</td></tr></table>'),
    Cell("Text", (10, 520, 300, 560), "last\nwords"),
)


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps(PAGE),
        json.dumps(PAGE, indent=2),
        f"```json\n{json.dumps(PAGE)}\n```",
        json.dumps({"layout": PAGE}),
        json.dumps(PAGE).replace("\\n", "\n"),  # a line break as it is within a text
    ],
)
def test_a_whole_layout(answer: str) -> None:
    assert parse_cells(answer) == CELLS


def test_markdown_joins_texts_in_order() -> None:
    expected = '# A {title} [1]\n\n$$\nE = mc^2\n$$\n\n<table><tr><td>"1"</td></tr></table>\n\nlast\nwords'
    assert markdown_of(CELLS) == expected
    assert markdown_of([Cell("Formula", None, "$x$"), Cell("Text", None, "  ")]) == "$x$"


def test_cut_in_a_text_keeps_what_was_written() -> None:
    answer = json.dumps(PAGE)
    cells = parse_cells(answer[: answer.index("last") + 2])
    assert cells is not None
    assert cells == (*CELLS[:4], Cell("Text", (10, 520, 300, 560), "la"))


@pytest.mark.parametrize(
    ("tail", "last"),
    [
        ('{"bbox": [10, 520, 300, 56', None),  # half a number is no box
        ('{"bbox": [10, 520, 300, 560]', Cell("Text", (10, 520, 300, 560), "")),
        ('{"bbox": [10, 520, 300, 560], "category": "Sect', Cell("Text", (10, 520, 300, 560), "")),
        ('{"bbox": [10, 520, 300, 560], "category": "Title", "te', Cell("Title", (10, 520, 300, 560), "")),
        ('{"bbox": [1, 2, 3, 4], "category": "Text", "text": "a\\', Cell("Text", (1, 2, 3, 4), "a")),
        ('{"bbox": [1, 2, 3, 4], "category": "Text", "text": "a\\u00e', Cell("Text", (1, 2, 3, 4), "a")),
        ('{"bbox": [1, 2, 3, 4], "category": "Text", "text": "a\\\\', Cell("Text", (1, 2, 3, 4), "a\\")),
        ('{"bbox": [1, 2, 3, 4], "category": "Text", "text": "a\\"b', Cell("Text", (1, 2, 3, 4), 'a"b')),
    ],
)
def test_cut_elsewhere(tail: str, last: Cell | None) -> None:
    answer = json.dumps(PAGE[:2])[:-1] + ", " + tail
    assert parse_cells(answer) == (*CELLS[:2], *([last] if last else []))


def test_latex_with_single_backslashes_is_kept_and_spoils_no_neighbour() -> None:
    wrong = r'{"bbox": [1, 2, 3, 4], "category": "Formula", "text": "\alpha \in \{1\}"}'
    answer = f"[{json.dumps(PAGE[0])}, {wrong}, {json.dumps(PAGE[2])}]"
    assert parse_cells(answer) == (CELLS[0], Cell("Formula", (1, 2, 3, 4), r"\alpha \in \{1\}"), CELLS[2])


@pytest.mark.parametrize(
    "box",
    ["[1, 2, 3]", "[1, 2, 3, null]", '["1", 2, 3, 4]', "[1, 2, 3, 1e999]", "[true, 2, 3, 4]", "7", "null"],
)
def test_what_is_no_box_is_none(box: str) -> None:
    assert parse_cells(f'[{{"bbox": {box}, "category": "Text", "text": "a"}}]') == (Cell("Text", None, "a"),)


def test_corners_are_put_in_order() -> None:
    cells = parse_cells('[{"bbox": [30, 40, 10, 20], "category": "Text", "text": "a"}]')
    assert cells == (Cell("Text", (10, 20, 30, 40), "a"),)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Plain text.",
        "[1] A reference, no layout.",
        "{braces} first",
        "null",
        "[1, 2]",
        '{"a": 1}',
        "[" * 9000,
    ],
)
def test_other_answers_are_no_layout(answer: str) -> None:
    assert parse_cells(answer) is None


def test_an_empty_list_is_an_empty_page() -> None:
    assert parse_cells("[ ]\n") == ()


@pytest.mark.parametrize(
    "answer", ['{"a":' * 9000, '[{"bbox": ' * 2000, "[{" + "," * 9000, '[{"a": ' + "9" * 9000]
)
def test_nonsense_ends(answer: str) -> None:
    assert parse_cells(answer) in (None, ())


TEXTS = st.text(st.sampled_from(string.printable + 'ü\\"{}[],:'), max_size=12)
LAYOUTS = st.lists(
    st.fixed_dictionaries(
        {
            "bbox": st.lists(st.integers(0, 5000), min_size=4, max_size=4),
            "category": st.sampled_from(sorted(CATEGORIES)),
            "text": TEXTS.filter(str.strip),
        }
    ),
    max_size=4,
)


@given(LAYOUTS, st.floats(0, 1))
def test_cut_anywhere_the_cells_before_the_cut_are_whole(
    layout: list[dict[str, object]], share: float
) -> None:
    whole = parse_cells(json.dumps(layout))
    assert whole is not None
    assert [cell.text for cell in whole] == [member["text"] for member in layout]
    answer = json.dumps(layout)
    cut = answer[: int(share * len(answer))]
    complete = sum(
        len(json.dumps(layout[: count + 1])) - 1 <= len(cut) for count in range(len(layout))
    )  # the closing bracket may be missing
    cells = parse_cells(cut) or ()
    assert cells[:complete] == whole[:complete]
    assert len(cells) <= complete + 1
    for cell, expected in zip(cells[complete:], whole[complete:], strict=False):
        assert expected.text.startswith(cell.text)
        assert cell.box in (None, expected.box)


@given(st.text(st.sampled_from('{}[]",:\\bboxtextcategory0 '), max_size=200))
def test_no_answer_raises(answer: str) -> None:
    parse_cells("[" + answer)
