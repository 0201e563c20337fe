"""Training pages for the decoder: layouts with token truth, perfect or rendered vision, batched by size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fastocr_core.models.mini import alphabet, tower
from fastocr_core.models.mini.reader import COLUMNS_PER_CELL
from fastocr_core.models.mini.train.fonts import TRAINED, face_weights, find_faces
from fastocr_core.models.mini.train.ink import CLEAN, InkStyle, blank_leaf, degraded, draw
from fastocr_core.models.mini.train.layout import LayoutStyle, PageLayout, Truth, compose, truth_of
from fastocr_core.models.mini.train.real import RealPage, RealPages, strip_labels
from fastocr_core.models.mini.train.texts import TextSource, load_corpus, load_word_lists

SIDE_PIXELS = 32  # unit of page sides
ROWS_PER_SIDE = SIDE_PIXELS // tower.CELL_HEIGHT
LAYERS_OF_DOUBT = 4  # true strip, neighbour in x, neighbour in y, wrong glyph


@dataclass(frozen=True, slots=True)
class PageRange:
    """Sizes and looks of the pages of one training phase; sides in units of 32 px."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    style: LayoutStyle
    random_share: float
    blank_share: float = 0.05
    offset_share: float = (
        0.6  # pages that sit somewhere on a larger page, so that every row and column is learned
    )
    worn_share: float = 0.0  # pages that wear as scans do, clean print otherwise
    real_share: float = 0.0  # batches cut from real documents, where there are any


@dataclass(frozen=True, slots=True)
class Batch:
    """Pages of one grid size. strips: classes int64 and weights float32, both [B, LAYERS_OF_DOUBT, h, 8w]; pixels uint8
    [B, H, W] or None; tokens int64 [B, T] padded with PAD; cells int64 [B, T] flat index of the cell a token names, -1 for
    none; offsets (row, column) in cells by page; labels int64 [B, h, 8w] glyph classes."""

    rows: int
    columns: int
    strip_classes: Tensor
    strip_weights: Tensor
    pixels: Tensor | None
    labels: Tensor
    tokens: Tensor
    cells: Tensor
    offsets: list[tuple[int, int]]


