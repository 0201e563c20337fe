"""From the marked-up output of the DeepSeek-OCR family to plain markdown and blocks with boxes.

DeepSeek-OCR writes `<|ref|>label<|/ref|><|det|>[[x0, y0, x1, y1]]<|/det|>` before each block, Unlimited-OCR
`<|det|>label [x0, y0, x1, y1]<|/det|>`. Box lists are read as JSON and checked; output is never evaluated.
"""

import json
import re
from collections.abc import Iterator

from fastocr_core.output import Block, ParsedText

COORDINATE_MAXIMUM = 999  # of the side of the page
_LONGEST_BOXES = 4096  # characters
_LONGEST_CUT_MARK = 300
_INSIDE = r"((?:(?!<\|/?(?:ref|det)\|>).)*)"
_MARK = re.compile(rf"(?:<\|ref\|>{_INSIDE}<\|/ref\|>\s*)?<\|det\|>{_INSIDE}<\|/det\|>", re.DOTALL)
_LABEL_AND_BOXES = re.compile(r"\s*([^\s\[]+)\s*(\[.*)", re.DOTALL)
# A mark that the end of the output cut off.
_CUT_MARK = re.compile(r"(?:<\|ref\|>[^<]*(?:<\|/ref\|>\s*)?)?(?:<\|det\|>[^<]*)?\Z")
_LOOSE_TAGS = re.compile(r"<\|/?(?:ref|det|grounding)\|>|<PAGE>")
_MANY_NEWLINES = re.compile(r"\n{3,}")

Box = tuple[float, float, float, float]


def parse_grounded(text: str, width: int, height: int) -> ParsedText:
    """Markdown without marks, and its blocks with boxes in pixels of a page of `width` x `height`.

    Where one mark has several boxes there is a block for each, the first with the text. Text before the first
    mark, or without any, is a block without a box.
    """
    text = _without_cut_mark(text)
    marks = list(_MARK.finditer(text))
    pieces = [_tidied(text[: marks[0].start() if marks else len(text)])]
    blocks = [Block("text", None, pieces[0])] if pieces[0] else []
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    for mark, end in zip(marks, ends, strict=False):
        label, boxes = _mark_content(mark[1], mark[2], width, height)
        piece = _tidied(text[mark.end() : end])
        pieces.append(piece)
        blocks.append(Block(label, boxes[0] if boxes else None, piece))
        blocks.extend(Block(label, box, "") for box in boxes[1:])
    return ParsedText("\n\n".join(piece for piece in pieces if piece), "markdown", tuple(blocks))


def _mark_content(label: str | None, content: str, width: int, height: int) -> tuple[str, list[Box]]:
    """Label and boxes of one mark; no boxes where they cannot be read."""
    if label is None:
        match = _LABEL_AND_BOXES.fullmatch(content)
        label, content = (match[1], match[2]) if match else (content, "")
    return label.strip() or "text", list(_boxes(content, width, height))


def _boxes(content: str, width: int, height: int) -> Iterator[Box]:
    """Boxes in pixels from a JSON list of four numbers, or a list of such lists."""
    if len(content) > _LONGEST_BOXES:
        return
    try:
        value = json.loads(content, parse_constant=_refused)
    except (ValueError, RecursionError):
        return
    if not isinstance(value, list):
        return
    for box in value if value and isinstance(value[0], list) else [value]:
        if not isinstance(box, list) or len(box) != 4 or not all(_is_number(part) for part in box):
            continue
        x = [int(min(max(part, 0), COORDINATE_MAXIMUM) / COORDINATE_MAXIMUM * width) for part in box[0::2]]
        y = [int(min(max(part, 0), COORDINATE_MAXIMUM) / COORDINATE_MAXIMUM * height) for part in box[1::2]]
        yield float(min(x)), float(min(y)), float(max(x)), float(max(y))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no coordinate")


def _without_cut_mark(text: str) -> str:
    match = _CUT_MARK.search(text, max(0, len(text) - _LONGEST_CUT_MARK))
    return text[: match.start()] if match else text


def _tidied(text: str) -> str:
    """One piece of markdown as the authors clean it: no loose tags, two formula signs, blank lines."""
    text = _LOOSE_TAGS.sub("", text).replace("\\coloneqq", ":=").replace("\\eqqcolon", "=:")
    return _MANY_NEWLINES.sub("\n\n", text).strip()
