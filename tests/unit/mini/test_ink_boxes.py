"""Word boxes around the ink: on held-out pages with roughly true places, and what holds on any page."""

import itertools
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from fastocr_core.models.mini import alphabet
from fastocr_core.models.mini.heldout.pages import HeldOutPage, held_out_pages
from fastocr_core.models.mini.ink_boxes import word_boxes
from fastocr_core.models.mini.line_tracks import RoughLine, ink_marks, page_slope
from fastocr_core.models.mini.lines import lines_of, text_of_lines
from fastocr_core.scores.boxes import Box, matched_ious
from fastocr_core.vision import model_vision, prepare
from fastocr_core.vision.prepared import PreparedPage
from fastocr_core.vision.scale import TARGET_X_HEIGHT_PIXELS

MINI = model_vision("mini")
CHOSEN = {
    "clean": ("page-05-it.png", "page-31-fr.png"),
    "degraded": ("skew-21-pt.png", "lighting-04-en.png", "fax-29-nl.png"),
    "columns": ("two_columns-03-es.png",),
    "layouts": ("lists-00-en.png", "tables-16-fr.png"),
}


def read_tokens(page: HeldOutPage, prepared: PreparedPage, seed: int) -> list[int]:
    """What a reader would write that knows every word, but misses a band in six and a strip in six by one."""
    generator = np.random.default_rng(seed)
    scale = prepared.scale
    tokens = []
    for line in page.lines:
        tall = page.x_height_pixels * 1.1
        small = [word.box for word in line if word.box[3] - word.box[1] < tall] or [word.box for word in line]
        middle = statistics.median((box[1] + box[3]) / 2 for box in small) * scale
        if page.degradation == "skew":  # the band in which the line begins
            first = line[0].box
            middle = ((first[1] + first[3]) / 2) * scale
        tokens.append(alphabet.row_token(middle + alphabet.ROW_PIXELS * missed(generator)))
        for word in line:
            tokens.append(
                alphabet.column_token(word.box[0] * scale + alphabet.COLUMN_PIXELS * missed(generator))
            )
            tokens.extend(alphabet.CHARACTER_ID[letter] for letter in word.text)
    return tokens


def missed(generator: np.random.Generator) -> int:
    return int(generator.choice([-1, 0, 1], p=[1 / 12, 5 / 6, 1 / 12]))


@pytest.mark.parametrize("part", CHOSEN)
def test_boxes_lie_on_the_words_of_held_out_pages(part: str) -> None:
    for page in held_out_pages(part):
        if page.file not in CHOSEN[part]:
            continue
        prepared = prepare(page.image(), MINI)
        lines = lines_of(read_tokens(page, prepared, 7), prepared)
        truth = [(word.text, word.box) for line in page.lines for word in line]
        found = [pair for line in lines for pair in zip(line.text.split(), line.word_boxes, strict=True)]
        ious = matched_ious(truth, found)
        assert len(ious) > 0.95 * len(truth)
        assert statistics.median(ious) >= 0.85, page.file
        assert sum(iou < 0.5 for iou in ious) <= 0.08 * len(ious), page.file


def test_a_page_without_ink_keeps_the_rough_boxes() -> None:
    lines = [RoughLine(40.0, ((20.0, 60.0), (70.0, 120.0))), RoughLine(70.0, ((20.0, 90.0),))]
    for tone in (0, 128, 255):
        boxes = word_boxes(np.full((96, 160), tone, np.uint8), lines)
        assert [[(left, right) for left, _, right, _ in row] for row in boxes] == [
            list(line.words) for line in lines
        ]
        assert boxes[0][0][1] == pytest.approx(40 - 1.02 * TARGET_X_HEIGHT_PIXELS)
        assert boxes[0][0][3] == pytest.approx(40 + 0.97 * TARGET_X_HEIGHT_PIXELS)


def test_no_lines_no_boxes() -> None:
    assert word_boxes(np.full((32, 32), 255, np.uint8), []) == []


def drawn(pitch: int, count: int = 6) -> tuple[np.ndarray, list[RoughLine], list[list[Box]]]:
    """Lines of words in Pillow's own font at `pitch` px, their rough places, and the boxes of their ink."""
    font = ImageFont.load_default(18.0)
    image = Image.new("L", (480, 64 + pitch * count), 250)
    canvas = ImageDraw.Draw(image)
    lines, inked = list[RoughLine](), list[list[Box]]()
    for index in range(count):
        baseline, x = 40 + index * pitch, 24.0
        words: list[tuple[float, float]] = []
        boxes: list[Box] = []
        for word in ("quiet", "harbour,", "nobody", "had", "jumped", "in."):
            ink = canvas.textbbox((x, baseline), word, font=font, anchor="ls")
            canvas.text((x, baseline), word, fill=10, font=font, anchor="ls")
            words.append((x + 3.0 * (-1) ** len(boxes), x + font.getlength(word) * 1.2))
            boxes.append((float(ink[0]), float(ink[1]), float(ink[2]), float(ink[3])))
            x += font.getlength(word + " ")
        lines.append(RoughLine(baseline - 4.7 + (5, -6, 0)[index % 3], tuple(words)))
        inked.append(boxes)
    return np.asarray(image), lines, inked


