"""Head and foot are cut off at their rules and nowhere else; what is cut follows without a hole and halves no letter."""

import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from fastocr_core.vision.head_and_foot import blocks_side_by_side, cut_at_rules
from fastocr_core.vision.mini_view import MINI_VISION, prepare_mini
from fastocr_core.vision.regions import Stretch

X_HEIGHT = 10.0
WHOLE = Stretch(-math.inf, -math.inf, math.inf, math.inf)


def _lines(*baselines: int, left: int = 100, right: int = 700) -> np.ndarray:
    """Letters of lines, float64 [N, 4]."""
    return np.array([(x, y - 10, x + 7, y) for y in baselines for x in range(left, right, 10)], float)


def _rule(y: int, left: int = 100, right: int = 700) -> np.ndarray:
    return np.array([(left, y - 1, right, y + 2)], float)


def _cuts(letters: np.ndarray, *rules: np.ndarray) -> list[float]:
    marks = np.concatenate([letters, *rules])
    pieces = cut_at_rules(WHOLE, marks, np.arange(len(marks)) < len(letters), X_HEIGHT)
    assert (pieces[0].top, pieces[-1].bottom) == (-math.inf, math.inf)
    assert all(one.bottom == other.top for one, other in itertools.pairwise(pieces))
    return [piece.bottom for piece in pieces[:-1]]


TEXT = tuple(range(150, 900, 24))


def test_a_head_and_a_foot_behind_rules_are_cut_off() -> None:
    letters = _lines(100, *TEXT, 930, 952)
    assert _cuts(letters, _rule(112), _rule(910)) == [112.5, 910.5]


def test_the_rule_above_a_head_and_the_one_below_a_foot_cut_nothing() -> None:
    letters = _lines(100, *TEXT, 930)
    assert _cuts(letters, _rule(70), _rule(112), _rule(910), _rule(950)) == [112.5, 910.5]


def test_rules_in_the_text_or_of_a_footnote_cut_nothing() -> None:
    letters = _lines(*TEXT, 930)
    assert _cuts(letters, _rule(500)) == []
    assert _cuts(letters, _rule(910, right=250)) == []


def test_the_last_row_of_a_table_is_no_foot() -> None:
    letters = _lines(*TEXT, 930)
    assert _cuts(letters, _rule(910)) == [910.5]  # one rule alone may set off a foot
    assert _cuts(letters, _rule(910), _rule(494), _rule(686)) == []


def test_ink_that_is_not_plainly_letters_is_not_cut_off() -> None:
    """A word whose letters touch, or that stands on its underline, is one wide mark; nobody knows what it says."""
    letters = _lines(100, *TEXT, 930)
    word_above, word_below = np.array([[300.0, 84, 520, 104]]), np.array([[300.0, 916, 520, 936]])
    assert _cuts(letters, _rule(112), _rule(910), word_above) == [910.5]
    assert _cuts(letters, _rule(112), _rule(910), word_below) == [112.5]


def _blocks(letters: np.ndarray, *others: np.ndarray) -> list[float]:
    marks = np.concatenate([letters, *others])
    pieces = blocks_side_by_side(WHOLE, marks, np.arange(len(marks)) < len(letters), X_HEIGHT)
    assert (pieces[0].left, pieces[-1].right) == (-math.inf, math.inf)
    assert all(one.right == other.left for one, other in itertools.pairwise(pieces))
    return [piece.right for piece in pieces[:-1]]


def test_blocks_of_a_foot_are_read_one_after_the_other() -> None:
    first, second = _lines(100, right=200), _lines(100, 124, 148, left=500)
    assert _blocks(np.concatenate([second, first])) == [(197 + 500) / 2]


def test_words_of_a_line_and_blocks_of_text_stay_together() -> None:
    assert _blocks(np.concatenate([_lines(100, right=200), _lines(100, left=230)])) == []
    assert _blocks(np.concatenate([_lines(*range(100, 300, 24), right=200), _lines(100, left=500)])) == []
    assert _blocks(np.zeros((0, 4))) == []


def test_rows_of_a_table_are_no_blocks() -> None:
    assert _blocks(np.concatenate([_lines(100, 124, right=200), _lines(100, 124, left=500)])) == []


