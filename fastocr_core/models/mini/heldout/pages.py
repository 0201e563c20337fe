"""The committed held-out pages and their truth, for scoring and tests.

Pillow only: no fonts and no training code are needed.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass

from PIL import Image

FOLDER = pathlib.Path(__file__).parent
TRUTH = FOLDER / "truth.jsonl"
PAGES = FOLDER / "pages"


@dataclass(frozen=True, slots=True)
class HeldOutWord:
    """box: x0, y0, x1, y1 of the ink, in pixels of the page."""

    text: str
    box: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class HeldOutPage:
    """One page: text has a newline between lines and is empty for a blank leaf, whose
    x_height_pixels is 0.
    """

    file: str
    text: str
    font: str
    language: str
    x_height_pixels: float
    lines: tuple[tuple[HeldOutWord, ...], ...]

    @property
    def blank(self) -> bool:
        return not self.text

    def image(self) -> Image.Image:
        with Image.open(PAGES / self.file) as image:
            return image.convert("L")


def held_out_pages() -> Iterator[HeldOutPage]:
    """All pages in the order of the truth file, blank leaves last.

    FileNotFoundError where the set is not there.
    """
    for row in TRUTH.read_text("utf-8").splitlines():
        fields = json.loads(row)
        lines = tuple(
            tuple(HeldOutWord(word, tuple(box)) for word, *box in line) for line in fields.pop("lines")
        )
        yield HeldOutPage(**fields, lines=lines)
