"""Page layout with exact truth: where every glyph of a generated page stands, before any ink is put on it.

A `PageLayout` is enough to train the decoder on perfect vision; `ink.draw` turns the same layout into pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fastocr_core.models.mini import alphabet
from fastocr_core.models.mini.train.fonts import Face


class WordSource(Protocol):
    """Where a page's words come from."""

    def words(self, generator: np.random.Generator, count: int) -> list[str]:
        """About `count` words of one kind, fewer where some cannot be written."""


@dataclass(frozen=True, slots=True)
class LayoutStyle:
    """Ranges a page is drawn from; pixels of the prepared view."""

    x_height_pixels: tuple[float, float] = (7.5, 12.5)
    pitch: tuple[float, float] = (1.15, 2.0)  # line pitch as a share of the em
    min_pitch_pixels: float = 0.0
    margin_pixels: tuple[float, float] = (6, 60)
    heading_share: float = 0.12  # paragraphs that start with a heading
    lines_limit: int = 10_000
    short_share: float = 0.0  # pages that end after some lines and leave the rest empty, or start late


@dataclass(frozen=True, slots=True)
class PlacedWord:
    text: str
    x: float  # left edge, pixels
    width: float
    baseline: float
    pixels: float  # font size
    face: Face


@dataclass(frozen=True, slots=True)
class PageLayout:
    """Words by line in reading order on a page of width x height pixels."""

    width: int
    height: int
    lines: tuple[tuple[PlacedWord, ...], ...]

    @property
    def text(self) -> str:
        return "\n".join(" ".join(word.text for word in line) for line in self.lines)


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


def _line_of(
    words: list[str], x: float, baseline: float, pixels: float, face: Face, room: float, spread: float
) -> tuple[list[PlacedWord], int]:
    """Place as many of `words` as fit into `room` pixels; with spread > 0 stretch the gaps to fill the line."""
    space = face.advances[" "] * pixels
    widths: list[float] = []
    used = 0.0
    for word in words:
        width = sum(face.advances[character] for character in word) * pixels
        if widths and used + space + width > room:
            break
        if not widths and width > room:
            break
        used += width + (space if widths else 0.0)
        widths.append(width)
    count = len(widths)
    full = count < len(words)
    extra = min((room - used) / (count - 1), 1.2 * space) if spread > 0 and full and count > 1 else 0.0
    placed = []
    for word, width in zip(words[:count], widths, strict=True):
        placed.append(PlacedWord(word, x, width, baseline, pixels, face))
        x += width + space + extra
    return placed, count


def compose(
    generator: np.random.Generator,
    width: int,
    height: int,
    faces: list[Face],
    weights: np.ndarray,
    source: WordSource,
    style: LayoutStyle,
) -> PageLayout:
    """One single-column page of paragraphs and headings."""
    face = faces[int(generator.choice(len(faces), p=weights))]
    x_height = generator.uniform(*style.x_height_pixels)
    pixels = round(x_height / face.x_height * 4) / 4
    pitch = max(generator.uniform(*style.pitch) * pixels, style.min_pitch_pixels)
    low, high = style.margin_pixels
    left = generator.uniform(low, min(high, width * 0.2))
    right = width - generator.uniform(low, min(high, width * 0.2))
    y = generator.uniform(low, min(high, height * 0.2)) + face.ascent * pixels
    bottom = height - generator.uniform(2, max(4.0, low)) - face.descent * pixels
    justified = generator.random() < 0.5
    indent = generator.choice([0.0, 1.5, 3.0]) * pixels
    gap = generator.choice([0.0, 0.5, 1.0]) * pitch
    limit = style.lines_limit
    if generator.random() < style.short_share:
        limit = int(generator.integers(1, max(2, int((bottom - y) / pitch) + 1)))
    if generator.random() < style.short_share / 2:
        y += generator.uniform(0.05, 0.4) * height
    lines: list[tuple[PlacedWord, ...]] = []
    while y < bottom and len(lines) < limit:
        if generator.random() < style.heading_share:
            size = pixels * generator.uniform(1.0, 1.5)
            words = [w for w in source.words(generator, int(generator.integers(1, 7))) if face.covers(w)]
            y += size - pixels
            if y + face.descent * (size - pixels) >= bottom:  # a large heading would stand below the page
                break
            placed, _ = _line_of(words, left, y, size, face, right - left, 0.0)
            if placed and generator.random() < 0.4:
                shift = (right - placed[-1].x - placed[-1].width) / 2
                placed = [PlacedWord(w.text, w.x + shift, w.width, y, size, face) for w in placed]
            if placed:
                lines.append(tuple(placed))
                y += max(pitch, size * 1.25)
        words = [w for w in source.words(generator, int(generator.integers(3, 90))) if face.covers(w)]
        first = True
        while words and y < bottom and len(lines) < limit:
            start = left + (indent if first else 0.0)
            placed, count = _line_of(words, start, y, pixels, face, right - start, float(justified))
            if not placed:
                words = words[1:]
                continue
            lines.append(tuple(placed))
            words, first = words[count:], False
            y += pitch
        y += gap
    return PageLayout(width, height, tuple(lines))


def truth_of(layout: PageLayout) -> Truth:
    """Token ids and positions for a layout: per line a row token, per word a column token and its characters, END last."""
    tokens: list[int] = []
    xs: list[float] = []
    ys: list[float] = []
    glyph: list[bool] = []
    for line in layout.lines:
        first = line[0]
        middle = first.baseline - first.face.x_height * first.pixels / 2
        lead = first.face.advances[first.text[0]] * first.pixels / 2
        tokens.append(alphabet.row_token(middle))
        xs.append(first.x + lead)
        ys.append(middle)
        glyph.append(False)
        for word in line:
            x = word.x
            middle = word.baseline - word.face.x_height * word.pixels / 2
            tokens.append(alphabet.column_token(x))
            xs.append(x + word.face.advances[word.text[0]] * word.pixels / 2)
            ys.append(middle)
            glyph.append(False)
            for character in word.text:
                advance = word.face.advances[character] * word.pixels
                tokens.append(alphabet.CHARACTER_ID[character])
                xs.append(x + advance / 2)
                ys.append(middle)
                glyph.append(True)
                x += advance
    tokens.append(alphabet.END)
    xs.append(0.0)
    ys.append(0.0)
    glyph.append(False)
    return Truth(np.array(tokens), np.array(xs, np.float32), np.array(ys, np.float32), np.array(glyph))
