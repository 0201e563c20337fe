"""Page layout with exact truth: draws what kind of page comes next and where every glyph of it stands, before any ink.

A `PageLayout` is enough to train the decoder on perfect vision; `ink.draw` turns the same layout into pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fastocr_core.models.mini.train.blocks import Block, bullets, flow, paragraph, verse
from fastocr_core.models.mini.train.columns import columns
from fastocr_core.models.mini.train.family import family_of
from fastocr_core.models.mini.train.fonts import PLAIN, Cast, Face, any_cast, old_print_weights
from fastocr_core.models.mini.train.furniture import header, neighbour, reserve_foot, set_foot, strip
from fastocr_core.models.mini.train.letter import letter
from fastocr_core.models.mini.train.listing import listing
from fastocr_core.models.mini.train.placement import (
    PageLayout,
    PlacedWord,
    Rule,
    Truth,
    inner_size,
    skewed,
    truth_of,
)
from fastocr_core.models.mini.train.prose import compose_prose
from fastocr_core.models.mini.train.sideheads import screen, sideheads
from fastocr_core.models.mini.train.style import LayoutStyle, WordSource
from fastocr_core.models.mini.train.tabular import contents, directory, figures, form, table
from fastocr_core.models.mini.train.typesetting import LEAST_PITCH_PIXELS, Frame, Manner, Setter

__all__ = [
    "KINDS",
    "LayoutStyle",
    "PageLayout",
    "PlacedWord",
    "Rule",
    "Truth",
    "WordSource",
    "compose",
    "truth_of",
]

_CAST_OLD_SHARE = 0.5  # of the pages in type cast otherwise: those set in faces near old print
_APART_SHARE = (
    0.4  # of the running heads stand far above the text, where only a look at the whole page finds it
)
_MANY = ((paragraph, 6.0), (bullets, 1.0), (verse, 0.3), (listing, 0.3), (table, 0.5), (figures, 0.3))


def _flowing(*mix: tuple[Block, float]) -> Callable[[Setter, Frame], None]:
    def fill(setter: Setter, frame: Frame) -> None:
        flow(setter, frame, mix)

    return fill


# The kinds of pages LayoutStyle.kinds may name ("plain" is the page without kinds).
KINDS: dict[str, Callable[[Setter, Frame], None]] = {
    "prose": _flowing((paragraph, 1.0)),
    "mixed": _flowing(*_MANY),
    "two_columns": columns(2),
    "three_columns": columns(3),
    "lists": _flowing((bullets, 4.0), (paragraph, 1.0)),
    "letter": letter,
    "tables": _flowing((table, 3.0), (paragraph, 1.0)),
    "forms": _flowing((form, 4.0), (paragraph, 1.0), (table, 0.5)),
    "contents": _flowing((contents, 1.0)),
    "directory": _flowing((directory, 1.0)),
    "sideheads": sideheads,
    "screens": _flowing((screen, 2.0), (paragraph, 1.5), (directory, 0.5), (table, 0.5)),
    "listing": _flowing((listing, 4.0), (paragraph, 1.0)),
    "figures": _flowing((figures, 2.0), (table, 1.0)),
    "verse": _flowing((verse, 1.0)),
    "strip": strip,
}


def _setter(
    generator: np.random.Generator,
    width: int,
    height: int,
    faces: list[Face],
    weights: np.ndarray,
    source: WordSource,
    style: LayoutStyle,
    cast: Cast,
) -> Setter:
    face = faces[int(generator.choice(len(faces), p=weights))]
    pixels = round(generator.uniform(*style.x_height_pixels) / face.x_height * 4) / 4
    pitch = max(generator.uniform(*style.pitch) * pixels, style.min_pitch_pixels, LEAST_PITCH_PIXELS)
    align = "justify" if generator.random() < 0.6 else "left"
    indent = float(generator.choice([0.0, 1.5, 3.0])) * pixels
    manner = Manner(pixels, pitch, align, indent, hyphens=bool(generator.random() < 0.4))
    family = family_of(face, faces, generator, cast)
    emphasis = bool(generator.random() < style.emphasis_share)
    return Setter(generator, source, style, width, height, family, manner, emphasis=emphasis)


def _compose_kind(setter: Setter, kind: str) -> PageLayout:
    style, width, height = setter.style, setter.width, setter.height
    low, high = style.margin_pixels
    side, top = min(high, width * 0.2), min(high, height * 0.2)
    frame = Frame(
        setter.between(min(low, side), side), width - setter.between(min(low, side), side),
        setter.between(min(low, top), top), height - setter.between(min(low, top), top),
    )  # fmt: skip
    if setter.chance(style.neighbour_share):
        neighbour(setter, frame)
    page, furnished = setter.count(1, 1200), setter.chance(style.furniture_share)
    headed = furnished and setter.chance(0.6)
    if headed:
        header(setter, frame, page)
        if setter.chance(_APART_SHARE):
            frame.y += min(setter.between(0.5, 7.0) * setter.manner.pitch, 0.3 * (frame.bottom - frame.y))
    numbered = furnished and (not headed or setter.chance(0.3))
    foot = reserve_foot(setter, frame, numbered, setter.chance(style.footnote_share))
    if setter.chance(style.short_share):
        frame.bottom = frame.y + setter.between(0.05, 1.0) * (frame.bottom - frame.y)
    if setter.chance(style.short_share / 4):
        frame.y += setter.between(0.05, 0.4) * (frame.bottom - frame.y)
    KINDS[kind](setter, frame)
    set_foot(setter, foot, page)
    return setter.page()


def compose(
    generator: np.random.Generator,
    width: int,
    height: int,
    faces: list[Face],
    weights: np.ndarray,
    source: WordSource,
    style: LayoutStyle,
) -> PageLayout:
    """One page of a kind drawn from style.kinds (a plain one without), skewed by the style's share.

    weights: of the faces, sum 1. KeyError for a kind that KINDS does not have.
    """
    degrees = 0.0
    if style.skew_share and generator.random() < style.skew_share:
        degrees = float(generator.uniform(-style.skew_degrees, style.skew_degrees))
        style = replace(style, neighbour_share=0.0)  # cut letters belong to an edge that is not turned
    inner = inner_size(width, height, degrees) if degrees else (width, height)
    kind = "plain"
    if style.kinds:
        shares = np.array([weight for _, weight in style.kinds])
        kind = style.kinds[int(generator.choice(len(shares), p=shares / shares.sum()))][0]
    cast = PLAIN
    if style.cast_share and generator.random() < style.cast_share:
        cast = any_cast(generator)
        if generator.random() < _CAST_OLD_SHARE:
            weights = old_print_weights(faces, weights)
    if kind == "plain":
        page = compose_prose(generator, *inner, faces, weights, source, style, cast)
    else:
        page = _compose_kind(_setter(generator, *inner, faces, weights, source, style, cast), kind)
        if not page.lines:  # too small a page for its kind
            page = compose_prose(generator, *inner, faces, weights, source, style, cast)
    return skewed(page, width, height, degrees) if degrees else page
