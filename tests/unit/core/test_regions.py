"""Columns are found by their letters alone: in made pages of boxes, at any skew, and never in tables or one column."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastocr_core.vision.gaps import cut_at_gaps
from fastocr_core.vision.regions import Boxes, Stretch, skew_of, split_columns

X_HEIGHT = 10.0


def column(left: int, right: int, top: int, lines: int, seed: int, pitch: int = 22) -> Boxes:
    """Letters of lines of words, ragged at the right."""
    generator = np.random.default_rng(seed)
    boxes: list[tuple[int, int, int, int]] = []
    for line in range(lines):
        foot, x, end = top + line * pitch + 14, left, right - int(generator.integers(0, 30))
        while x < end - 40:
            for _ in range(int(generator.integers(2, 8))):
                rise = int(generator.choice([10, 10, 10, 14]))
                boxes.append((x, foot - rise, x + 6, foot))
                x += 8
            x += 5
    return np.array(boxes)


def turned(boxes: Boxes, degrees: float) -> Boxes:
    """The boxes on a page turned clockwise around its corner."""
    angle = math.radians(degrees)
    x, y = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
    across = (x * math.cos(angle) - y * math.sin(angle) - x).round().astype(int)
    down = (x * math.sin(angle) + y * math.cos(angle) - y).round().astype(int)
    return boxes + np.stack([across, down, across, down], axis=1)


def two_columns(seed: int = 0, gutter: int = 24, lines: int = 20) -> Boxes:
    return np.concatenate(
        [column(100, 400, 100, lines, seed), column(400 + gutter, 700 + gutter, 100, lines, seed + 1)]
    )


def test_two_columns_below_a_title() -> None:
    title = column(100, 720, 40, 1, 9)
    split = split_columns(np.concatenate([title, two_columns()]), X_HEIGHT)
    assert split is not None
    assert len(split.stretches) == 3
    head, first, second = split.stretches
    assert (head.left, head.right) == (-math.inf, math.inf)
    assert head.bottom <= 104
    assert 390 <= first.right == second.left <= 430


def test_three_columns_read_from_left_to_right_and_the_last_may_end_early() -> None:
    page = np.concatenate(
        [column(50, 300, 80, 25, 1), column(330, 580, 91, 25, 2), column(610, 860, 80, 6, 3)]
    )
    split = split_columns(page, X_HEIGHT)
    assert split is not None
    assert [round(part.left) for part in split.stretches[1:]] == [
        round(part.right) for part in split.stretches[:-1]
    ]
    assert len(split.stretches) == 3


def test_columns_of_two_articles_one_below_the_other() -> None:
    upper, between = two_columns(3, lines=12), column(100, 720, 400, 2, 7)
    lower = two_columns(5, lines=12) + np.array([0, 380, 0, 380])
    split = split_columns(np.concatenate([upper, between, lower]), X_HEIGHT)
    assert split is not None
    assert len(split.stretches) == 5


@pytest.mark.parametrize("degrees", [-1.5, -0.7, 0.4, 1.2, 1.8])
def test_a_skewed_page_falls_into_the_same_columns(degrees: float) -> None:
    page = turned(two_columns(gutter=26, lines=30), degrees)
    assert abs(skew_of(page, X_HEIGHT) - degrees) <= 0.3
    split = split_columns(page, X_HEIGHT)
    assert split is not None
    owners = split.owner(page)
    first = len(column(100, 400, 100, 30, 0))
    assert (owners[:first] == 0).mean() > 0.99
    assert (owners[first:] == 1).mean() > 0.99


def test_one_column_is_no_columns() -> None:
    for seed in range(12):
        assert split_columns(column(60, 760, 60, 40, seed), X_HEIGHT) is None


def test_tables_lists_of_codes_and_labels_beside_a_text_stay_whole() -> None:
    figures = np.concatenate([column(left, left + 90, 100, 20, left) for left in (100, 300, 500)])
    codes = np.concatenate([column(100, 170, 100, 20, 1), column(260, 700, 100, 20, 2)])
    labels = np.concatenate(
        [column(100, 260, 100 + 200 * section, 3, section) for section in range(4)]
        + [column(300, 760, 100 + 200 * section, 8, 10 + section) for section in range(4)]
    )
    for page in (figures, codes, labels):
        assert split_columns(page, X_HEIGHT) is None


def listing(left: int, right: int, top: int, items: int, seed: int) -> Boxes:
    """Items of four lines behind a hanging mark."""
    marks = [(left + 8 * place, top + 88 * item + 4, left + 8 * place + 6, top + 88 * item + 14)
             for item in range(items) for place in range(2)]  # fmt: skip
    return np.concatenate([np.array(marks), column(left + 40, right, top, 4 * items, seed)])


@pytest.mark.parametrize("side", ["left", "right", "both"])
def test_columns_of_lists_are_cut_apart_and_each_mark_stays_with_its_item(side: str) -> None:
    first = (column if side == "right" else listing)(100, 400, 100, 20 if side == "right" else 5, 1)
    second = (column if side == "left" else listing)(430, 730, 100, 20 if side == "left" else 5, 2)
    page = np.concatenate([first, second])
    split = split_columns(page, X_HEIGHT)
    assert split is not None
    assert split.owner(page).tolist() == [0] * len(first) + [1] * len(second)


def test_marks_before_every_line_and_lists_beside_side_heads_are_read_across() -> None:
    numbers = [
        (x, 104 + 22 * line, x + 6, 114 + 22 * line) for line in range(20) for x in (100, 108, 430, 438)
    ]
    table = np.concatenate([np.array(numbers), column(140, 400, 100, 20, 1), column(470, 730, 100, 20, 2)])
    tops = (100, 276, 452)
    heads = np.concatenate([column(60, 240, top, 4, top) for top in tops])
    lists = np.concatenate([listing(300, 700, top, 2, top + 1) for top in tops])
    for page in (table, np.concatenate([heads, lists])):
        assert split_columns(page, X_HEIGHT) is None


def test_a_rule_across_the_page_ends_its_columns_and_the_rules_of_a_table_do_not() -> None:
    upper, head = two_columns(3, lines=12), column(100, 300, 400, 1, 7)
    page = np.concatenate([upper, head, two_columns(5, lines=12) + np.array([0, 380, 0, 380])])
    rule = np.array([[100, 390, 724, 392]])
    split = split_columns(page, X_HEIGHT, rule)
    assert split is not None
    owners = split.owner(page)
    assert owners[: len(upper)].max() < owners[len(upper)] < owners[len(upper) + len(head) :].max()
    whole = split_columns(page, X_HEIGHT)
    assert whole is not None
    assert len(whole.stretches) == 2
    assert (
        split_columns(page, X_HEIGHT, rule + 100 * np.arange(5)[:, None] * np.array([[0, 1, 0, 1]])) == whole
    )


def test_a_running_head_and_foot_are_no_column() -> None:
    entries = column(60, 560, 120, 40, 4)
    page = np.concatenate([column(600, 720, 40, 1, 5), entries, column(600, 740, 1060, 2, 6)])
    assert split_columns(page, X_HEIGHT) is None


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900), st.integers(1, 30), st.integers(1, 30)), max_size=150),
    st.integers(0, 3),
)  # fmt: skip
def test_every_letter_belongs_to_one_stretch(noise: list[tuple[int, int, int, int]], columns: int) -> None:
    """Whatever stands on the page besides: nothing is lost and nothing is read twice."""
    made = [column(100 + 320 * index, 380 + 320 * index, 100, 15, index) for index in range(columns)]
    specks = np.array([(x, y, x + w, y + h) for x, y, w, h in noise], np.int64).reshape(-1, 4)
    page = np.concatenate([*made, specks])
    split = split_columns(page, X_HEIGHT)
    if split is not None:
        owners = split.owner(page)
        assert (owners >= 0).all()
        assert _disjoint(split.stretches)


def _disjoint(stretches: tuple[Stretch, ...]) -> bool:
    return not any(
        one.left < other.right
        and other.left < one.right
        and one.top < other.bottom
        and other.top < one.bottom
        for index, one in enumerate(stretches)
        for other in stretches[index + 1 :]
    )


def test_an_empty_page() -> None:
    assert split_columns(np.zeros((0, 4), np.int64), X_HEIGHT) is None


def _stretch() -> Stretch:
    return Stretch(-math.inf, -math.inf, math.inf, math.inf)


def test_a_foot_far_below_the_text_is_a_piece_of_its_own() -> None:
    text, foot = column(100, 700, 80, 10, 1), column(100, 300, 900, 1, 2)
    page = np.concatenate([text, foot]).astype(float)
    above, below = cut_at_gaps(_stretch(), page, X_HEIGHT)
    assert 310 < above.bottom == below.top < 900
    assert (above.top, below.bottom) == (-math.inf, math.inf)


def test_paragraphs_and_specks_make_no_pieces() -> None:
    text = np.concatenate([column(100, 700, 80, 5, 1), column(100, 700, 280, 5, 2)])
    specks = np.array([[400, 700, 404, 705], [200, 990, 206, 995]])
    assert len(cut_at_gaps(_stretch(), np.concatenate([text, specks]).astype(float), X_HEIGHT)) == 1
    number = np.array([[400, 900, 407, 914]])  # a page number of one figure
    assert len(cut_at_gaps(_stretch(), np.concatenate([text, specks, number]).astype(float), X_HEIGHT)) == 2


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 900), st.integers(0, 3000), st.integers(1, 30)), max_size=40))
def test_pieces_follow_each_other_without_a_hole(letters: list[tuple[int, int, int]]) -> None:
    boxes = np.array([(x, y, x + 7, y + high) for x, y, high in letters], float).reshape(-1, 4)
    pieces = cut_at_gaps(_stretch(), boxes, X_HEIGHT)
    assert (pieces[0].top, pieces[-1].bottom) == (-math.inf, math.inf)
    assert all(one.bottom == other.top for one, other in itertools.pairwise(pieces))
    for _, top, _, bottom in boxes:
        assert any(piece.top <= (top + bottom) / 2 < piece.bottom for piece in pieces)
        assert all(not top < piece.top < bottom for piece in pieces)
