"""A page reads the same, bit for bit: alone, in a mixed batch, and joining while others decode."""

import time

import pytest
import torch

from fastocr_core import DecodePolicy, Engine, PageText
from tests.parity.random_model import RandomAdapter, page_of

POLICIES = [DecodePolicy.dense(), DecodePolicy.fastocr(kept_share=0.1, warmup_steps=3)]
PAGES = [page_of(tokens, seed) for seed, tokens in enumerate((90, 17, 150, 1, 64, 33, 128, 71, 5, 100, 44))]


def assert_same(one: PageText, other: PageText) -> None:
    assert one.error is None
    assert one.tokens == other.tokens
    assert torch.equal(torch.tensor(one.logprobs), torch.tensor(other.logprobs))
    assert one.finish_reason == other.finish_reason
    assert one.image_kv_read_share == other.image_kv_read_share


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("max_batch", [8, 3])
@pytest.mark.parametrize("window", [None, 9])
def test_alone_and_in_a_batch(policy: DecodePolicy, max_batch: int, window: int | None) -> None:
    model = RandomAdapter(text_window=window, stop_ids=frozenset(range(6)))
    with Engine(model, policy, max_batch) as engine:
        together = list(engine.read(PAGES))
        assert len({len(page.tokens) for page in together}) > 1, "pages should end at different times"
        for page, expected in zip(PAGES, together, strict=True):
            (alone,) = engine.read([page])
            assert_same(alone, expected)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_joining_late(policy: DecodePolicy) -> None:
    model = RandomAdapter()
    with Engine(model, policy, max_batch=8) as engine:
        (alone,) = engine.read([PAGES[4]])
        before = engine.steps
        early = [engine.submit(page) for page in PAGES[:4]]
        while engine.steps < before + 10:
            time.sleep(0.001)
        late = engine.submit(PAGES[4])
        assert_same(late.result(), alone)
        assert all(future.result().finish_reason == "length" for future in early)
        assert engine.steps > before + 60, "the late page should have outlived the early ones"


def test_same_result_in_every_slot() -> None:
    model = RandomAdapter()
    with Engine(model, POLICIES[1], max_batch=8) as engine:
        results = list(engine.read([PAGES[0]] * 8))
    for result in results[1:]:
        assert_same(result, results[0])
