"""The fixation of a page that is read in parts lies where the parts lie."""

from fastocr_core import DecodePolicy, EngineLimits, load
from fastocr_core.models.mini.heldout.pages import held_out_pages
from fastocr_core.view.page import fixation_page
from fastocr_core.view.trace import record


def test_the_gaze_moves_to_the_second_column_with_the_reading() -> None:
    page = list(held_out_pages("columns"))[9]  # two columns and nothing else
    trace = record(
        load("mini"), page.image(), DecodePolicy.fastocr(), limits=EngineLimits(max_output_tokens=50)
    )
    first, second = trace.page.parts
    assert len(trace.gazes) == len(trace.page_text.tokens) == len(trace.written) == 100
    assert trace.page_text.image_tokens == first.image_tokens + second.image_tokens
    columns = [
        gaze.strongest[0][0] % trace.page.grid_columns for gaze in trace.gazes if gaze and gaze.strongest
    ]
    middle = trace.page.grid_columns / 2
    assert sum(column < middle for column in columns[:49]) >= 47
    assert sum(column >= middle - 1 for column in columns[49:]) >= 47
    assert list(trace.written) == sorted(trace.written)
    cells = trace.page.grid_rows * trace.page.grid_columns
    assert all(cell < cells for gaze in trace.gazes if gaze for cell, _ in gaze.strongest)
    assert "<html" in fixation_page("columns", [trace])
