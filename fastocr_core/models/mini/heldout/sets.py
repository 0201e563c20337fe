"""Draws the held-out sets beside the clean one: worn pages, two columns, and pages made of lists, tables, forms, contents
and letters.

Fonts and texts are those kept from training; seeds are fixed, so the same fonts give the same pages. See build.py.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from fastocr_core.models.mini.train.fonts import Face
from fastocr_core.models.mini.train.ink import InkStyle, degraded, draw
from fastocr_core.models.mini.train.layout import LayoutStyle, PageLayout, PlacedWord, WordSource, compose

Box = tuple[float, float, float, float]
WEAR = (0.35, 0.65, 0.95)
EFFECTS = (
    "heavy", "light", "show_through", "stains", "lighting", "speckle", "coarse", "fax", "bitonal_scan", "hard_jpeg",
)  # fmt: skip
SKEW_DEGREES = (0.5, 1.0, 1.6)  # by strength
REVERSED, SKEWED = "reversed_headings", "skew"
COLUMN_PAGES = 20
LAYOUT_KINDS = ("lists", "tables", "forms", "contents", "letter")
PAGES_BY_KIND = 4
SEEDS = {"degraded": 31_417, "columns": 27_182, "layouts": 16_180}
LEAST_LINES = {"degraded": 18, "columns": 36, "layouts": 12}
_PLAIN_INK = InkStyle(strength=0.5, texture=0.25, blur=0.4, jpeg=0.0, bitonal=0.0)
_PROSE = LayoutStyle(
    x_height_pixels=(8.5, 11.5), pitch=(1.25, 1.7), margin_pixels=(28, 72), heading_share=0.08
)
_COLUMNS = replace(
    _PROSE, pitch=(1.15, 1.5), kinds=(("two_columns", 1.0),), gutter_pixels=(22, 50), furniture_share=0.3
)


@dataclass(frozen=True, slots=True)
class Plan:
    """One page to be drawn; `height` and `width` are ranges in pixels."""

    part: str
    kind: str  # of train.layout.KINDS, "prose" for one column of paragraphs
    style: LayoutStyle
    ink: InkStyle
    width: tuple[int, int] = (640, 761)
    height: tuple[int, int] = (900, 1061)
    degradation: str = ""
    wear: float = 0.0


def plans(part: str) -> Iterator[Plan]:
    """The pages of a set, in order. KeyError for a set that is not drawn here."""
    makers: dict[str, Callable[[], Iterator[Plan]]] = {
        "degraded": _worn,
        "columns": _two_columns,
        "layouts": _kinds,
    }
    return makers[part]()


def _worn() -> Iterator[Plan]:
    """One main effect a page, at three strengths; besides it the ink and paper of clean print."""
    for strength, wear in enumerate(WEAR):
        for effect in EFFECTS:
            yield Plan("degraded", "prose", _PROSE, only_effect(effect, wear), degradation=effect, wear=wear)
        angle = SKEW_DEGREES[strength]
        skewed = replace(_PROSE, skew_share=1.0, skew_degrees=angle)
        yield Plan("degraded", "prose", skewed, _PLAIN_INK, degradation=SKEWED, wear=wear)
    reverse = replace(_PROSE, kinds=(("prose", 1.0),), heading_share=0.4, reverse_share=1.0)
    yield Plan("degraded", "prose", reverse, _PLAIN_INK, degradation=REVERSED, wear=1.0)


def only_effect(effect: str, wear: float) -> InkStyle:
    """`ink.degraded` with all its effects off but one, which happens for sure."""
    none: dict[str, float] = dict.fromkeys((*EFFECTS, "scan_edges"), 0.0)
    shares = none | {effect: 1.0}
    base = replace(degraded(wear), strength=0.5, texture=0.1, blur=0.2, jpeg=0.0, bitonal=0.0)
    return replace(base, stretched=False, **shares)


def _two_columns() -> Iterator[Plan]:
    for _ in range(COLUMN_PAGES):
        yield Plan("columns", "two_columns", _COLUMNS, _PLAIN_INK, width=(760, 901), height=(880, 1001))


def _kinds() -> Iterator[Plan]:
    for index in range(PAGES_BY_KIND * len(LAYOUT_KINDS)):
        kind = LAYOUT_KINDS[index % len(LAYOUT_KINDS)]
        style = replace(_PROSE, kinds=((kind, 1.0),), emphasis_share=0.3, furniture_share=0.2)
        yield Plan("layouts", kind, style, _PLAIN_INK)


def drawn_page(
    plan: Plan, seed: tuple[int, int], family: list[Face], text: WordSource, start: Callable[[], None]
) -> tuple[PageLayout, np.ndarray]:
    """The layout and its pixels, uint8 [height, width]. `family` holds the page's face first, then its other cuts.

    Sizes are drawn until the page is full enough and of its kind; `start` puts the text back to where it was.
    """
    generator = np.random.default_rng(seed)
    weights = np.zeros(len(family))
    weights[0] = 1.0
    while True:
        start()
        width, height = int(generator.integers(*plan.width)), int(generator.integers(*plan.height))
        layout = compose(generator, width, height, family, weights, text, plan.style)
        if len(layout.lines) < LEAST_LINES[plan.part] or not fits_plan(layout, plan):
            continue
        return layout, draw(layout, generator, plan.ink)


def fits_plan(layout: PageLayout, plan: Plan) -> bool:
    """Whether a page meant to have two columns has them, each of ten lines or more, and one to be skewed is."""
    if abs(layout.skew_degrees) < 0.7 * plan.style.skew_degrees * plan.style.skew_share:
        return False
    if plan.degradation == REVERSED:
        return sum(rule.look == "reverse" for rule in layout.rules) >= 3
    if plan.kind != "two_columns":
        return True
    middle = layout.width / 2
    left = sum(line[-1].x + line[-1].width <= middle + 12 for line in layout.lines)
    right = sum(line[0].x >= middle - 12 for line in layout.lines)
    return left >= 10 and right >= 10 and left + right >= 0.85 * len(layout.lines)


def ink_box(layout: PageLayout, word: PlacedWord) -> Box:
    """Ink of a word as `ink.draw` puts it down, measured at four times its size; upright around it on a turned page."""
    font = word.face.sized(word.pixels * 4)
    edges = [
        (x + left / 4, word.baseline + top / 4, x + right / 4, word.baseline + bottom / 4)
        for letter, x, _ in word.letters()
        for left, top, right, bottom in (font.getbbox(letter, anchor="ls"),)
    ]
    lefts, tops, rights, bottoms = (np.array(side) for side in zip(*edges, strict=True))
    across = np.concatenate([lefts, rights, lefts, rights])
    down = np.concatenate([tops, tops, bottoms, bottoms])
    x, y = layout.turned(across, down)
    return (
        round(float(x.min()), 1), round(float(y.min()), 1), round(float(x.max()), 1), round(float(y.max()), 1),
    )  # fmt: skip


def cuts_of(face: Face, faces: list[Face]) -> list[Face]:
    """`face`, then the others: `train.family.family_of` finds the cuts of its family among them."""
    path = pathlib.Path(face.path)
    return [face, *(other for other in faces if pathlib.Path(other.path) != path)]
