"""Baselines at equal bytes read as much as they should, step by step."""

import math

import pytest

from fastocr_core.config import DecodePolicy
from fastocr_core.decoding.h2o import HeavyHitterPolicy
from fastocr_core.evaluation.contenders import dynamic_share

IMAGE_TOKENS = 2000


@pytest.mark.parametrize("share", [0.02, 0.1, 0.2, 0.7, 0.97])
@pytest.mark.parametrize("outputs", [1, 5, 20, 120, 199, 200, 201, 400, 1500, 4000])
def test_dynamic_h2o_reads_the_bytes_that_were_asked_for(share: float, outputs: int) -> None:
    """Whether or not the page ends before the cache is down to k, and whether or not 2 k is more than the page has."""
    kept = dynamic_share(share, IMAGE_TOKENS, outputs)
    policy = DecodePolicy.named("h2o", variant="dynamic", kept_share=kept)
    heavy = HeavyHitterPolicy(1, policy, 1, 1)
    seen = [heavy.left_at(step, IMAGE_TOKENS) for step in range(1, outputs + 1)]
    assert sum(seen) / outputs == pytest.approx(share * IMAGE_TOKENS, abs=2.0)  # k is a whole number


def test_kept_share_of_dynamic_h2o_by_hand() -> None:
    wanted, outputs = 300, 199  # fewer outputs than k: twice k, less one more at every step
    assert dynamic_share(wanted / 2000, 2000, outputs) == pytest.approx((wanted + 100) / 2 / 2000, abs=1e-5)
    outputs = 1000  # k + k (k - 1) / (2 T)
    kept = -(outputs - 0.5) + math.sqrt((outputs - 0.5) ** 2 + 2 * outputs * wanted)
    assert dynamic_share(wanted / 2000, 2000, outputs) == pytest.approx(kept / 2000, abs=1e-4)
    assert dynamic_share(1.0, 2000, 100) == pytest.approx(
        (2000 + 100) / 2 / 2000, abs=1e-4
    )  # all, to the end
    assert 0 < dynamic_share(0.1, 2000, 0) < 0.1
