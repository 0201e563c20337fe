"""Kept sets of the eviction baselines against independent definitions, on random attention maps."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fastocr_core.config import DecodePolicy
from fastocr_core.decoding.eviction import EvictionPolicy
from fastocr_core.decoding.fastv import FastVPolicy
from fastocr_core.decoding.h2o import HeavyHitterPolicy
from fastocr_core.decoding.pyramidkv import PyramidKvPolicy
from fastocr_core.decoding.snapkv import SnapKvPolicy
from fastocr_core.decoding.visionzip import VisionZipPolicy, merged
from fastocr_core.models.base import ImageEncoding, PromptLayout
from tests.support.attention_maps import (
    RandomPrompt,
    assert_strongest,
    random_prompt,
    snapkv_votes,
    visionzip_tokens,
)

SLOTS, SLOT = 3, 1
PROMPTS = st.builds(
    random_prompt,
    rows=st.integers(1, 6),
    columns=st.integers(1, 7),
    before=st.integers(0, 3),
    after=st.integers(1, 6),
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    seed=st.integers(0, 2**16),
)
SHARES = st.sampled_from([0.02, 0.1, 0.3, 0.7, 1.0])
FLOORS = st.integers(1, 5)


def prefilled(policy: EvictionPolicy, prompts: list[RandomPrompt], cuts: tuple[int, ...] = ()) -> None:
    """Lead a page with one random prompt per layer through `policy`, in chunks that end at `cuts`."""
    first = prompts[0]
    policy.admit(SLOT, first.image_tokens, first.grid)
    ends = sorted({*(cut for cut in cuts if cut < first.entries), first.entries})
    for start, end in zip([0, *ends], ends, strict=False):
        for layer, prompt in enumerate(prompts):
            if policy.observes_prefill(layer):
                policy.take_prefill(layer, SLOT, prompt.view(start, end))
    policy.admitted(SLOT)


def kept_set(policy: EvictionPolicy, layer: int) -> torch.Tensor:
    """The set of the page; its neighbours must be empty."""
    sets = policy.selection(layer).sets
    assert sets[0] is None
    assert sets[2] is None
    chosen = sets[SLOT]
    assert chosen is not None
    assert policy.selection(layer) is policy.selection(layer)
    return chosen


def expected_budget(share: float, floor: int, image_tokens: int) -> int:
    exact = Fraction(str(share)) * image_tokens
    return min(image_tokens, max(math.ceil(exact), floor))


def layers_of(prompt: RandomPrompt, count: int) -> list[RandomPrompt]:
    """The prompt, and others of its shape for the layers after it."""
    heads, group = len(prompt.keys), len(prompt.query) // len(prompt.keys)
    return [prompt] + [
        random_prompt(prompt.rows, prompt.columns, prompt.before, prompt.after, heads, group, 7000 + layer)
        for layer in range(1, count)
    ]


@settings(max_examples=60)
@given(PROMPTS, SHARES, FLOORS, st.sampled_from([1, 4, 32]), st.sampled_from([1, 3, 5]), st.booleans())
def test_snapkv(
    prompt: RandomPrompt, share: float, floor: int, window: int, kernel: int, on_grid: bool
) -> None:
    policy_settings = DecodePolicy.named(
        "snapkv", kept_share=share, window=window, kernel=kernel, variant="2d" if on_grid else "1d"
    )
    policy = SnapKvPolicy(SLOTS, policy_settings, floor, 2)
    prompts = layers_of(prompt, 2)
    prefilled(policy, prompts)
    kept = expected_budget(share, floor, prompt.image_tokens)
    for layer, each in enumerate(prompts):
        assert_strongest(kept_set(policy, layer), snapkv_votes(each, window, kernel, on_grid), kept)
    assert policy.resident_share(SLOT) == pytest.approx(kept / prompt.image_tokens)


@settings(max_examples=60)
@given(PROMPTS, SHARES, FLOORS)
def test_static_h2o(prompt: RandomPrompt, share: float, floor: int) -> None:
    policy = HeavyHitterPolicy(SLOTS, DecodePolicy.named("h2o", kept_share=share), floor, 1)
    prefilled(policy, [prompt])
    votes = prompt.image_attention().sum(2).mean(1)
    assert_strongest(kept_set(policy, 0), votes, expected_budget(share, floor, prompt.image_tokens))


@settings(max_examples=60)
@given(PROMPTS, SHARES, FLOORS, st.integers(0, 2**16))
def test_dynamic_h2o(prompt: RandomPrompt, share: float, floor: int, seed: int) -> None:
    """Step by step against a simulation that keeps a score for every token and zeroes what it evicts."""
    policy = HeavyHitterPolicy(
        SLOTS, DecodePolicy.named("h2o", kept_share=share, variant="dynamic"), floor, 1
    )
    prefilled(policy, [prompt])
    heavy = expected_budget(share, floor, prompt.image_tokens)
    votes = prompt.image_attention().sum(2).mean(1)
    kv_heads, group = len(prompt.keys), len(prompt.query) // len(prompt.keys)
    random = np.random.default_rng(seed)
    for step in range(heavy + 3):
        left = min(prompt.image_tokens, max(heavy, 2 * heavy - step))
        if step:
            policy.before_step([SLOT])
        chosen = kept_set(policy, 0)
        assert_strongest(chosen, votes, left)
        gone = np.ones_like(votes, dtype=bool)
        for head in range(kv_heads):
            gone[head, chosen[head].numpy()] = False
        votes[gone] = 0.0  # for ever: a new row gives them nothing
        row = random.dirichlet(np.ones(left + 1), (kv_heads, group))[..., :left]
        assert policy.wants_scores(0, SLOT) == (step < heavy)
        if policy.wants_scores(0, SLOT):
            policy.take_scores(0, SLOT, torch.from_numpy(row).float())
            for head in range(kv_heads):
                votes[head, chosen[head].numpy()] += row[head].mean(0)


@settings(max_examples=60)
@given(PROMPTS, SHARES, FLOORS, st.integers(1, 4))
def test_fastv(prompt: RandomPrompt, share: float, floor: int, prune_layer: int) -> None:
    layers = 4
    policy_settings = DecodePolicy.named("fastv", kept_share=share, prune_layer=prune_layer)
    policy = FastVPolicy(SLOTS, policy_settings, floor, layers)
    assert policy.needs_whole_prompt
    prompts = layers_of(prompt, layers)
    policy.admit(SLOT, prompt.image_tokens, prompt.grid)
    kept = expected_budget(share, floor, prompt.image_tokens)
    ranking = prompts[prune_layer - 1].attention()[:, -1].mean(0)
    votes = ranking[prompt.before : prompt.before + prompt.image_tokens]
    for layer in range(layers):
        visible = policy.prefill_visible(layer, SLOT)
        if layer < prune_layer:
            assert visible is None
        else:
            assert visible is not None
            assert_strongest(visible.nonzero()[:, 0][None], votes[None], kept)
        if policy.observes_prefill(layer):
            policy.take_prefill(layer, SLOT, prompts[layer].view())
    policy.admitted(SLOT)
    for layer in range(layers):
        if layer < prune_layer:
            assert policy.selection(layer).sets[SLOT] is None
        else:
            assert_strongest(kept_set(policy, layer), np.stack([votes] * len(prompt.keys)), kept)
    expected = (prune_layer + (layers - prune_layer) * kept / prompt.image_tokens) / layers
    assert policy.resident_share(SLOT) == pytest.approx(expected)
    policy.release(SLOT)
    assert policy.prefill_visible(3, SLOT) is None


@settings(max_examples=60)
@given(PROMPTS, SHARES, FLOORS, st.booleans(), st.integers(1, 6))
def test_pyramidkv(prompt: RandomPrompt, share: float, floor: int, inverted: bool, layers: int) -> None:
    variant = "inverted" if inverted else "pyramid"
    policy_settings = DecodePolicy.named("pyramidkv", kept_share=share, variant=variant)
    policy = PyramidKvPolicy(SLOTS, policy_settings, floor, layers)
    prompts = layers_of(prompt, layers)
    prefilled(policy, prompts)
    mean, count = expected_budget(share, floor, prompt.image_tokens), prompt.image_tokens
    sizes = []
    for layer, each in enumerate(prompts):
        depth = layers - 1 - layer if inverted else layer
        size = Fraction(mean)
        if count >= 2 * mean and layers > 1:
            top, bottom = Fraction(mean, 20), 2 * mean - Fraction(mean, 20)
            size = bottom - depth * (bottom - top) / (layers - 1)
        chosen = kept_set(policy, layer)
        assert abs(chosen.shape[1] - max(size, 1)) <= 0.5
        assert_strongest(chosen, snapkv_votes(each, 32, 5, False), chosen.shape[1])
        sizes.append(chosen.shape[1])
    assert sizes == sorted(sizes, reverse=not inverted)
    assert abs(sum(sizes) - mean * layers) <= layers


@settings(max_examples=40)
@given(PROMPTS, st.sampled_from(["snapkv", "h2o", "pyramidkv"]), st.lists(st.integers(1, 40), max_size=3))
def test_a_prompt_in_chunks_gives_the_same_sets(prompt: RandomPrompt, name: str, cuts: list[int]) -> None:
    kinds: dict[str, Any] = {
        "snapkv": SnapKvPolicy, "h2o": HeavyHitterPolicy, "pyramidkv": PyramidKvPolicy,
    }  # fmt: skip
    whole, cut = (kinds[name](SLOTS, DecodePolicy.named(name, kept_share=0.3), 2, 1) for _ in range(2))
    prefilled(whole, [prompt])
    prefilled(cut, [prompt], tuple(cuts))
    votes = whole.settled(whole.held(SLOT).votes[0], whole.held(SLOT)).double().numpy()
    assert_strongest(kept_set(cut, 0), votes, kept_set(whole, 0).shape[1])


@settings(max_examples=60)
@given(
    count=st.integers(1, 40),
    share=SHARES,
    floor=FLOORS,
    contextual_share=st.sampled_from([0.0, 0.15625, 0.5]),
    by_norm=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_visionzip(
    count: int, share: float, floor: int, contextual_share: float, by_norm: bool, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    embeddings, keys = (torch.randn(count, size, generator=generator).double() for size in (6, 4))
    received = torch.rand(count, generator=generator).double()
    encoding = ImageEncoding(embeddings) if by_norm else ImageEncoding(embeddings, received, keys)
    policy_settings = DecodePolicy.named(
        "visionzip", kept_share=share, contextual_share=contextual_share, variant="norm" if by_norm else ""
    )
    policy = VisionZipPolicy(SLOTS, policy_settings, floor, "some model")
    positions = torch.arange(count + 5)[None].repeat(3, 1) * torch.tensor([[1], [2], [3]])
    image, layout = policy.compress(encoding, PromptLayout((9, 8, 7, 6, 5), 2, count, positions))
    kept = expected_budget(share, floor, count)
    contextual = min(kept - 1, round(kept * contextual_share))
    scores, directions = (embeddings.norm(dim=1), embeddings) if by_norm else (received, keys)
    expected = visionzip_tokens(
        embeddings.numpy(), scores.numpy(), directions.numpy(), kept - contextual, contextual
    )
    tokens = sorted(expected)
    assert len(tokens) == min(kept, count) == layout.image_tokens == len(image)
    assert np.allclose(image.numpy(), np.stack([expected[token] for token in tokens]), atol=1e-5)
    columns = [0, 1, *(2 + token for token in tokens), *range(count + 2, count + 5)]
    assert torch.equal(layout.positions, positions[:, columns])
    assert layout.ids == (9, 8, 7, 6, 5)


def test_visionzip_needs_a_tower_with_attention() -> None:
    policy = VisionZipPolicy(1, DecodePolicy.named("visionzip"), 1, "mini")
    layout = PromptLayout((1,), 0, 4, torch.arange(5)[None])
    with pytest.raises(ValueError, match="visionzip does not apply to mini"):
        policy.compress(ImageEncoding(torch.rand(4, 2)), layout)


def test_contextual_tokens_without_any_joining() -> None:
    embeddings = torch.eye(3)
    image, tokens = merged(embeddings, torch.tensor([3.0, 2.0, 1.0]), embeddings, 2, 1)
    assert tokens.tolist() == [0, 1, 2]
    assert torch.equal(image, embeddings)


def test_fastv_needs_a_layer_to_prune() -> None:
    with pytest.raises(ValueError, match="there are 2"):
        FastVPolicy(1, DecodePolicy.named("fastv", prune_layer=3), 1, 2)
