"""Setting words into lines: the tools that every kind of page is made with.

A `Setter` is one page in the making. It knows the hand (generator), the faces and sizes, and collects lines and marks; a
`Frame` is a column that is filled from the top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fastocr_core.models.mini.train.family import Family
from fastocr_core.models.mini.train.fonts import Face
from fastocr_core.models.mini.train.placement import PageLayout, PlacedWord, Rule
from fastocr_core.models.mini.train.style import LayoutStyle, WordSource

LEAST_PITCH_PIXELS = 17.0  # two lines must not share a band of 16 px
_LETTERS_BESIDE_A_BREAK = 3

Piece = tuple[str, Face]  # a word and what it is set in


@dataclass(slots=True)
class Frame:
    """A column, pixels; `y` is the top of the next line. Ink stays inside left..right and above bottom."""

    left: float
    right: float
    y: float
    bottom: float

    @property
    def room(self) -> float:
        return self.right - self.left


@dataclass(frozen=True, slots=True)
class Manner:
    """How lines are set. align: left, justify, centre or right; indent and hang (first and further lines) in pixels."""

    pixels: float
    pitch: float
    align: str = "left"
    indent: float = 0.0
    hang: float = 0.0
    spacing: float = 0.0
    hyphens: bool = False


def width_of(text: str, face: Face, pixels: float, spacing: float = 0.0) -> float:
    return sum(face.advances[character] for character in text) * pixels + spacing * (len(text) - 1)


@dataclass(slots=True)
class Setter:
    """One page being set. `manner` is that of its running text."""

    generator: np.random.Generator
    source: WordSource
    style: LayoutStyle
    width: int
    height: int
    family: Family
    manner: Manner
    lines: list[tuple[PlacedWord, ...]] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    unread: list[PlacedWord] = field(default_factory=list)
    emphasis: bool = False  # some words of the running text stand out
    ascent: float = 0.0  # of the tallest cut, as a share of the em; one baseline for all cuts of a line
    descent: float = 0.0

    def __post_init__(self) -> None:
        family = self.family
        cuts = (family.body, family.bold, family.italic, family.typewriter, family.heads)
        self.ascent, self.descent = max(cut.ascent for cut in cuts), max(cut.descent for cut in cuts)

    def page(self) -> PageLayout:
        return PageLayout(self.width, self.height, tuple(self.lines), tuple(self.rules), tuple(self.unread))

    def chance(self, share: float) -> bool:
        return bool(self.generator.random() < share)

    def between(self, low: float, high: float) -> float:
        return float(self.generator.uniform(low, high))

    def count(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return int(self.generator.integers(low, max(low, high) + 1))

    def one_of(self, *choices: str) -> str:
        return choices[int(self.generator.integers(len(choices)))]

    def words(self, count: int, face: Face | None = None) -> list[str]:
        """About `count` words that `face` (the body's if none) can write; may be empty."""
        shown = face or self.family.body
        return [word for word in self.source.words(self.generator, count) if word and shown.covers(word)]

    def manner_at(self, share: float) -> Manner:
        """Running text at a share of its size, lines closer or wider with it."""
        pixels = round(self.manner.pixels * share * 4) / 4
        ratio = self.manner.pitch / self.manner.pixels
        pitch = max(pixels * min(ratio, 1.6), LEAST_PITCH_PIXELS)
        return replace(
            self.manner, pixels=pixels, pitch=pitch, indent=0.0, hang=0.0, align="left", hyphens=False
        )

    def fits(self, frame: Frame, pixels: float) -> bool:
        """Whether one more line of that size stands wholly inside the frame."""
        height = (self.ascent + self.descent) * pixels
        return frame.y + height <= frame.bottom and len(self.lines) < self.style.lines_limit

    def baseline(self, frame: Frame, pixels: float) -> float:
        return frame.y + self.ascent * pixels

    def place(self, text: str, face: Face, x: float, baseline: float, manner: Manner) -> PlacedWord:
        width = width_of(text, face, manner.pixels, manner.spacing)
        return PlacedWord(text, x, width, baseline, manner.pixels, face, manner.spacing)

    def placed(
        self, texts: Sequence[str], face: Face, x: float, baseline: float, manner: Manner, right: float
    ) -> list[PlacedWord]:
        """Words side by side from x on, as many as end before `right`."""
        words: list[PlacedWord] = []
        space = face.advances[" "] * manner.pixels + 2.5 * manner.spacing
        for text in texts:
            word = self.place(text, face, x, baseline, manner)
            if x + word.width > right:
                break
            words.append(word)
            x += word.width + space
        return words

    def row(self, words: Sequence[PlacedWord]) -> None:
        """Add one line of words that are already placed, left to right."""
        if words:
            self.lines.append(tuple(words))

    def run(self, frame: Frame, pieces: Sequence[Piece], manner: Manner, most_lines: int = 10_000) -> int:
        """Set pieces line by line until they or the frame end; a word wider than the frame is left out.

        Returns the number of lines set; frame.y moves on.
        """
        rest, lines = list(pieces), 0
        while rest and lines < most_lines and self.fits(frame, manner.pixels):
            start = frame.left + (manner.hang if lines else manner.indent)
            placed, rest = self._one_line(
                rest, start, frame.right, self.baseline(frame, manner.pixels), manner
            )
            if not placed:
                rest = rest[1:]
                continue
            self.row(placed)
            lines += 1
            frame.y += manner.pitch
        return lines

    def _one_line(
        self, pieces: list[Piece], left: float, right: float, baseline: float, manner: Manner
    ) -> tuple[list[PlacedWord], list[Piece]]:
        space = self.family.body.advances[" "] * manner.pixels + 2.5 * manner.spacing
        chosen: list[tuple[str, Face, float]] = []
        used, room, rest = 0.0, right - left, pieces
        for text, face in pieces:
            width = width_of(text, face, manner.pixels, manner.spacing)
            gap = space if chosen else 0.0
            if used + gap + width > room:
                part = _broken(text, face, room - used - gap, manner) if manner.hyphens and chosen else ""
                if part:
                    width = width_of(part + "-", face, manner.pixels, manner.spacing)
                    chosen.append((part + "-", face, width))
                    used += gap + width
                    rest = [(text[len(part) :], face), *rest[1:]]
                break
            chosen.append((text, face, width))
            used += gap + width
            rest = rest[1:]
        x, extra = left, 0.0
        if manner.align == "justify" and rest and len(chosen) > 1:
            extra = min((room - used) / (len(chosen) - 1), 1.2 * space)
        elif manner.align in ("centre", "right"):
            x += (room - used) / (2 if manner.align == "centre" else 1)
        placed = []
        for text, face, width in chosen:
            placed.append(PlacedWord(text, x, width, baseline, manner.pixels, face, manner.spacing))
            x += width + space + extra
        return placed, rest

    def rule_across(self, frame: Frame, share: float = 1.0, height: float = 6.0) -> None:
        """A rule from the left of the frame over `share` of its width, in a strip of its own of `height` pixels."""
        if frame.y + height > frame.bottom:
            return
        y = frame.y + height / 2
        thickness = self.between(0.8, 2.2)
        self.rules.append(Rule(frame.left, y, frame.left + share * frame.room, y, "line", thickness))
        frame.y += height


def _broken(text: str, face: Face, room: float, manner: Manner) -> str:
    """The longest beginning of a plain word that fits with a hyphen, leaving a few letters on both sides; else ""."""
    if not text.isalpha() or "-" not in face.advances:
        return ""
    for length in range(len(text) - _LETTERS_BESIDE_A_BREAK, _LETTERS_BESIDE_A_BREAK - 1, -1):
        if width_of(text[:length] + "-", face, manner.pixels, manner.spacing) <= room:
            return text[:length]
    return ""
