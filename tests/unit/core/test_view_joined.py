"""Parts of a page that are larger or smaller than the page: their gaze covers what they show, and nothing else."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from fastocr_core import DecodePolicy, EngineLimits, load
from fastocr_core.decoding.base import ImageGrid
from fastocr_core.output import PageText
from fastocr_core.view.gaze import FixationTrace, Gaze
from fastocr_core.view.page import fixation_page
from fastocr_core.view.part_traces import joined_traces
from fastocr_core.view.trace import record
from fastocr_core.vision.prepared import PreparedPage

CELL = 10  # pixels
SIDE = 6  # cells of the page, across and down


def paper(rows: int, columns: int) -> NDArray[np.uint8]:
    return np.full((rows * CELL, columns * CELL, 1), 250, np.uint8)


def made_page(
    view: NDArray[np.uint8], scale: float = 1.0, left: float = 0.0, top: float = 0.0
) -> PreparedPage:
    """`scale`: pixels of the whole page per pixel of the view; `left` and `top` in pixels of the whole page."""
    rows, columns = view.shape[0] // CELL, view.shape[1] // CELL
    transform = (2.0 * scale, 0.0, 2.0 * left, 0.0, 2.0 * scale, 2.0 * top)
    return PreparedPage((view,), rows, columns, rows * columns, "page", 1, 1, transform, 120, 120, 0.5, 0.1)


def made_trace(
    page: PreparedPage, strongest: Sequence[tuple[int, float]], seen: Sequence[int] | None
) -> FixationTrace:
    cells = page.image_tokens
    text = PageText(
        "ab", "text", (), (5, 6), (0.0, 0.0), "stop", None, 0.0, 0.0,
        cells, 2, 0.2, "fastocr", 0.1, 0.0, 0.0, 0.0,
    )  # fmt: skip
    gaze = Gaze(tuple(strongest), None if seen is None else tuple(seen), cells if seen is None else len(seen))
    return FixationTrace(page, ImageGrid(page.grid_rows, page.grid_columns), 1, text, (None, gaze), (1, 2))


def block(rows: range, columns: range) -> tuple[int, ...]:
    return tuple(row * SIDE + column for row in rows for column in columns)


def test_a_cell_of_a_shrunk_part_covers_many_cells_of_the_page() -> None:
    """A title at a third of its size: 2 x 2 cells, of which each shows 3 x 3 cells of the page."""
    trace = made_trace(made_page(paper(2, 2), scale=3.0), [(0, 0.9), (3, 0.09)], [0, 3])
    joined = joined_traces(made_page(paper(SIDE, SIDE)), [trace])
    first, gaze = joined.gazes
    assert first == Gaze((), block(range(6), range(6)), 4)
    assert gaze is not None
    upper, lower = block(range(3), range(3)), block(range(3, 6), range(3, 6))
    assert gaze.seen == tuple(sorted((*upper, *lower)))
    assert gaze.read == 2
    assert gaze.strongest == (*((cell, 0.1) for cell in upper), *((cell, 0.01) for cell in lower))


def test_a_part_that_is_not_along_the_cells_leaves_no_gaps() -> None:
    trace = made_trace(made_page(paper(2, 2), scale=1.7, left=4.0, top=9.0), [(0, 1.0)], None)
    gaze = joined_traces(made_page(paper(SIDE, SIDE)), [trace]).gazes[1]
    assert gaze is not None
    assert gaze.seen == block(
        range(1, 4), range(4)
    )  # 34 pixels from (4, 9) hold the middles 15, 25, 35 and 5 to 35
    assert gaze.strongest == ((6, 0.25), (7, 0.25), (12, 0.25), (13, 0.25))


def test_cells_of_a_magnified_part_share_a_cell_of_the_page() -> None:
    trace = made_trace(
        made_page(paper(4, 4), scale=0.5, left=20.0), [(0, 0.4), (3, 0.3), (5, 0.2), (1, 0.1)], None
    )
    gaze = joined_traces(made_page(paper(SIDE, SIDE)), [trace]).gazes[1]
    assert gaze is not None
    assert gaze.strongest == ((2, pytest.approx(0.7)), (3, 0.3))
    assert gaze.seen == (2, 3, 8, 9)
    assert gaze.read == 16


def test_what_fills_a_part_up_and_what_is_beyond_the_page_is_not_painted() -> None:
    """A title of one row of the page at a third of its size, filled up to 3 x 3 cells, above print."""
    page = paper(SIDE, SIDE)
    page[2:8, 5:54], page[30:55, 5:40] = 0, 0
    part = paper(3, 3)
    part[1:3, 2:18] = 0
    trace = made_trace(made_page(part, scale=3.0), [(0, 0.6), (2, 0.2), (4, 0.2)], None)
    gaze = joined_traces(made_page(page), [trace]).gazes[1]
    assert gaze is not None
    assert gaze.seen == block(range(1), range(6))
    assert gaze.strongest == ((0, 0.2), (1, 0.2), (2, 0.2))


def test_a_title_is_coloured_where_it_stands() -> None:
    image = Image.new("L", (700, 420), 245)
    canvas = ImageDraw.Draw(image)
    canvas.text((60, 40), "Large Title", fill=10, font=ImageFont.load_default(80))
    for line in range(6):
        canvas.text(
            (60, 190 + 30 * line), "the first of July and the thirtieth of September 214 vessels", 10,
            ImageFont.load_default(20),
        )  # fmt: skip
    trace = record(load("mini"), image, DecodePolicy.fastocr(), limits=EngineLimits(max_output_tokens=12))
    title, text = trace.page.parts
    rows = trace.page.views[0].shape[0] / trace.page.grid_rows / trace.page.scale  # of the image
    print_begins = int(180 / rows)
    letters = {row for row in range(trace.page.grid_rows) if 60 < (row + 0.5) * rows < 110}
    own = [gaze for gaze in trace.gazes if gaze and gaze.read <= title.image_tokens][:12]
    assert len(own) == 12
    for gaze in own:
        assert gaze.seen is not None
        assert gaze.read == title.image_tokens
        seen = {divmod(cell, trace.page.grid_columns) for cell in gaze.seen}
        assert letters <= {row for row, _ in seen}
        assert max(row for row, _ in seen) <= print_begins
        for row in letters:  # without gaps
            columns = sorted(column for at, column in seen if at == row)
            assert columns == list(range(columns[0], columns[-1] + 1))
    later = trace.gazes[-1]
    assert later is not None
    assert later.seen is not None
    assert min(later.seen) // trace.page.grid_columns >= print_begins - 1
    assert f'"tokens":{title.image_tokens + text.image_tokens}' in fixation_page("x", [trace])
