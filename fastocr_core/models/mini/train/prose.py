"""The plainest page: one column of paragraphs and headings in one face."""

from __future__ import annotations

import numpy as np

from fastocr_core.models.mini.train.fonts import PLAIN, Cast, Face
from fastocr_core.models.mini.train.placement import PageLayout, PlacedWord
from fastocr_core.models.mini.train.style import LayoutStyle, WordSource


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


def compose_prose(
    generator: np.random.Generator,
    width: int,
    height: int,
    faces: list[Face],
    weights: np.ndarray,
    source: WordSource,
    style: LayoutStyle,
    cast: Cast = PLAIN,
) -> PageLayout:
    """One single-column page of paragraphs and headings."""
    face = cast.of(faces[int(generator.choice(len(faces), p=weights))])
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
