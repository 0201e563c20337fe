"""What a study of fixation cannot mean is refused in one sentence, before a model is there."""

from typing import Any

import pytest

from fastocr_core.evaluation.fixation_settings import FixationSettings

HELD = " where pages are read with the pen held (forced_pages),"
LEFT_OUT = "the first 17 steps of each are not compared, attention is at every 8th"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"kept_shares": ()}, "kept_shares must name at least one share"),
        ({"kept_shares": (7.0,)}, "kept_shares must lie in (0, 1], not 7"),
        ({"kept_shares": (float("nan"),)}, "kept_shares must lie in (0, 1], not nan"),
        ({"kept_shares": (0.05, 0.1, 0.05)}, "kept_shares must not name 0.05 twice"),
        ({"groups": ("nonsense",)}, "unknown group 'nonsense'; known: choice, nominal, bytes"),
        ({"groups": ("bytes", "bytes")}, "groups must not name bytes twice"),
        ({"warmups": (0,)}, "warmups must be at least 1, not 0"),
        ({"focal_counts": (-1,)}, "focal_counts must be at least 1, not -1"),
        ({"page_focal_counts": (0,)}, "page_focal_counts must be at least 1, not 0"),
        ({"focal_sets": ((2, -4),)}, "focal layers are counted from 0, each once, not 2+-4"),
        ({"focal_sets": ((2, 2),)}, "focal layers are counted from 0, each once, not 2+2"),
        ({"baseline_pages": 0}, "baseline_pages must be at least 1, not 0"),
        ({"batch": 0}, "batch must be at least 1, not 0"),
        ({"max_output_tokens": 0}, "max_output_tokens must be at least 1, not 0"),
        ({"forced_pages": -1}, "forced_pages must be at least 0, not -1"),
        ({"forced_steps": -1}, "forced_steps must be at least 1, not -1"),
        ({"forced_steps": 23}, f"forced_steps must be at least 24{HELD} not 23: {LEFT_OUT}"),
        ({"max_output_tokens": 8}, f"max_output_tokens must be at least 24{HELD} not 8: {LEFT_OUT}"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=r"must|known|counted") as refused:
        FixationSettings(**settings)
    assert str(refused.value) == sentence


def test_nothing_of_a_kind_can_be_asked_for() -> None:
    FixationSettings(
        groups=(), warmups=(), focal_counts=(), page_focal_counts=(), forced_pages=0, forced_steps=1
    )