def test_specks_are_no_blocks_of_their_own() -> None:
    specks = np.array([(500 + 90 * place, 96, 504 + 90 * place, 101) for place in range(4)], float)
    foot = np.concatenate([_lines(100, right=200), specks])
    assert _blocks(foot) == []


def test_a_foot_with_a_word_of_touching_letters_stays_whole() -> None:
    foot = np.concatenate([_lines(100, right=200), _lines(100, left=500)])
    assert len(_blocks(foot)) == 1
    assert _blocks(foot, np.array([[250.0, 84, 400, 104]])) == []


def test_a_struck_line_is_not_halved() -> None:
    assert _cuts(_lines(*TEXT), _rule(TEXT[0] - 5)) == []


def test_a_few_lines_between_rules_stay_together() -> None:
    assert _cuts(_lines(100, 124, 148, 172), _rule(106), _rule(154)) == []


boxes = st.lists(st.tuples(st.integers(0, 900), st.integers(0, 1500), st.integers(4, 30)), max_size=60)
rules = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 1500), st.integers(100, 900), st.integers(1, 12)),
    max_size=6,
)


@settings(max_examples=150)
@given(boxes, rules)
def test_pieces_follow_each_other_and_halve_no_letter(
    letters: list[tuple[int, int, int]], drawn: list[tuple[int, int, int, int]]
) -> None:
    words = np.array([(x, y, x + 7, y + high) for x, y, high in letters], float).reshape(-1, 4)
    lines = np.array([(x, y, x + wide, y + high) for x, y, wide, high in drawn], float).reshape(-1, 4)
    cuts = _cuts(words, lines)
    assert len(cuts) <= 2
    for cut in cuts:
        assert not ((words[:, 1] < cut) & (words[:, 3] > cut)).any()


def test_a_page_is_read_in_pieces_from_the_top_and_from_left_to_right() -> None:
    sheet = Image.new("L", (900, 1100), 245)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(18)
    pen.text((60, 40), "page 12", 20, font)
    pen.text((640, 36), "The Harbour", 20, ImageFont.load_default(26))
    pen.line((60, 76, 840, 76), 20, 2)
    for line in range(30):
        pen.text(
            (60, 110 + 28 * line), "the lamp was lit at dusk and burned all night without smoke", 20, font
        )
    pen.line((60, 970, 840, 970), 20, 2)
    pen.text((60, 980), "Second part", 20, font)
    prepared = prepare_mini(sheet, MINI_VISION, None)
    number, title, text, foot = prepared.parts
    assert number.transform[2] < 60 < 300 < title.transform[2]
    assert title.transform[5] < text.transform[5] < foot.transform[5]
    assert prepared.image_tokens == sum(part.image_tokens for part in prepared.parts)
    dark = [(part.views[0] < 120).any(axis=(1, 2)).nonzero()[0][[0, -1]] for part in prepared.parts]
    seen = [
        edge * part.transform[4] + part.transform[5] for part, edge in zip(prepared.parts, dark, strict=True)
    ]
    assert max(seen[0][1], seen[1][1]) < 90 < seen[2][0]  # the rule may be seen by both, letters by one
    assert seen[2][1] < 975 < seen[3][1]


def test_an_underlined_word_beside_the_page_number_is_seen() -> None:
    """Its letters touch the line below them, so that it is one mark; it was once cropped away."""
    sheet = Image.new("L", (900, 1100), 245)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(18)
    pen.text((60, 40), "page 12", 20, font)
    pen.text((500, 40), "Harbourtown News", 20, font)
    pen.line((495, 57, 660, 57), 20, 2)
    pen.line((60, 76, 840, 76), 20, 2)
    for line in range(30):
        pen.text(
            (60, 110 + 28 * line), "the lamp was lit at dusk and burned all night without smoke", 20, font
        )
    prepared = prepare_mini(sheet, MINI_VISION, None)
    spots = [(part.transform[2], part.transform[5], part) for part in (prepared.parts or (prepared,))]
    assert any(
        left < 495 and top < 40 and left + part.grid_columns * 32 * part.transform[0] > 660
        for left, top, part in spots
    )
