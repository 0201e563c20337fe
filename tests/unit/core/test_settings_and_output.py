"""Policy settings, limits, and the figures of a result."""

import pickle

import pytest

from fastocr_core.config import DecodePolicy, EngineLimits
from fastocr_core.output import mean_logprob, min_logprob_window


def test_policies_by_name() -> None:
    assert DecodePolicy.named("dense") == DecodePolicy.dense()
    assert DecodePolicy.named("fastocr") == DecodePolicy.fastocr()
    assert DecodePolicy.named("fastocr", kept_share=0.2).kept_share == 0.2
    assert DecodePolicy.fastocr().kept_share == 0.05
    assert DecodePolicy.dense().kept_share == 1.0
    assert pickle.loads(pickle.dumps(DecodePolicy.fastocr(0.3))) == DecodePolicy.fastocr(0.3)
    assert hash(DecodePolicy.fastocr(0.3)) == hash(DecodePolicy.fastocr(0.3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kept_share": 0.0}, "kept_share"),
        ({"kept_share": 1.5}, "kept_share"),
        ({"floor": 0}, "floor"),
        ({"warmup_steps": 0}, "warmup_steps"),
        ({"pooling": "median"}, "pooling"),
        ({"kept_shares": 0.1}, "kept_shares"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DecodePolicy.named("fastocr", **settings)


def test_unknown_policy_and_limits() -> None:
    with pytest.raises(ValueError, match="dense, fastocr"):
        DecodePolicy.named("faster")
    with pytest.raises(ValueError, match="token_budget"):
        EngineLimits(token_budget=0)
    with pytest.raises(ValueError, match="pages_ahead"):
        EngineLimits(pages_ahead=-1)


def test_logprob_figures() -> None:
    assert mean_logprob(()) == 0.0
    assert min_logprob_window((-1.0, -3.0), window=32) == -2.0
    values = tuple(-float(index % 5) for index in range(20))
    windows = [sum(values[start : start + 4]) / 4 for start in range(17)]
    assert min_logprob_window(values, window=4) == pytest.approx(min(windows))
