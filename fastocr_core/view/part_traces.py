"""The traces of a page's parts as one trace of the page: cells of the page, text one part after the other."""

import math
from collections.abc import Sequence

from fastocr_core.decoding.base import ImageGrid
from fastocr_core.parts import join_parts
from fastocr_core.view.gaze import FixationTrace, Gaze
from fastocr_core.vision.prepared import PreparedPage


def joined_traces(page: PreparedPage, traces: Sequence[FixationTrace]) -> FixationTrace:
    """One trace per part of `page`, in the order of its parts. A part sees nothing beyond its own cells."""
    grid = ImageGrid(page.grid_rows, page.grid_columns)
    gazes: list[Gaze | None] = []
    written: list[int] = []
    begun = 0  # characters of the parts before, with the line ends between them
    for trace in traces:
        gazes.extend(_on_page(page, trace, gaze) for gaze in trace.gazes)
        written.extend(begun + count for count in trace.written)
        begun += len(trace.page_text.text) + bool(trace.page_text.text)
    text = join_parts([trace.page_text for trace in traces])
    counts = tuple(min(count, len(text.text)) for count in written)
    return FixationTrace(page, grid, traces[0].layer, text, tuple(gazes), counts)


def _on_page(page: PreparedPage, trace: FixationTrace, gaze: Gaze | None) -> Gaze | None:
    if gaze is None:
        return None
    part, rows, columns = trace.page, trace.grid.rows, trace.grid.columns
    (a, _, c, _, e, f), (page_a, _, page_c, _, page_e, page_f) = part.transform, page.transform
    cell_height, cell_width = (
        page.views[0].shape[0] / page.grid_rows,
        page.views[0].shape[1] / page.grid_columns,
    )
    part_height, part_width = part.views[0].shape[0] / rows, part.views[0].shape[1] / columns

    def cell(index: int) -> int | None:
        """Cell of the page under the middle of a cell of the part, None where the part's padding reaches beyond the page."""
        across, down = (index % columns + 0.5) * part_width, (index // columns + 0.5) * part_height
        column = math.floor((a * across + c - page_c) / page_a / cell_width)
        row = math.floor((e * down + f - page_f) / page_e / cell_height)
        inside = 0 <= row < page.grid_rows and 0 <= column < page.grid_columns
        return row * page.grid_columns + column if inside else None

    looked = ((cell(index), share) for index, share in gaze.strongest)
    seen = range(rows * columns) if gaze.seen is None else gaze.seen
    return Gaze(
        tuple((index, share) for index, share in looked if index is not None),
        tuple(index for index in map(cell, seen) if index is not None),
    )
