"""What made pages are drawn from: sizes, and the kinds of pages and furniture with their shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np


class WordSource(Protocol):
    """Where a page's words come from."""

    def words(self, generator: np.random.Generator, count: int) -> list[str]:
        """About `count` words of one kind, fewer where some cannot be written."""


@dataclass(frozen=True, slots=True)
class LayoutStyle:
    """Ranges a page is drawn from; pixels of the prepared view.

    Without `kinds` a page is one column of paragraphs and headings in one face, as in the first trainings. With them each
    page is of one kind of layout.KINDS, drawn by weight, and may carry what the shares say.
    """

    x_height_pixels: tuple[float, float] = (7.5, 12.5)
    pitch: tuple[float, float] = (1.15, 2.0)  # line pitch as a share of the em
    min_pitch_pixels: float = 0.0
    margin_pixels: tuple[float, float] = (6, 60)
    heading_share: float = 0.12  # paragraphs that start with a heading
    lines_limit: int = 10_000
    short_share: float = 0.0  # pages that end after some lines and leave the rest empty, or start late
    kinds: tuple[tuple[str, float], ...] = ()  # (name, weight)
    gutter_pixels: tuple[float, float] = (14, 60)  # between columns
    furniture_share: float = 0.0  # pages with a running header or a page number
    footnote_share: float = 0.0
    emphasis_share: float = 0.0  # pages with bold, italic or underlined words in the running text
    reverse_share: float = 0.0  # headings white on black
    neighbour_share: float = 0.0  # pages at whose edge letters of the next page are cut; they are not read
    picture_share: float = 0.0  # blocks that are pictures, which hold nothing to read
    cast_share: float = (
        0.0  # pages whose type is narrower or wider and fatter than its face was drawn (fonts.Cast)
    )
    skew_share: float = 0.0
    skew_degrees: float = 2.0  # at most, either way
