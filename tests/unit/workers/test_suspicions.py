"""What makes a text suspicious: letters of other scripts, text off the ink, too little or too much of it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastocr_core.confidence import Thresholds
from fastocr_core.output import Block
from tests.unit.workers.any_blocks import any_blocks
from tests.unit.workers.test_rows import PACKAGE, PREPARED, TEXT
from workers.assess import ReadingStandard, assess
from workers.ink_check import check_ink, off_ink_share
from workers.outcomes import Outcome
from workers.read_twice import read_twice_share
from workers.scripts import EAST_ASIAN, script_mix, script_of

PLAIN = "The harbour was closed for a week and no ship could leave before the ice had gone. " * 3
PRINTED = np.full((200, 400, 1), 255, np.uint8)
PRINTED[20:60, 20:380:5] = 0  # print in the upper half, paper below
PAGE = replace(
    PREPARED, views=(PRINTED,), transform=(2.0, 0.0, 0.0, 0.0, 2.0, 0.0), source_width=800, source_height=400
)


@pytest.mark.parametrize(
    ("text", "odd"),
    [
        (PLAIN, False),
        ("", False),
        ("1, 2, 3 ... 99 %", False),
        (PLAIN.replace("harbour", "hаrbour").replace("ship", "shіp"), True),  # Cyrillic а and і
        (PLAIN + "Он сказал Спутник на русском языке. ", False),  # a quotation
        (PLAIN + "5 元 6 元 7 元 8 元", True),
        (PLAIN + "\N{REPLACEMENT CHARACTER}" * 5, True),
        ("日本語の文章に Latin が混ざるのは普通です。" * 5, False),
        ("Свет в окне погас и ветер стих к утру совсем " * 3, False),
        (PLAIN + "α", False),
    ],
)
def test_mixed_scripts(text: str, odd: bool) -> None:
    assert script_mix(text).is_odd == odd


def test_scripts_of_letters() -> None:
    assert [script_of(letter) for letter in "aéßЖω漢か7 µº"] == [
        "LATIN", "LATIN", "LATIN", "CYRILLIC", "GREEK", EAST_ASIAN, EAST_ASIAN, None, None, None, None
    ]  # fmt: skip


@given(st.text())
def test_any_text_is_looked_through(text: str) -> None:
    mix = script_mix(text)
    assert 0 <= mix.strays <= mix.words


def _block(top: float, bottom: float, text: str = "words that are printed here") -> Block:
    return Block("line", (40.0, top, 760.0, bottom), text)


def test_text_must_stand_where_something_is_printed() -> None:
    on, off = _block(40, 120), _block(300, 380)
    assert off_ink_share(replace(TEXT, blocks=(on,)), PAGE) == 0.0
    assert off_ink_share(replace(TEXT, blocks=(off,)), PAGE) == 1.0
    assert off_ink_share(replace(TEXT, blocks=(on, off)), PAGE) == pytest.approx(0.5)
    assert off_ink_share(replace(TEXT, blocks=(_block(40, 120, "x" * 200), off)), PAGE) < 0.2
    assert off_ink_share(replace(TEXT, blocks=(_block(900, 990),)), PAGE) == 1.0
    assert off_ink_share(replace(TEXT, blocks=(Block("text", None, "no box"),)), PAGE) == 0.0


def test_text_far_from_the_amount_of_ink_is_noticed() -> None:
    reading = replace(TEXT, text="x" * 300)
    assert check_ink(reading, PAGE, 2000).little_text
    assert not check_ink(reading, PAGE, 1000).little_text
    assert not check_ink(replace(TEXT, text="5"), PAGE, 100).little_text
    made_up = replace(TEXT, text="It is a truth universally acknowledged, " * 40)
    assert check_ink(made_up, replace(PAGE, ink_share=0.0001), 6).much_text
    assert not check_ink(made_up, PAGE, 6).much_text  # there is ink: joined-up handwriting has few marks
    assert not check_ink(made_up, replace(PAGE, ink_share=0.0001), 800).much_text


LINES = tuple(_block(top, top + 20, f"line {top} of the print") for top in range(0, 400, 20))


def _steps(top: float) -> tuple[tuple[float, float, float, float], ...]:
    return tuple((x, top + x / 15, x + 120, top + x / 15 + 22) for x in (40.0, 180.0, 320.0, 460.0))


def test_lines_read_again_from_the_same_place_are_noticed() -> None:
    assert read_twice_share(replace(TEXT, blocks=LINES)) == 0.0
    assert read_twice_share(replace(TEXT, blocks=LINES + LINES)) == pytest.approx(0.5)
    moved = tuple(_block(top + 3, top + 24, f"Line {top}, of the Print!") for top in range(0, 400, 20))
    assert read_twice_share(replace(TEXT, blocks=LINES + moved)) == pytest.approx(0.5)
    page = replace(TEXT, text=PLAIN * 2, blocks=LINES + LINES[:8])
    verdict = assess(
        page, replace(PACKAGE, prepared=replace(PAGE, views=(np.tile(PRINTED[20:60], (5, 1, 1)),)))
    )
    assert verdict.flags == ("suspicious", "read_twice")
    assert verdict.wants_dense_pass


def test_what_says_the_same_in_another_place_was_not_read_twice() -> None:
    form = tuple(_block(top, top + 20, "Name of the applicant") for top in range(0, 400, 20))
    assert read_twice_share(replace(TEXT, blocks=form)) == 0.0
    assert read_twice_share(replace(TEXT, blocks=(Block("text", None, "no place told"),) * 2)) == 0.0
    assert read_twice_share(replace(TEXT, blocks=(_block(0, 20, "12"), _block(0, 20, "12")))) == 0.0
    askew = tuple(  # lines of a page that is not straight: their boxes overlap, those of their words do not
        Block("line", (40.0, top, 760.0, top + 70), "one line like another", _steps(top))
        for top in (0.0, 20.0, 40.0)
    )
    assert read_twice_share(replace(TEXT, blocks=askew)) == 0.0
    assert read_twice_share(replace(TEXT, blocks=askew + askew)) == pytest.approx(0.5)
    thin = Block("text", (0.0, 0.0, 1e-170, 1e-170), "the same words")
    assert read_twice_share(replace(TEXT, blocks=(thin, thin))) == 0.0
    other = (
        _block(0, 20, "Name of the applicant"),
        Block("line", (760.0, 0.0, 900.0, 20.0), "Name of the applicant"),
    )
    assert read_twice_share(replace(TEXT, blocks=other)) == 0.0


@given(any_blocks("a line of print", "another line of print"))
def test_any_blocks_are_compared(blocks: list[Block]) -> None:
    once = read_twice_share(replace(TEXT, blocks=tuple(blocks)))
    assert 0.0 <= once < 1.0 or not blocks


def test_suspicions_are_flags_with_their_reasons_and_ask_for_a_dense_pass() -> None:
    package = replace(PACKAGE, prepared=PAGE, letters=2000)
    reading = replace(TEXT, text=PLAIN, blocks=(_block(300, 380, PLAIN),))
    verdict = assess(reading, package)
    assert (verdict.outcome, verdict.reason) == (Outcome.FLAGGED, None)
    assert verdict.flags == ("suspicious", "off_ink", "little_text")
    assert verdict.wants_dense_pass
    assert assess(reading, package, ReadingStandard(whole_page=False)).flags == ("suspicious", "off_ink")
    toy = ReadingStandard(Thresholds(0.0, 0.0), makes_sense=False)
    assert assess(reading, package, toy).outcome is Outcome.OK


def test_the_limits_of_confidence_come_with_the_model() -> None:
    unsure = replace(TEXT, mean_logprob=-0.5, min_logprob_window=-1.0)
    assert assess(unsure, PACKAGE).outcome is Outcome.OK
    strict = ReadingStandard(Thresholds(-0.3, -2.0))
    assert assess(unsure, PACKAGE, strict).flags == ("suspicious", "low_confidence")
    steady = ReadingStandard(Thresholds(-0.7, -0.8))
    assert assess(unsure, PACKAGE, steady).flags == ("suspicious", "unsteady")