def doubtful_strips(
    truth: Truth, rows: int, columns: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """What a well-trained stem would see of a layout: exact strips, blurred at strip borders, now and then wrong."""
    height, width = rows, columns * tower.STRIPS_PER_CELL
    classes = np.zeros((LAYERS_OF_DOUBT, height, width), np.int64)
    weights = np.zeros((LAYERS_OF_DOUBT, height, width), np.float32)
    x = truth.x[truth.is_glyph] / tower.STRIP_WIDTH
    y = truth.y[truth.is_glyph] / tower.STRIP_HEIGHT
    glyphs = truth.tokens[truth.is_glyph] - alphabet.FIRST_CHARACTER + 1
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    x, y, glyphs = x[inside], y[inside], glyphs[inside]
    column, row = x.astype(int), y.astype(int)
    x_rest, y_rest = x - column - 0.5, y - row - 0.5
    x_spill = np.clip((np.abs(x_rest) - 0.28) / 0.44, 0, 0.5)
    y_spill = np.clip((np.abs(y_rest) - 0.44) / 0.12, 0, 0.5)
    beside = np.clip(column + np.sign(x_rest).astype(int), 0, width - 1)
    above = np.clip(row + np.sign(y_rest).astype(int), 0, height - 1)
    certain = generator.beta(6, 0.35, size=len(glyphs)).astype(np.float32)
    wrong = generator.integers(1, tower.GLYPHS, size=len(glyphs))
    classes[0, row, column], weights[0, row, column] = glyphs, (1 - x_spill) * (1 - y_spill) * certain
    classes[1, row, beside], weights[1, row, beside] = glyphs, x_spill * (1 - y_spill) * certain
    classes[2, above, column], weights[2, above, column] = glyphs, (1 - x_spill) * y_spill * certain
    classes[3, row, column], weights[3, row, column] = wrong, (1 - x_spill) * (1 - y_spill) * (1 - certain)
    total = weights.sum(0, keepdims=True)
    return classes, weights / np.maximum(total, 1.0)


def _shifted(truth: Truth, offset: tuple[int, int]) -> np.ndarray:
    tokens = truth.tokens.copy()
    row = (tokens >= alphabet.FIRST_ROW) & (tokens < alphabet.FIRST_COLUMN)
    tokens[row] += offset[0]
    tokens[tokens >= alphabet.FIRST_COLUMN] += offset[1] * COLUMNS_PER_CELL
    return tokens


class PageSource:
    """Endless seeded batches of pages in a PageRange."""

    def __init__(self, seed: int, rendered: bool, real_folder: Path | None = None) -> None:
        self._generator = np.random.default_rng(seed)
        self._faces = find_faces(TRAINED)
        self._weights = face_weights(self._faces)
        self._texts = TextSource(load_corpus(), 0.0, load_word_lists())
        self._rendered = rendered
        self._real = RealPages(real_folder) if real_folder is not None else None

    def batch(self, pages: PageRange, token_budget: int) -> Batch:
        generator = self._generator
        rows = int(generator.integers(*pages.rows)) * ROWS_PER_SIDE
        columns = int(generator.integers(*pages.columns))
        height, width = rows * tower.CELL_HEIGHT, columns * tower.CELL_WIDTH
        self._texts.random_share = pages.random_share
        real = self._real if self._rendered and generator.random() < pages.real_share else None
        drawn: list[PageLayout | RealPage] = []
        truths: list[Truth] = []
        longest = 0
        while len(drawn) < 32:
            page: PageLayout | RealPage
            if real is not None:
                page = real.page(generator, height, width, self._ink(pages.worn_share))
                truth = page.truth
            else:
                page = compose(generator, width, height, self._faces, self._weights, self._texts, pages.style)
                if generator.random() < pages.blank_share:
                    page = PageLayout(width, height, ())
                truth = truth_of(page)
            longest = max(longest, len(truth.tokens))
            if drawn and (len(drawn) + 1) * (rows * columns + longest) > token_budget:
                break
            drawn.append(page)
            truths.append(truth)
        return self._assemble(rows, columns, pages, drawn, truths)

    def _ink(self, worn_share: float) -> InkStyle:
        """How the next page looks."""
        if self._generator.random() >= worn_share:
            return CLEAN
        return degraded(float(self._generator.uniform(0.1, 0.95)))

    def _pixels(self, page: PageLayout | RealPage, pages: PageRange) -> np.ndarray:
        if isinstance(page, RealPage):
            return page.pixels
        if page.lines:
            return draw(page, self._generator, self._ink(pages.worn_share))
        return blank_leaf(self._generator, page.height, page.width)

    def _assemble(
        self,
        rows: int,
        columns: int,
        pages: PageRange,
        drawn: list[PageLayout | RealPage],
        truths: list[Truth],
    ) -> Batch:
        generator = self._generator
        length = max(len(truth.tokens) for truth in truths)
        tokens = np.full((len(truths), length), alphabet.PAD)
        cells = np.full((len(truths), length), -1)
        doubts = [doubtful_strips(truth, rows, columns, generator) for truth in truths]
        offsets = []
        for index, truth in enumerate(truths):
            offset = (0, 0)
            if generator.random() < pages.offset_share:
                offset = (
                    int(generator.integers(0, alphabet.ROWS - rows + 1)),
                    int(generator.integers(0, alphabet.COLUMNS // COLUMNS_PER_CELL - columns + 1)),
                )
            offsets.append(offset)
            count = len(truth.tokens)
            tokens[index, :count] = _shifted(truth, offset)
            row = np.clip(truth.y // tower.CELL_HEIGHT, 0, rows - 1).astype(int)
            column = np.clip(truth.x // tower.CELL_WIDTH, 0, columns - 1).astype(int)
            cells[index, : count - 1] = (row * columns + column)[:-1]
        pixels = None
        if self._rendered:
            pixels = torch.from_numpy(np.stack([self._pixels(page, pages) for page in drawn]))
        height, width = rows * tower.CELL_HEIGHT, columns * tower.CELL_WIDTH
        labels = [strip_labels(truth, height, width) for truth in truths]
        return Batch(
            rows,
            columns,
            torch.from_numpy(np.stack([classes for classes, _ in doubts])),
            torch.from_numpy(np.stack([weights for _, weights in doubts])),
            pixels,
            torch.from_numpy(np.stack(labels)),
            torch.from_numpy(tokens),
            torch.from_numpy(cells),
            offsets,
        )
