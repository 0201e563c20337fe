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


def truth_of(layout: PageLayout) -> Truth:
    """Token ids and positions for a layout: per line a row token, per word a column token and its characters, END last."""
    letters: list[
        tuple[int, float, float, float, int, int]
    ] = []  # code, centre, middle, left edge of the word, line, word
    number = 0
    for index, line in enumerate(layout.lines):
        for word in line:
            for character, edge, advance in word.letters():
                code = alphabet.CHARACTER_ID[character] - alphabet.FIRST_CHARACTER
                letters.append((code, edge + advance / 2, word.middle, word.x, index, number))
            number += 1
    codes, x, y, lefts, lines, words = np.array(letters, np.float64).reshape(-1, 6).T
    if layout.skew_degrees:
        lefts = layout.turned(lefts, y)[0]
        x, y = layout.turned(x, y)
    return truth_of_characters(codes.astype(np.int64), x, y, lefts, lines, words)


def truth_of_characters(
    codes: np.ndarray, x: np.ndarray, y: np.ndarray, lefts: np.ndarray, lines: np.ndarray, words: np.ndarray
) -> Truth:
    """Truth of characters in reading order, all arrays [N].

    codes: index into the alphabet; x, y: centre and middle of the x-height, pixels; lefts: left edges; lines, words: the
    number of each character's line and word.
    """
    opens_line = np.diff(lines.astype(int), prepend=-1) != 0
    opens_word = opens_line | (np.diff(words.astype(int), prepend=-1) != 0)
    at = np.cumsum(1 + opens_word + opens_line) - 1  # places of the characters among the tokens
    total = int(at[-1]) + 1 if len(at) else 0
    tokens = np.full(total + 1, alphabet.END, np.int64)
    token_x, token_y = np.zeros(total + 1, np.float32), np.zeros(total + 1, np.float32)
    is_glyph = np.zeros(total + 1, bool)
    for places, chosen in (
        (at, np.ones(len(at), bool)),
        (at[opens_word] - 1, opens_word),
        (at[opens_line] - 2, opens_line),
    ):
        token_x[places], token_y[places] = x[chosen], y[chosen]
    tokens[at] = alphabet.FIRST_CHARACTER + codes
    is_glyph[at] = True
    strips = np.clip(lefts[opens_word] // alphabet.COLUMN_PIXELS, 0, alphabet.COLUMNS - 1)
    tokens[at[opens_word] - 1] = alphabet.FIRST_COLUMN + strips.astype(np.int64)
    bands = np.clip(y[opens_line] // alphabet.ROW_PIXELS, 0, alphabet.ROWS - 1)
    tokens[at[opens_line] - 2] = alphabet.FIRST_ROW + bands.astype(np.int64)
    return Truth(tokens, token_x, token_y, is_glyph)


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
