"""Of two readings of a doubted page the better one stands."""

from dataclasses import replace

import pytest

from fastocr_core.output import PageText
from tests.unit.workers.test_rows import TEXT
from workers.assess import Assessment
from workers.outcomes import Outcome, Reason
from workers.second_pass import second_stands

DOUBTED = Assessment(Outcome.FLAGGED, None, ("suspicious", "low_confidence"), wants_dense_pass=True)
SHORT = replace(DOUBTED, flags=("suspicious", "little_text"))
ENDLESS = replace(DOUBTED, reason=Reason.TOKEN_LIMIT, flags=("truncated",))
UNSURE = replace(TEXT, mean_logprob=-0.3)
SURE = replace(TEXT, mean_logprob=-0.1)
RUN_OFF = replace(SURE, finish_reason="length")


@pytest.mark.parametrize(
    ("first", "one", "second", "other", "stands"),
    [
        (SURE, DOUBTED, UNSURE, Assessment(Outcome.OK, None, ()), True),  # nothing is doubted about it
        (UNSURE, DOUBTED, SURE, DOUBTED, True),
        (SURE, DOUBTED, UNSURE, DOUBTED, False),
        (SURE, DOUBTED, SURE, DOUBTED, True),
        (
            UNSURE,
            DOUBTED,
            RUN_OFF,
            ENDLESS,
            False,
        ),  # a page of screens: one ended, one wrote 1.1.1.1 to the limit
        (RUN_OFF, ENDLESS, UNSURE, DOUBTED, True),
        (SURE, SHORT, UNSURE, DOUBTED, True),  # sure of itself, and most of the page not read
        (UNSURE, DOUBTED, SURE, SHORT, False),
    ],
)
def test_the_better_reading_stands(
    first: PageText, one: Assessment, second: PageText, other: Assessment, stands: bool
) -> None:
    assert second_stands(first, one, second, other) is stands