@pytest.mark.parametrize("pitch", [20, 24, 36])
def test_boxes_are_the_ink_even_where_lines_are_tight(pitch: int) -> None:
    pixels, lines, inked = drawn(pitch)
    boxes = word_boxes(pixels, lines)
    for row, truth in zip(boxes, inked, strict=True):
        assert np.abs(np.array(row) - np.array(truth)).max() <= (3.0 if pitch < 24 else 1.5)


def test_drawing_boxes_around_boxes_changes_nothing() -> None:
    pixels, lines, _ = drawn(24)
    once = word_boxes(pixels, lines)
    again = [
        replace(line, words=tuple((box[0], box[2]) for box in row))
        for line, row in zip(lines, once, strict=True)
    ]
    assert word_boxes(pixels, again) == once


def test_a_rule_and_a_picture_are_no_letters() -> None:
    pixels, lines, inked = drawn(36)
    spoilt = pixels.copy()
    spoilt[48:50, 10:460] = 0  # a rule under the first line
    spoilt[190:, 330:470] = 60  # a picture at the foot, beside the last lines
    boxes = word_boxes(spoilt, lines)
    assert np.abs(np.array(boxes[0]) - np.array(inked[0])).max() <= 1.5


def test_lines_that_touch_are_parted_between_them() -> None:
    pixels, lines, inked = drawn(20)
    touching = pixels.copy()
    column = int(inked[0][1][0])
    for top in (30, 70, 110):
        touching[top : top + 32, column : column + 2] = 10  # one mark through two lines
    boxes = word_boxes(touching, lines)
    for index, row in enumerate(boxes[:-1]):
        border = 40 - 4.7 + 20 * (index + 0.5)
        assert max(bottom for _, _, _, bottom in row) <= border
        assert min(top for _, top, _, _ in boxes[index + 1]) >= border - 2


def test_the_slope_of_a_skewed_page_is_found() -> None:
    pixels, _, _ = drawn(30, 12)
    image = Image.fromarray(pixels)
    for degrees in (-1.5, 0.0, 1.5):
        turned = np.asarray(image.rotate(-degrees, Image.Resampling.BICUBIC, fillcolor=250))
        assert page_slope(ink_marks(turned)) == pytest.approx(np.tan(np.radians(degrees)), abs=0.005)


words = st.tuples(st.floats(-20, 420), st.floats(1, 200)).map(lambda pair: (pair[0], pair[0] + pair[1]))
rough_lines = st.lists(
    st.builds(RoughLine, st.floats(-10, 280), st.lists(words, min_size=1, max_size=5).map(tuple)), max_size=8
)


@settings(max_examples=80)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["noise", "blobs", "text"]), rough_lines)
def test_on_any_page_boxes_stay_on_it_and_apart(seed: int, kind: str, lines: list[RoughLine]) -> None:
    generator = np.random.default_rng(seed)
    if kind == "text":
        pixels = drawn(20 + seed % 20)[0]
    else:
        pixels = generator.integers(0, 256, (256, 416), dtype=np.uint8)
        if kind == "blobs":
            pixels = np.kron(pixels[::8, ::8] // 128 * 255, np.ones((8, 8), np.uint8))
    height, width = pixels.shape
    boxes = word_boxes(pixels, lines)
    assert boxes == word_boxes(pixels, lines)
    assert [len(row) for row in boxes] == [len(line.words) for line in lines]
    for row in boxes:
        for left, top, right, bottom in row:
            assert 0 <= left <= right <= width
            assert 0 <= top <= bottom <= height
        for one, following in itertools.pairwise(row):
            assert one[2] <= max(following[0], one[0]) or following[0] <= one[0]


@settings(max_examples=30)
@given(st.lists(st.integers(0, alphabet.VOCABULARY - 1), max_size=60))
def test_any_tokens_give_boxes_and_the_same_text_with_or_without(tokens: list[int]) -> None:
    page = prepare(Image.fromarray(drawn(24)[0]), MINI)
    lines = lines_of(tokens, page)
    for line in lines:
        assert len(line.word_boxes) == len(line.text.split())
        assert all(0 <= box[0] <= box[2] <= page.source_width for box in line.word_boxes)
        assert all(0 <= box[1] <= box[3] <= page.source_height for box in line.word_boxes)
    assert text_of_lines(tokens).split() == [word for line in lines for word in line.text.split()]
