"""The gather backend against the masked reference, and sparse decoding with everything kept against dense."""

from dataclasses import replace

import pytest

from fastocr_core import DecodePolicy, Engine, PageText, load
from fastocr_core.attention.gather import GatherAttention
from fastocr_core.config import POOLINGS
from fastocr_core.models.base import ModelAdapter
from fastocr_core.vision.prepared import PreparedPage
from tests.parity.random_model import RandomAdapter, page_of

PAGES = [page_of(tokens, seed) for seed, tokens in enumerate((90, 17, 150, 1, 64, 33))]
SPARSE = DecodePolicy.fastocr(kept_share=0.1, warmup_steps=3)


def read(
    model: ModelAdapter, policy: DecodePolicy, backend: str, pages: list[PreparedPage] | None = None
) -> list[PageText]:
    with Engine(model, policy, max_batch=4, backend=backend) as engine:
        return list(engine.read(pages or PAGES))


@pytest.mark.parametrize(
    "policy",
    [
        DecodePolicy.dense(),
        *(replace(SPARSE, pooling=pooling) for pooling in POOLINGS),
        replace(SPARSE, reuse=False),
        replace(SPARSE, focal_layers=(0,)),
        replace(SPARSE, focal_layers=(4,)),
    ],
    ids=lambda policy: f"{policy.name}-{policy.pooling}-{policy.reuse}-{policy.focal_layers}",
)
def test_gather_equals_masked_reference(policy: DecodePolicy) -> None:
    model = RandomAdapter()
    for fast, reference in zip(read(model, policy, "gather"), read(model, policy, "masked"), strict=True):
        assert fast.tokens == reference.tokens
        assert fast.logprobs == pytest.approx(reference.logprobs, abs=1e-4)
        assert fast.image_kv_read_share == reference.image_kv_read_share


def test_sparse_decoding_changes_something() -> None:
    model = RandomAdapter()
    dense, sparse = read(model, DecodePolicy.dense(), "gather"), read(model, SPARSE, "gather")
    assert [page.tokens for page in dense] != [page.tokens for page in sparse]


@pytest.mark.parametrize("window", [None, 7])
def test_everything_kept_is_dense_token_for_token(window: int | None) -> None:
    model = RandomAdapter(text_window=window)
    dense = read(model, DecodePolicy.dense(), "gather")
    with Engine(model, DecodePolicy.fastocr(kept_share=1.0, warmup_steps=1), max_batch=4) as engine:
        kept = list(engine.read(PAGES))
        assert isinstance(engine.backend, GatherAttention)
        # Three of five layers are sparse, two kv heads, 59 fed tokens of which one is warm-up.
        assert engine.backend.gathered_rows == 3 * 2 * 58 * sum(page.image_tokens for page in PAGES)
    for one, other in zip(dense, kept, strict=True):
        assert one.tokens == other.tokens
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
        assert other.image_kv_read_share == 1.0


def test_toy_model_agrees_across_backends() -> None:
    model = load("tiny", device="cpu")
    pages = [
        replace(page_of(4), views=(page_of(4, seed).views[0].repeat(4, 0).repeat(4, 1),)) for seed in range(5)
    ]
    policy = DecodePolicy.fastocr(kept_share=0.3, floor=1, warmup_steps=2)
    fast, reference = read(model, policy, "gather", pages), read(model, policy, "masked", pages)
    assert [page.tokens for page in fast] == [page.tokens for page in reference]
    assert all(page.error is None for page in fast)
