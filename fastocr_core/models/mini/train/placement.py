"""Where everything on a made page stands: words and marks, the truth the reader should write for them, and skew.

Positions are exact because the page is laid out before it is drawn; `ink.draw` puts the same numbers into pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fastocr_core.models.mini import alphabet
from fastocr_core.models.mini.train.fonts import Face

Look = Literal["line", "dots", "dashes", "box", "tint", "picture", "reverse"]


@dataclass(frozen=True, slots=True)
class PlacedWord:
    text: str
    x: float  # left edge, pixels
    width: float
    baseline: float
    pixels: float  # font size
    face: Face
    spacing: float = 0.0  # pixels added between letters

    def letters(self) -> Iterator[tuple[str, float, float]]:
        """Each character with its left edge and its advance, pixels."""
        x = self.x
        for character in self.text:
            advance = self.face.advances[character] * self.pixels
            yield character, x, advance
            x += advance + self.spacing

    @property
    def middle(self) -> float:
        """Height of the middle of the x-height."""
        return self.baseline - self.face.x_height * self.pixels / 2


@dataclass(frozen=True, slots=True)
class Rule:
    """A mark that is drawn and never read, from (x0, y0) to (x1, y1) in pixels, x0 <= x1 and y0 <= y1.

    line: `thickness` wide; dots, dashes: every `gap` pixels along the line; box: outline; tint: flat grey `tone`;
    picture: blotches around `tone`; reverse: black and white change places inside.
    """

    x0: float
    y0: float
    x1: float
    y1: float
    look: Look = "line"
    thickness: float = 1.0
    gap: float = 0.0
    tone: int = 0


@dataclass(frozen=True, slots=True)
class PageLayout:
    """Words by line in reading order on a page of width x height pixels.

    rules and unread words (letters cut by the edge of the page) are drawn but belong to no text. Everything is drawn upright
    and then turned clockwise by `skew_degrees` around the middle of the page; `turned` says where a point comes to lie.
    """

    width: int
    height: int
    lines: tuple[tuple[PlacedWord, ...], ...]
    rules: tuple[Rule, ...] = ()
    unread: tuple[PlacedWord, ...] = ()
    skew_degrees: float = 0.0

    @property
    def text(self) -> str:
        return "\n".join(" ".join(word.text for word in line) for line in self.lines)

    def turned(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points of the upright page on the drawn one, pixels."""
        angle = math.radians(self.skew_degrees)
        across, down = x - self.width / 2, y - self.height / 2
        return (
            self.width / 2 + across * math.cos(angle) - down * math.sin(angle),
            self.height / 2 + across * math.sin(angle) + down * math.cos(angle),
        )


@dataclass(frozen=True, slots=True)
class Truth:
    """What the reader should write for a layout, and where each written token stands.

    tokens: int64 [T]; x, y: float32 [T], pixels of the thing the token names (glyph centre; for row and column
    tokens the first glyph of the line or word); is_glyph: bool [T].
    """

    tokens: np.ndarray
    x: np.ndarray
    y: np.ndarray
    is_glyph: np.ndarray


_ROW, _COLUMN = -1, -2  # stand for tokens that follow from the turned position


def truth_of(layout: PageLayout) -> Truth:
    """Token ids and positions for a layout: per line a row token, per word a column token and its characters, END last."""
    tokens: list[int] = []
    xs: list[float] = []
    ys: list[float] = []
    edges: list[float] = []  # left edge of the word at column tokens
    for line in layout.lines:
        for index, word in enumerate(line):
            middle = word.middle
            lead = word.x + word.face.advances[word.text[0]] * word.pixels / 2
            opening = (_COLUMN,) if index else (_ROW, _COLUMN)
            for token in opening:
                tokens.append(token)
                xs.append(lead)
                ys.append(middle)
                edges.append(word.x)
            for character, x, advance in word.letters():
                tokens.append(alphabet.CHARACTER_ID[character])
                xs.append(x + advance / 2)
                ys.append(middle)
                edges.append(0.0)
    named = np.array(tokens, np.int64)
    glyph = named >= 0
    x_places, y_places, lefts = np.array(xs), np.array(ys), np.array(edges)
    if layout.skew_degrees:
        lefts = layout.turned(lefts, y_places)[0]
        x_places, y_places = layout.turned(x_places, y_places)
    row, column = named == _ROW, named == _COLUMN
    bands = np.clip(y_places[row] // alphabet.ROW_PIXELS, 0, alphabet.ROWS - 1).astype(np.int64)
    named[row] = alphabet.FIRST_ROW + bands
    strips = np.clip(lefts[column] // alphabet.COLUMN_PIXELS, 0, alphabet.COLUMNS - 1).astype(np.int64)
    named[column] = alphabet.FIRST_COLUMN + strips
    return Truth(
        np.append(named, alphabet.END),
        np.append(x_places, 0.0).astype(np.float32),
        np.append(y_places, 0.0).astype(np.float32),
        np.append(glyph, False),
    )


def inner_size(width: int, height: int, degrees: float) -> tuple[int, int]:
    """Largest upright page that stays inside width x height when turned by `degrees`."""
    sine = math.sin(math.radians(abs(degrees)))
    return width - 2 * math.ceil(height / 2 * sine), height - 2 * math.ceil(width / 2 * sine)


def skewed(layout: PageLayout, width: int, height: int, degrees: float) -> PageLayout:
    """Put a layout of `inner_size` into the middle of a page of width x height and turn it clockwise by `degrees`."""
    right, down = (width - layout.width) // 2, (height - layout.height) // 2

    def moved(word: PlacedWord) -> PlacedWord:
        return replace(word, x=word.x + right, baseline=word.baseline + down)

    rules = (
        replace(rule, x0=rule.x0 + right, y0=rule.y0 + down, x1=rule.x1 + right, y1=rule.y1 + down)
        for rule in layout.rules
    )
    lines = tuple(tuple(map(moved, line)) for line in layout.lines)
    return PageLayout(width, height, lines, tuple(rules), tuple(map(moved, layout.unread)), degrees)
