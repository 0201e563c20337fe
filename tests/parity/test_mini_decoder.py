"""The untrained decoder of the embedded reader: three position axes and a text window in the same engine."""

from dataclasses import replace

import pytest
import torch

from fastocr_core import DecodePolicy, Engine, EngineLimits, PageText
from fastocr_core.bench.decode import noise_page
from fastocr_core.models.mini.adapter import MiniAdapter
from fastocr_core.models.mini.reader import MiniReader
from fastocr_core.vision.mini_view import MINI_VISION
from fastocr_core.vision.prepared import PreparedPage

PAGES = [noise_page(cells, MINI_VISION, cells) for cells in (24, 60, 12, 35, 48)]
LIMITS = EngineLimits(max_output_tokens=40)
POLICIES = [DecodePolicy.dense(), DecodePolicy.fastocr(0.1, floor=2, warmup_steps=3)]


@pytest.fixture(scope="module")
def model() -> MiniAdapter:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return MiniAdapter(MiniReader(), {"focal_layers": [2]}, "untrained")


def read(
    model: MiniAdapter, policy: DecodePolicy, backend: str, pages: list[PreparedPage], batch: int = 8
) -> list[PageText]:
    with Engine(model, policy, batch, LIMITS, backend) as engine:
        return list(engine.read(pages))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_backends_agree_and_company_does_not_matter(model: MiniAdapter, policy: DecodePolicy) -> None:
    together = read(model, policy, "gather", PAGES)
    for fast, reference in zip(together, read(model, policy, "masked", PAGES), strict=True):
        assert fast.error is None
        assert fast.tokens == reference.tokens
    for index in (0, 4):
        (alone,) = read(model, policy, "gather", [PAGES[index]])
        assert alone.tokens == together[index].tokens
        assert torch.equal(torch.tensor(alone.logprobs), torch.tensor(together[index].logprobs))


def test_everything_kept_is_dense(model: MiniAdapter) -> None:
    everything = replace(POLICIES[1], kept_share=1.0)
    dense, kept = (read(model, policy, "gather", PAGES) for policy in (POLICIES[0], everything))
    assert [page.tokens for page in kept] == [page.tokens for page in dense]
