"""Reading order and word boxes."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastocr_core.scores.boxes import aligned, box_iou, matched_ious
from fastocr_core.scores.order import reading_order

LEFT = [f"left{index}" for index in range(40)]
RIGHT = [f"right{index}" for index in range(40)]
PAGE = " ".join(LEFT + RIGHT)
boxes = st.tuples(*(st.floats(-100, 100, allow_nan=False) for _ in range(4)))


def test_a_page_read_as_it_stands_is_in_order() -> None:
    order = reading_order(PAGE, PAGE.upper().replace(" ", " ,"))
    assert (order.found, order.in_order, order.least_found) == (1.0, 1.0, 1.0)
    assert order.kept


def test_columns_read_across_are_not_in_order() -> None:
    across = " ".join(word for pair in zip(LEFT, RIGHT, strict=True) for word in pair)
    assert reading_order(PAGE, across).in_order == pytest.approx(0.5, abs=0.02)
    assert not reading_order(PAGE, across).kept
    assert not reading_order(PAGE, " ".join(RIGHT + LEFT)).kept


def test_a_column_left_out_is_not_in_order() -> None:
    order = reading_order(PAGE, " ".join(LEFT))
    assert (order.in_order, order.least_found) == (1.0, 0.0)
    assert not order.kept


def test_misread_words_do_not_count_against_the_order() -> None:
    hand = random.Random(5)
    read = " ".join(word if hand.random() < 0.6 else word + "x" for word in LEFT + RIGHT)
    assert reading_order(PAGE, read).kept
    assert reading_order(PAGE, read).found < 0.75


def test_words_that_come_twice_say_nothing() -> None:
    assert not reading_order("the the", "the the").kept
    assert not reading_order("one two three four", "").kept
    assert reading_order("one the two the three four", "the one two three the four").kept


@given(st.lists(st.sampled_from("abcdefgh"), max_size=12), st.lists(st.sampled_from("abcdefgh"), max_size=12))
def test_shares_are_shares(reference: list[str], hypothesis: list[str]) -> None:
    order = reading_order(" ".join(reference), " ".join(hypothesis))
    assert 0 <= order.least_found <= order.found <= 1
    assert 0 <= order.in_order <= 1


def test_iou_of_boxes() -> None:
    assert box_iou((0, 0, 2, 2), (0, 0, 2, 2)) == 1.0
    assert box_iou((0, 0, 2, 2), (1, 0, 3, 2)) == pytest.approx(1 / 3)
    assert box_iou((0, 0, 2, 2), (2, 0, 3, 2)) == 0.0
    assert box_iou((1, 1, 1, 1), (1, 1, 1, 1)) == 0.0


@given(boxes, boxes)
def test_iou_is_a_symmetric_share(one: tuple[float, ...], other: tuple[float, ...]) -> None:
    value = box_iou(one, other)  # type: ignore[arg-type]
    assert 0 <= value <= 1 + 1e-9
    assert value == box_iou(other, one)  # type: ignore[arg-type]


def test_boxes_of_misread_words_are_not_judged() -> None:
    box, far = (0.0, 0.0, 2.0, 2.0), (50.0, 0.0, 60.0, 2.0)
    assert matched_ious([("a", box), ("b", box), ("c", box)], [("a", box), ("x", far), ("c", far)]) == [
        1.0,
        0.0,
    ]
    assert aligned("abcd", "xabyd") == [(0, 1), (1, 2), (3, 4)]
