"""Training pages cut from real documents: any size, letters at the heights the reader learns, worn like made pages.

`RealPages(folder).page(generator, height, width)` gives a window of a stored page (see `page_store`) with its truth in the
conventions of `placement.truth_of`. Words that the window cuts are painted over, so that what is seen is what is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from fastocr_core.models.mini import alphabet, tower
from fastocr_core.models.mini.train import wear
from fastocr_core.models.mini.train.ink import CLEAN, InkStyle, age
from fastocr_core.models.mini.train.page_store import (
    StoredPage,
    erase,
    pages_in_columns,
    read_page,
    word_boxes,
)
from fastocr_core.models.mini.train.placement import Truth, truth_of_characters

X_HEIGHT_PIXELS = (8.0, 13.5)  # of the body text, as on made pages
_FITTED_SHARE = 0.65  # of the windows that the text fits into at a readable size are made to hold it
_UNCUT_SHARE = 0.85  # of the windows that the text fits into, across or down
_MARGIN = 6.0  # pixels of the stored page
_SKEW_SHARE, _SKEW_DEGREES = 0.12, 2.0
_TRIES = 6
_ENOUGH_CHARACTERS = 60  # windows with fewer are tried again
_ABOVE, _BELOW = 0.75, 0.25  # a word is inside when this much of it is, font sizes
_PAPER = 255


@dataclass(frozen=True, slots=True)
class RealPage:
    """pixels: uint8 [H, W]; truth: tokens and places on it."""

    pixels: np.ndarray
    truth: Truth


class RealPages:
    """Pages of all documents in a folder that `workers.training_pages` filled. Those in columns are left out: the view cuts
    columns apart, so that the reader never sees two at once."""

    def __init__(self, folder: Path) -> None:
        """FileNotFoundError where the folder holds no pages in one column."""
        self._pages = [
            (path, index)
            for path in sorted(folder.glob("*.npz"))
            for index, in_columns in enumerate(pages_in_columns(path))
            if not in_columns
        ]
        if not self._pages:
            raise FileNotFoundError(f"no stored pages in one column in {folder}")

    def __len__(self) -> int:
        return len(self._pages)

    def stored(self, index: int) -> StoredPage:
        """A stored page as it is, 0 <= index < len."""
        return read_page(*self._pages[index])

    def page(
        self, generator: np.random.Generator, height: int, width: int, ink: InkStyle = CLEAN
    ) -> RealPage:
        """A window of exactly height x width pixels, both multiples of 32; always with some text.

        ink: how it looks; effects that need a layout (dark scan edges) are left out, the others are those of `ink.draw`.
        """
        while True:
            stored = self.stored(int(generator.integers(len(self._pages))))
            for attempt in range(_TRIES):
                window = _window(stored, generator, height, width)
                inside = _inside(stored.characters, window)
                if inside.sum() >= _ENOUGH_CHARACTERS or (inside.any() and attempt + 1 == _TRIES):
                    return _cut(stored, window, inside, generator, ink)


@dataclass(frozen=True, slots=True)
class _Window:
    """Of a stored page: its left and top edge (may lie outside the page), its sides, and the size it is drawn at."""

    left: int
    top: int
    across: int
    down: int
    height: int
    width: int


def _window(stored: StoredPage, generator: np.random.Generator, height: int, width: int) -> _Window:
    """Where to cut: mostly the full width of the text, and its full height too where that fits."""
    letters = stored.characters
    x_height = 2 * float(np.median(letters["baseline"] - letters["y"]))
    low, high = (pixels / x_height for pixels in X_HEIGHT_PIXELS)
    tall = float(letters["size"].max())
    text_left, text_right = float(letters["x0"].min()) - _MARGIN, float(letters["x1"].max()) + _MARGIN
    text_top = float(letters["baseline"].min()) - tall
    text_bottom = float(letters["baseline"].max()) + tall
    for fitting in (width / (text_right - text_left), height / (text_bottom - text_top)):
        if fitting > low and generator.random() < _FITTED_SHARE:
            high = min(high, fitting)
    scale = generator.uniform(low, high)
    across, down = round(width / scale), round(height / scale)
    anchor = letters[int(generator.integers(len(letters)))]  # windows without text would teach nothing

    def edge(place: float, first: float, last: float, side: int) -> int:
        if last - first <= side and generator.random() < _UNCUT_SHARE:
            return int(generator.uniform(last - side, first))
        return int(place - generator.uniform(0.02, 0.98) * side)

    left = edge(float(anchor["x"]), text_left, text_right, across)
    top = edge(float(anchor["y"]), text_top, text_bottom, down)
    return _Window(left, top, across, down, height, width)


def _inside(letters: np.ndarray, window: _Window) -> np.ndarray:
    """Which characters belong to words that are wholly in the window, bool [N]."""
    boxes = word_boxes(letters)
    x0, x1, baseline, size = boxes.T
    words = (x0 >= window.left + 1) & (x1 <= window.left + window.across - 1)
    words &= (baseline - _ABOVE * size >= window.top) & (baseline + _BELOW * size <= window.top + window.down)
    starts = np.diff(letters["word"].astype(int), prepend=-1) != 0
    inside: np.ndarray = words[np.cumsum(starts) - 1]
    return inside


def _cut(
    stored: StoredPage, window: _Window, inside: np.ndarray, generator: np.random.Generator, ink: InkStyle
) -> RealPage:
    letters = stored.characters[inside]
    source = np.full((window.down, window.across), _PAPER, np.uint8)
    page_height, page_width = stored.pixels.shape
    top, left = max(window.top, 0), max(window.left, 0)
    patch = stored.pixels[
        top : min(window.top + window.down, page_height), left : min(window.left + window.across, page_width)
    ]
    down, across = top - window.top, left - window.left
    source[down : down + patch.shape[0], across : across + patch.shape[1]] = patch
    shift = np.array([window.left, window.left, window.top, 0], np.float32)
    erase(source, word_boxes(stored.characters[~inside]) - shift, word_boxes(letters) - shift)
    scale_x, scale_y = window.width / window.across, window.height / window.down
    x, y = (letters["x"] - window.left) * scale_x, (letters["y"] - window.top) * scale_y
    x0 = (letters["x0"] - window.left) * scale_x
    degrees = 0.0
    if generator.random() < _SKEW_SHARE:
        degrees = float(generator.uniform(-_SKEW_DEGREES, _SKEW_DEGREES))
        if not _stays(*_turned(x, y, window, degrees), window):
            degrees = 0.0  # turned, the window would cut words again
    pixels = _worn(source, window, degrees, generator, ink)
    turned_x, turned_y = _turned(x, y, window, degrees)
    lefts, _ = _turned(x0, y, window, degrees)
    codes = letters["code"].astype(np.int64)
    return RealPage(
        pixels, truth_of_characters(codes, turned_x, turned_y, lefts, letters["line"], letters["word"])
    )


def _turned(x: np.ndarray, y: np.ndarray, window: _Window, degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """Points of the upright window on the one turned clockwise around its middle."""
    angle = math.radians(degrees)
    right, below = x - window.width / 2, y - window.height / 2
    return (
        window.width / 2 + right * math.cos(angle) - below * math.sin(angle),
        window.height / 2 + right * math.sin(angle) + below * math.cos(angle),
    )


def _stays(x: np.ndarray, y: np.ndarray, window: _Window) -> bool:
    """Whether all characters stay well inside the window."""
    return bool(
        x.min() > 10 and x.max() < window.width - 10 and y.min() > 14 and y.max() < window.height - 14
    )


def _worn(
    source: np.ndarray, window: _Window, degrees: float, generator: np.random.Generator, ink: InkStyle
) -> np.ndarray:
    """The window at its size, turned and aged."""
    scanned = ink.bitonal_scan > 0 and bool(generator.random() < ink.bitonal_scan)
    factor = 2 if scanned else 1
    image = Image.fromarray(source).resize(
        (window.width * factor, window.height * factor), Image.Resampling.BICUBIC
    )
    if degrees:
        image = image.rotate(-degrees, Image.Resampling.BICUBIC, fillcolor=_PAPER)
    if scanned:
        image = wear.bitonal_scan(image, generator, ink.wear)
    return age(np.asarray(image), generator, ink, bitonal=scanned)


def strip_labels(truth: Truth, height: int, width: int) -> np.ndarray:
    """Class of each strip of a page, int64 [height/16, width/4]: 0 for none, else 1 + index into the alphabet."""
    labels = np.zeros((height // tower.STRIP_HEIGHT, width // tower.STRIP_WIDTH), np.int64)
    rows = (truth.y[truth.is_glyph] // tower.STRIP_HEIGHT).astype(int)
    columns = (truth.x[truth.is_glyph] // tower.STRIP_WIDTH).astype(int)
    inside = (rows >= 0) & (rows < labels.shape[0]) & (columns >= 0) & (columns < labels.shape[1])
    glyphs = truth.tokens[truth.is_glyph][inside] - alphabet.FIRST_CHARACTER + 1
    labels[rows[inside], columns[inside]] = glyphs
    return labels
