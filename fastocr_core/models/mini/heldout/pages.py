"""The committed held-out pages and their truth, for scoring and tests.

Four sets: `clean` (single-column print and blank leaves), `degraded`, `columns`, `layouts`. Pillow only: no fonts and
no training code are needed.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from PIL import Image

Page = TypeVar("Page")

FOLDER = pathlib.Path(__file__).parent
TRUTH = FOLDER / "truth.jsonl"
PAGES = FOLDER / "pages"
CLEAN = "clean"
SETS = (CLEAN, "degraded", "columns", "layouts")
FONT_CLASSES = (  # by the beginning of the file name; the rest is serif
    ("monospaced", ("Go-Mono",)),
    ("sans", ("Carlito", "OpenSans", "Cabin", "Go-")),
)
_SLANTED = ("Italic", "GenBasI", "GenBasBI", "GenBkBasI", "GenBkBasBI")


@dataclass(frozen=True, slots=True)
class HeldOutWord:
    """box: x0, y0, x1, y1 of the ink, in pixels of the page."""

    text: str
    box: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class HeldOutPage:
    """One page: text has a newline between lines and is empty for a blank leaf, whose
    x_height_pixels is 0.

    `part` is one of SETS; `degradation` names the one main effect of a degraded page and `wear` its strength (0 to 1),
    `layout` the kind of page ("prose" for one column of paragraphs).
    """

    file: str
    text: str
    font: str
    language: str
    x_height_pixels: float
    lines: tuple[tuple[HeldOutWord, ...], ...]
    part: str = CLEAN
    degradation: str = ""
    wear: float = 0.0
    layout: str = "prose"

    @property
    def blank(self) -> bool:
        return not self.text

    @property
    def font_class(self) -> str:
        """serif, sans or monospaced, "italic" after it for slanted cuts; "" for a blank leaf."""
        if not self.font:
            return ""
        found = (name for name, starts in FONT_CLASSES if self.font.startswith(starts))
        return next(found, "serif") + (" italic" if any(cut in self.font for cut in _SLANTED) else "")

    def image(self) -> Image.Image:
        with Image.open(pages_folder(self.part) / self.file) as image:
            return image.convert("L")


def pages_folder(part: str) -> pathlib.Path:
    """Where the images of a set lie. ValueError for a set that does not exist."""
    return PAGES if part == CLEAN else _folder(part) / "pages"


def truth_file(part: str) -> pathlib.Path:
    """The truth of a set, one JSON object a line. ValueError for a set that does not exist."""
    return TRUTH if part == CLEAN else _folder(part) / "truth.jsonl"


def _folder(part: str) -> pathlib.Path:
    if part not in SETS:
        raise ValueError(f"there is no held-out set {part!r}; known: {', '.join(SETS)}")
    return FOLDER / part


def held_out_pages(part: str = CLEAN) -> Iterator[HeldOutPage]:
    """All pages of a set in the order of its truth file, blank leaves last.

    FileNotFoundError where the set is not there, ValueError for one that does not exist.
    """
    for row in truth_file(part).read_text("utf-8").splitlines():
        fields = json.loads(row)
        lines = tuple(
            tuple(HeldOutWord(word, tuple(box)) for word, *box in line) for line in fields.pop("lines")
        )
        yield HeldOutPage(**fields, lines=lines, part=part)


def spread(pages: list[Page], count: int | None) -> list[Page]:
    """`count` of the pages (None for all), evenly spread. ValueError for fewer than one."""
    if count is not None and count < 1:
        raise ValueError(f"at least one page must be read, not {count}")
    if count is None or count >= len(pages):
        return pages
    return [pages[index * len(pages) // count] for index in range(count)]
