"""The layout that dots.ocr writes, a JSON list of cells, read even where it was cut off or is slightly wrong.

Only literal JSON is ever read, nothing is evaluated. A cell is a box in pixels of the view, a category and a
text; joined in order they are the page as Markdown.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Box = tuple[float, float, float, float]
_FENCE = re.compile(r"\A```(?:json)?\s*|\s*```\Z")
_CELL_START = re.compile(r'\{\s*"(?:bbox|category|text)"\s*:')
# A backslash that starts no JSON escape: LaTeX written as it is.
_STRAY_BACKSLASH = re.compile(r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|)')
# An escape that was cut in two.
_CUT_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?\Z")
_ENDS_TRIED = 8
_DECODER = json.JSONDecoder(strict=False)  # line breaks within a text are let through
_FORMULA, _PICTURE, _PLAIN = "Formula", "Picture", "Text"
CATEGORIES = frozenset(
    {
        "Caption",
        "Footnote",
        _FORMULA,
        "List-item",
        "Page-footer",
        "Page-header",
        _PICTURE,
        "Section-header",
        "Table",
        _PLAIN,
        "Title",
    }
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One element of the page. `box` is x0, y0, x1, y1 in pixels of the view, None where it cannot be read."""

    category: str
    box: Box | None
    text: str


def parse_cells(answer: str) -> tuple[Cell, ...] | None:
    """Cells of an answer, in its order; None if it is no layout (a plain transcription, say)."""
    text = _FENCE.sub("", answer.strip())
    if not text.startswith(("[", "{")):
        return None
    cells = tuple(cell for found in _objects(text) for cell in _cells_of(found))
    # An empty list is the layout of an empty page.
    return cells if cells or "".join(text.split()) == "[]" else None


def markdown_of(cells: Sequence[Cell]) -> str:
    """Texts joined by empty lines; formulas between dollar signs, pictures left out."""
    return "\n\n".join(text for text in map(cell_markdown, cells) if text)


def cell_markdown(cell: Cell) -> str:
    """The text of one cell as it stands in the page."""
    text = cell.text.strip()
    if cell.category == _PICTURE:
        return ""
    if cell.category == _FORMULA and text and not text.startswith(("$", "\\[", "\\(", "\\begin")):
        return f"$$\n{text}\n$$"
    return text


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of a list, from the last one what is there of it."""
    place = 0
    while (place := text.find("{", place)) >= 0:
        try:
            found, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            following = _CELL_START.search(text, place + 1)
            end = following.start() if following else len(text)
            mended = _mended(text[place:end])
            place = end
            if mended is None:
                continue
            found = mended
        if isinstance(found, dict):
            yield found


def _mended(piece: str) -> dict[str, Any] | None:
    """One broken object: stray backslashes doubled, then closed where it ends or before its last whole member."""
    piece = _CUT_ESCAPE.sub(r"\1", piece)
    piece = _STRAY_BACKSLASH.sub(lambda match: match[0] if match[1] else "\\\\", piece)
    ends = _member_ends(piece)[:_ENDS_TRIED]
    open_brackets, in_text = _open_at_end(piece)
    if in_text or "[" not in open_brackets:  # the last number of a list that was cut may be half a number
        ends.insert(0, len(piece))
    for end in ends:
        try:
            found = _DECODER.decode(_closed(piece[:end].rstrip().rstrip(",")))
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            if "text" not in found and found.get("category") not in CATEGORIES:
                found.pop("category", None)  # cut in its middle
            return found
    return None


def _closed(piece: str) -> str:
    """Close the open text and brackets at the end of a piece."""
    open_brackets, in_text = _open_at_end(piece)
    ending = "".join({"{": "}", "[": "]"}[bracket] for bracket in reversed(open_brackets))
    return piece + ('"' if in_text else "") + ending


def _open_at_end(piece: str) -> tuple[list[str], bool]:
    """Brackets that are open at the end, and whether a text is."""
    open_brackets: list[str] = []
    in_text = escaped = False
    for sign in piece:
        if in_text:
            in_text = escaped or sign != '"'
            escaped = sign == "\\" and not escaped
        elif sign == '"':
            in_text = True
        elif sign in "{[":
            open_brackets.append(sign)
        elif sign in "}]" and open_brackets:
            open_brackets.pop()
    return open_brackets, in_text


def _member_ends(piece: str) -> list[int]:
    """Places of the commas between members of the outermost object, last first."""
    ends: list[int] = []
    depth = 0
    in_text = escaped = False
    for place, sign in enumerate(piece):
        if in_text:
            in_text = escaped or sign != '"'
            escaped = sign == "\\" and not escaped
            continue
        in_text = sign == '"'
        depth += (sign in "{[") - (sign in "}]")
        if sign == "," and depth == 1:
            ends.append(place)
    return ends[::-1]


def _cells_of(found: dict[str, Any]) -> Iterator[Cell]:
    """A cell, or the cells of an object that wraps a list of them; none of one that says nothing."""
    keys = {"bbox", "category", "text"}
    members = [found]
    if not found.keys() & keys:
        lists = [value for value in found.values() if isinstance(value, list)]
        members = [member for value in lists for member in value if isinstance(member, dict)]
    for member in members:
        category, text, box = member.get("category"), member.get("text"), _box(member.get("bbox"))
        if (isinstance(text, str) and text.strip()) or box is not None:
            yield Cell(
                category if isinstance(category, str) and category else _PLAIN,
                box,
                text if isinstance(text, str) else "",
            )


def _box(value: object) -> Box | None:
    """Four finite numbers with the corners in order; None for anything else."""
    if not isinstance(value, list) or len(value) != 4:
        return None
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in value):
        return None
    try:
        x0, y0, x1, y1 = (float(number) for number in value)
    except OverflowError:
        return None
    if not all(map(math.isfinite, (x0, y0, x1, y1))):
        return None
    return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)
