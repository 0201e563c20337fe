"""Reading the marked-up output of DeepSeek-OCR and Unlimited-OCR, including what no model should write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastocr_core.models.base import Block
from fastocr_core.models.deepseek.grounding import parse_grounded

PAGE = (1998, 999)  # two pixels per step across, one down


def mark(label: str, boxes: str) -> str:
    return f"<|ref|>{label}<|/ref|><|det|>{boxes}<|/det|>"


def test_blocks_of_deepseek_ocr() -> None:
    text = (
        f"{mark('title', '[[10, 20, 500, 60]]')}\n# A title\n\n"
        f"{mark('image', '[[0, 100, 999, 400]]')}\n\n"
        f"{mark('table', '[[1, 2, 3, 4]]')}\n<table><tr><td>1</td></tr></table>\n"
    )
    parsed = parse_grounded(text, *PAGE)
    assert parsed.format == "markdown"
    assert parsed.text == "# A title\n\n<table><tr><td>1</td></tr></table>"
    assert parsed.blocks == (
        Block("title", (20, 20, 1000, 60), "# A title"),
        Block("image", (0, 100, 1998, 400), ""),
        Block("table", (2, 2, 6, 4), "<table><tr><td>1</td></tr></table>"),
    )


def test_blocks_of_unlimited_ocr() -> None:
    text = (
        "<PAGE><|det|>image [383, 87, 497, 171]<|/det|>\n"
        "<|det|>text [203, 201, 558, 230]<|/det|>R&D QUALITY\n<|det|>text [1, 2, 3, 4]<|/det|>second"
    )
    parsed = parse_grounded(text, 999, 999)
    assert parsed.text == "R&D QUALITY\n\nsecond"
    assert [block.kind for block in parsed.blocks] == ["image", "text", "text"]
    assert parsed.blocks[1].box == (203, 201, 558, 230)


def test_plain_text_is_one_block_without_a_box() -> None:
    parsed = parse_grounded("Plain text.\n\n\n\nMore \\coloneqq less", *PAGE)
    assert parsed.text == "Plain text.\n\nMore := less"
    assert parsed.blocks == (Block("text", None, parsed.text),)
    assert parse_grounded("", *PAGE).blocks == ()


def test_text_before_the_first_mark_is_kept() -> None:
    parsed = parse_grounded("Before\n" + mark("text", "[[1, 1, 2, 2]]") + "after", *PAGE)
    assert parsed.text == "Before\n\nafter"
    assert parsed.blocks[0] == Block("text", None, "Before")


def test_several_boxes_of_one_mark() -> None:
    parsed = parse_grounded(mark("a word", "[[1, 1, 2, 2], [5, 6, 7, 8]]") + "\nit", *PAGE)
    assert parsed.blocks == (Block("a word", (2, 1, 4, 2), "it"), Block("a word", (10, 6, 14, 8), ""))


@pytest.mark.parametrize(
    ("boxes", "box"),
    [
        ("[[5, 6, 1, 2]]", (2, 2, 10, 6)),  # corners the wrong way round
        ("[[-5, 6, 5000, 8]]", (0, 6, 1998, 8)),  # beyond the page
        ("[10, 20, 30, 40]", (20, 20, 60, 40)),
        ("[[1.5, 2, 3, 4]]", (3, 2, 6, 4)),
    ],
)
def test_odd_boxes(boxes: str, box: tuple[float, ...]) -> None:
    assert parse_grounded(mark("text", boxes) + "x", *PAGE).blocks == (Block("text", box, "x"),)


@pytest.mark.parametrize(
    "boxes",
    [
        "",
        "[]",
        "[[1, 2, 3]]",
        "[[1, 2, 3, true]]",
        "[[1, 2, 3, NaN]]",
        "[[1, 2, 3, Infinity]]",
        "[[1, 2, 3, 1e999]]",
        "__import__('os').abort()",
        "[" * 5000,
        "[" * 4000,
        "[[1, 2, 3, '4']]",
        "{}",
        "7",
        "[[1, 2, 3, " + "9" * 4090 + "]]",
    ],
)
def test_what_is_no_box_is_no_box_but_the_text_stays(boxes: str) -> None:
    parsed = parse_grounded(mark("text", boxes) + "\nstill here", *PAGE)
    assert parsed.text == "still here"
    assert [block.text for block in parsed.blocks] == ["still here"]
    box = parsed.blocks[0].box
    assert box is None or box[3] <= PAGE[1]


@pytest.mark.parametrize(
    "cut", ["<|ref|>te", "<|ref|>text<|/ref|>", "<|ref|>t<|/ref|><|det|>[[1, 2", "<|det|>te"]
)
def test_a_mark_cut_at_the_end_is_dropped(cut: str) -> None:
    parsed = parse_grounded(mark("text", "[[1, 2, 3, 4]]") + "whole\n\n" + cut, *PAGE)
    assert parsed.text == "whole"
    assert len(parsed.blocks) == 1


def test_text_after_a_broken_mark_is_not_lost() -> None:
    text = "<|ref|>text<|/ref|>" + "words " * 100 + mark("text", "[[1, 2, 3, 4]]") + "<|det|>end<|/ref|> more"
    parsed = parse_grounded(text, *PAGE)
    assert parsed.text.count("words") == 100
    assert "more" in parsed.text
    assert "<|" not in parsed.text


PIECES = st.sampled_from(
    [
        "<|ref|>",
        "<|/ref|>",
        "<|det|>",
        "<|/det|>",
        "[[1, 2, 3, 4]]",
        "[",
        "text",
        " ",
        "\n",
        "word",
        "<td>",
        "<",
        "é",
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join), st.integers(1, 9000), st.integers(1, 9000))
def test_any_output_gives_blocks_on_the_page(text: str, width: int, height: int) -> None:
    parsed = parse_grounded(text, width, height)
    for block in parsed.blocks:
        if block.box is not None:
            left, top, right, bottom = block.box
            assert 0 <= left <= right <= width
            assert 0 <= top <= bottom <= height
    assert "".join(parsed.text.split()) == "".join("".join(block.text for block in parsed.blocks).split())


@given(st.lists(st.integers(0, 999), min_size=4, max_size=4), st.integers(1, 9000), st.integers(1, 9000))
def test_boxes_are_pixels_of_the_page(parts: list[int], width: int, height: int) -> None:
    (block,) = parse_grounded(mark("text", f"[{parts}]") + "x", width, height).blocks
    assert block.box is not None
    x, y = sorted(parts[::2]), sorted(parts[1::2])
    expected = (x[0] * width, y[0] * height, x[1] * width, y[1] * height)
    assert all(abs(pixel - place / 999) <= 1 for pixel, place in zip(block.box, expected, strict=True))
