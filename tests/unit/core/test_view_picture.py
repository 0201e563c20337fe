"""Pictures of recorded steps: what is coloured is what was looked at, and what is refused."""

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageDraw

from fastocr_core.decoding.base import ImageGrid
from fastocr_core.output import Block, PageText
from fastocr_core.view.gaze import FixationTrace, Gaze
from fastocr_core.view.page import fixation_page, reading_name
from fastocr_core.view.part_traces import joined_traces
from fastocr_core.view.picture import HEADER, PictureSize, animation, still
from fastocr_core.view.placed_words import placed_words
from fastocr_core.vision.prepared import PreparedPage

ROWS, COLUMNS = 4, 3
SIZE = PictureSize(width=500, text_width=200)
SCALE = (500 - 200 - 3 * 16) / 96


def made_trace(policy: str = "fastocr", columns: int = COLUMNS) -> FixationTrace:
    """A white page of cells of 32 x 32 px that was read in three steps: 'ab', then ' cd'."""
    view = np.full((ROWS * 32, columns * 32, 1), 255, np.uint8)
    cells = ROWS * columns
    page = PreparedPage(
        (view,), ROWS, columns, cells, "page", 1, 1, (2.0, 0.0, 0.0, 0.0, 2.0, 0.0), columns * 64, ROWS * 64, 0.5, 0.0
    )  # fmt: skip
    block = Block(
        "line", (4.0, 4.0, 120.0, 40.0), "ab cd", ((4.0, 4.0, 60.0, 40.0), (70.0, 4.0, 120.0, 40.0))
    )
    text = PageText(
        "ab cd", "text", (block,), (5, 6, 7), (0.0, 0.0, 0.0), "stop", None, 0.0, 0.0,
        cells, 3, 0.2, policy, 0.1, 0.0, 0.0, 0.0,
    )  # fmt: skip
    gazes = (None, Gaze(((4, 0.9), (5, 0.1)), None, cells), Gaze(((7, 0.8),), (7, 8), 2))
    return FixationTrace(page, ImageGrid(ROWS, columns), 1, text, gazes, (0, 2, 5))


def cell_colour(picture: Image.Image, cell: int) -> tuple[int, int, int]:
    """Colour in the middle of a cell of the first panel."""
    row, column = divmod(cell, COLUMNS)
    x, y = 16 + (column + 0.5) * 32 * SCALE, HEADER + (row + 0.7) * 32 * SCALE
    red, green, blue = np.asarray(picture.convert("RGB"))[int(y), int(x)].tolist()
    return red, green, blue


def test_a_still_colours_what_the_step_looked_at() -> None:
    picture = Image.open(io.BytesIO(still([made_trace()], 2, SIZE)))
    attended, read, left_out = (cell_colour(picture, cell) for cell in (7, 8, 10))
    assert attended[0] > attended[2] + 60  # orange
    assert read[2] > read[0] + 20  # blue
    assert min(left_out) > 245
    warming = Image.open(io.BytesIO(still([made_trace()], 1, SIZE)))
    assert all(cell_colour(warming, cell)[2] > cell_colour(warming, cell)[0] + 20 for cell in (0, 8, 10))


def test_boxes_grow_with_the_text() -> None:
    green = []
    for step in range(3):
        picture = np.asarray(Image.open(io.BytesIO(still([made_trace()], step, SIZE))).convert("RGB")).astype(
            int
        )
        panel = picture[HEADER : HEADER + 60, 16:280]
        green.append(
            int(((panel[:, :, 1] > panel[:, :, 0] + 60) & (panel[:, :, 1] > panel[:, :, 2] + 30)).sum())
        )
    assert green[0] == 0 < green[1] < green[2]


def test_words_are_placed_on_the_view_and_in_the_text() -> None:
    first, second = placed_words(made_trace())
    assert (first.start, first.end, second.start, second.end) == (0, 2, 3, 5)
    assert first.box == (2.0, 2.0, 30.0, 20.0)


def test_an_animation_has_its_steps_and_stays_at_the_end() -> None:
    traces = [made_trace("dense"), made_trace()]
    picture = Image.open(io.BytesIO(animation(traces, range(9), SIZE, frame_milliseconds=100)))
    assert picture.format == "GIF"
    assert picture.n_frames == 3  # type: ignore[attr-defined]
    assert picture.info["loop"] == 0
    picture.seek(2)
    assert picture.info["duration"] == 2000


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(ValueError, match="no step 3"):
        still([made_trace()], 3, SIZE)
    with pytest.raises(ValueError, match="no step"):
        still([], 0, SIZE)
    with pytest.raises(ValueError, match="no step"):
        animation([made_trace()], [7], SIZE)
    with pytest.raises(ValueError, match="different pages"):
        still([made_trace(), made_trace(columns=2)], 1, SIZE)


