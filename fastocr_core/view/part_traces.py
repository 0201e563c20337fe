"""The traces of a page's parts as one trace of the page: cells of the page, text one part after the other."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fastocr_core.decoding.base import ImageGrid
from fastocr_core.parts import join_parts
from fastocr_core.view.gaze import FixationTrace, Gaze
from fastocr_core.vision.prepared import PreparedPage

_INK_TONES = 60  # tones between paper and what stands on it

Cells = tuple[int, ...]


def joined_traces(page: PreparedPage, traces: Sequence[FixationTrace]) -> FixationTrace:
    """One trace per part of `page`, in the order of its parts. A part sees nothing beyond its own cells."""
    grid = ImageGrid(page.grid_rows, page.grid_columns)
    gazes: list[Gaze | None] = []
    written: list[int] = []
    begun = 0  # characters of the parts before, with the line ends between them
    for trace in traces:
        covered = _covered(page, trace)
        gazes.extend(_on_page(covered, trace, gaze) for gaze in trace.gazes)
        written.extend(begun + count for count in trace.written)
        begun += len(trace.page_text.text) + bool(trace.page_text.text)
    text = join_parts([trace.page_text for trace in traces])
    counts = tuple(min(count, len(text.text)) for count in written)
    return FixationTrace(page, grid, traces[0].layer, text, tuple(gazes), counts)


def _on_page(covered: Sequence[Cells], trace: FixationTrace, gaze: Gaze | None) -> Gaze:
    """The gaze in cells of the page; attention to a cell of the part is spread evenly over the cells that it covers."""
    gaze = gaze or Gaze((), None, trace.page_text.image_tokens)
    shares: dict[int, float] = {}
    for index, share in gaze.strongest:
        for cell in covered[index]:
            shares[cell] = shares.get(cell, 0.0) + share / len(covered[index])
    seen = range(len(covered)) if gaze.seen is None else gaze.seen
    return Gaze(
        tuple(sorted(((cell, round(share, 6)) for cell, share in shares.items()), key=lambda pair: -pair[1])),
        tuple(sorted({cell for index in seen for cell in covered[index]})),
        gaze.read,
    )


def _covered(page: PreparedPage, trace: FixationTrace) -> list[Cells]:
    """By cell of the part, the cells of the page that it shows: those whose middle it covers, or the one that it lies in.

    Empty for a cell that lies beyond the page or in what the part was filled up with.
    """
    part = trace.page
    height, width = _shown(page, part)
    part_edges = _edges(part, page, trace.grid, height, width)
    page_cells = (page.views[0].shape[0] / page.grid_rows, page.views[0].shape[1] / page.grid_columns)
    down, across = (
        [_along(low / cell, high / cell, count) for low, high in edges]
        for edges, cell, count in zip(
            part_edges, page_cells, (page.grid_rows, page.grid_columns), strict=True
        )
    )
    return [
        tuple(row * page.grid_columns + column for row in rows for column in columns)
        for rows in down
        for columns in across
    ]


def _edges(
    part: PreparedPage, page: PreparedPage, grid: ImageGrid, height: float, width: float
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Upper and lower edges of the rows of a part's cells, left and right ones of its columns, in pixels of the page; only
    what lies in the first `height` x `width` pixels of the part."""
    rows = np.minimum(np.linspace(0, part.views[0].shape[0], grid.rows + 1), height)
    columns = np.minimum(np.linspace(0, part.views[0].shape[1], grid.columns + 1), width)
    down, across = _page_pixels(page, part, rows, columns)
    return list(pairwise(down.tolist())), list(pairwise(across.tolist()))


def _page_pixels(
    page: PreparedPage, part: PreparedPage, down: NDArray[np.float64], across: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Places down and across a part, in its pixels, as places in pixels of the page."""
    (a, _, c, _, e, f), (page_a, _, page_c, _, page_e, page_f) = part.transform, page.transform
    return (e * down + f - page_f) / page_e, (a * across + c - page_c) / page_a


def _along(low: float, high: float, count: int) -> Iterable[int]:
    """Cells of `count` in a row whose middle lies between two places, else the cell around the middle of the two."""
    if high - low < 1e-6:
        return ()
    first, end = int(np.ceil(low - 0.5 - 1e-6)), int(np.ceil(high - 0.5 - 1e-6))
    if first == end:
        first = int(np.floor((low + high) / 2))
        end = first + 1
    return range(max(first, 0), min(end, count))


def _shown(page: PreparedPage, part: PreparedPage) -> tuple[float, float]:
    """How many pixels of a part, down and across, show the page.

    A part is filled up with paper to whole cells. Flat ends of it are taken for such filling where the page has ink.
    """
    view = part.views[0]
    height, width = view.shape[:2]
    tone = view[-1, -1].astype(np.int16)
    drawn = (view != view[-1, -1]).any(axis=2)
    if not drawn.any():
        return height, width
    below, beside = int(drawn.any(axis=1).nonzero()[0][-1]) + 1, int(drawn.any(axis=0).nonzero()[0][-1]) + 1

    def has_ink(rows: tuple[int, int], columns: tuple[int, int]) -> bool:
        """Whether the page has ink where the part shows these rows and columns."""
        down, across = _page_pixels(page, part, np.array(rows, float), np.array(columns, float))
        (top, bottom), (left, right) = down.round().astype(int), across.round().astype(int)
        under = page.views[0][max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
        return bool((np.abs(under.astype(np.int16) - tone) > _INK_TONES).any())

    return (
        below if has_ink((below, height), (0, width)) else height,
        beside if has_ink((0, height), (beside, width)) else width,
    )