def test_a_part_of_the_page_is_shown_alone() -> None:
    whole = Image.open(io.BytesIO(still([made_trace()], 2, SIZE)))
    upper = Image.open(io.BytesIO(still([made_trace()], 2, PictureSize(500, 200, 0.0, 0.5))))
    assert whole.height - upper.height == pytest.approx(ROWS * 16 * SCALE, abs=1)


def test_parts_of_a_page_become_one_trace() -> None:
    """Two columns of cells, each read as a page of its own."""
    whole = made_trace(columns=4).page
    halves = []
    for across in (0, 2):
        half = made_trace(columns=2)
        view = whole.views[0][:, across * 32 : across * 32 + 64]
        transform = (2.0, 0.0, across * 64.0, 0.0, 2.0, 0.0)
        gazes = (*half.gazes[:2], Gaze(((7, 0.8),), (6, 7), 2))
        halves.append(replace(half, page=replace(half.page, views=(view,), transform=transform), gazes=gazes))
    joined = joined_traces(whole, halves)
    assert joined.page_text.text == "ab cd\nab cd"
    assert joined.written == (0, 2, 5, 6, 8, 11)
    first, second = joined.gazes[1], joined.gazes[4]
    assert first is not None
    assert second is not None
    assert first.seen == (0, 1, 4, 5, 8, 9, 12, 13)  # all of the left half
    assert second.seen == (2, 3, 6, 7, 10, 11, 14, 15)
    assert second.strongest == ((10, 0.9), (11, 0.1))
    assert (first.read, second.read) == (8, 8)
    assert joined.gazes[0] == Gaze((), first.seen, 8)  # the prompt of a part holds that part alone
    assert joined.gazes[5] == Gaze(((15, 0.8),), (14, 15), 2)
    assert Image.open(io.BytesIO(still([joined], 4, SIZE))).width == SIZE.width


def test_a_page_on_which_nothing_was_read_is_drawn_as_it_is() -> None:
    empty = replace(made_trace(), gazes=(), written=())
    for drawn in (still([empty], -1, SIZE), animation([empty], [-1], SIZE)):
        picture = Image.open(io.BytesIO(drawn))
        assert all(min(cell_colour(picture, cell)) > 245 for cell in range(ROWS * COLUMNS))
    with pytest.raises(ValueError, match="no step 0"):
        still([empty], 0, SIZE)
    with pytest.raises(ValueError, match="no step"):
        still([], -1, SIZE)


@pytest.mark.parametrize(
    ("share", "said"), [(0.004, "0.4%"), (0.05, "5%"), (0.125, "12.5%"), (0.07, "7%"), (1.0, "100%")]
)
def test_small_kept_shares_are_not_rounded_to_nothing(share: float, said: str) -> None:
    text = replace(made_trace().page_text, kept_share=share)
    assert reading_name(text) == f"fastocr {said}"


def test_steps_say_how_many_of_the_tokens_they_read_where_some_are_no_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """15 image tokens, of which 12 are cells; the last step reads three, of which two are cells."""
    made = made_trace()
    gazes = (None, Gaze(((4, 0.9),), None, 15), Gaze(((7, 0.8),), (7, 8), 3))
    trace = replace(made, page_text=replace(made.page_text, image_tokens=15), gazes=gazes)
    said: list[str] = []
    monkeypatch.setattr(ImageDraw.ImageDraw, "text", lambda self, at, words, **how: said.append(words))
    for step in range(3):
        still([trace], step, SIZE)
    assert [words for words in said if words.startswith("step")] == [
        "step 1 of 3 reads 15 of 15 image tokens",
        "step 2 of 3 reads 15 of 15 image tokens",
        "step 3 of 3 reads 3 of 15 image tokens",
    ]
    page = fixation_page("x", [trace])
    assert '"tokens":15' in page
    assert [page.count(f'"read":{count}') for count in (15, 3)] == [2, 1]


def test_the_first_token_comes_from_all_of_the_page() -> None:
    picture = Image.open(io.BytesIO(still([made_trace()], 0, SIZE)))
    assert all(cell_colour(picture, cell)[2] > cell_colour(picture, cell)[0] + 20 for cell in (1, 8, 10))
