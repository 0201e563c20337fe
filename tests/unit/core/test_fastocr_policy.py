"""Every step's sets against a definition written down naively, for one page in one of several slots."""

import math

import pytest
import torch

from fastocr_core.attention.base import Selection
from fastocr_core.config import POOLINGS, DecodePolicy, Pooling
from fastocr_core.decoding.fastocr import FastOcrPolicy, pooled

LAYERS, KV_HEADS, GROUP, IMAGE_TOKENS, SLOT = 6, 2, 3, 40, 1


def brute_force_set(probabilities: torch.Tensor, pooling: Pooling, kept: int) -> list[list[int]]:
    """Sort all tokens by their pooled probability, head by head, with plain Python."""
    heads = probabilities.tolist()
    chosen = []
    for kv_head in range(KV_HEADS):
        rows = heads[kv_head] if pooling.startswith("kv") else [row for group in heads for row in group]
        columns = list(zip(*rows, strict=True))
        scores = [max(column) if pooling.endswith("max") else sum(column) / len(column) for column in columns]
        chosen.append(sorted(sorted(range(IMAGE_TOKENS), key=lambda token: -scores[token])[:kept]))
    return chosen


def as_lists(selection: Selection) -> list[list[int]] | None:
    chosen = selection.sets[SLOT]
    return None if chosen is None else chosen.tolist()


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("focal", [(0,), (2,), (1, 4), (5,)])
@pytest.mark.parametrize("reuse", [True, False])
def test_sets_equal_the_definition(pooling: Pooling, focal: tuple[int, ...], reuse: bool) -> None:
    settings = DecodePolicy.fastocr(0.1, floor=3, warmup_steps=2, pooling=pooling, reuse=reuse)
    policy = FastOcrPolicy(3, settings, focal, 3, LAYERS)
    policy.admit(SLOT, IMAGE_TOKENS)
    generator = torch.Generator().manual_seed(7)
    kept, previous = 4, None
    for step in range(1, 7):
        policy.before_step([SLOT])
        assert policy.warming_up(SLOT) == (step <= 2)
        current = previous
        for layer in range(LAYERS):
            expected = current
            if step <= 2 or layer in focal or (layer < focal[0] and not reuse):
                expected = None
            selection = policy.selection(layer)
            assert as_lists(selection) == expected
            assert selection.sets[0] is None
            assert selection.sets[2] is None
            wanted = layer in focal and (step > 2 or (step == 2 and layer == focal[-1]))
            assert policy.wants_scores(layer, SLOT) == wanted
            if wanted:
                scores = torch.rand(KV_HEADS, GROUP, IMAGE_TOKENS, generator=generator)
                policy.take_scores(layer, SLOT, scores)
                current = brute_force_set(scores, pooling, kept)
        previous = current


@pytest.mark.parametrize("image_tokens", [1, 15, 16, 17, 100, 560, 2100])
@pytest.mark.parametrize("share", [0.01, 0.05, 0.2, 1.0])
def test_budget(image_tokens: int, share: float) -> None:
    policy = FastOcrPolicy(1, DecodePolicy.fastocr(share), (0,), 16, LAYERS)
    exact = math.ceil(round(share * 100) * image_tokens / 100 - 1e-12)
    assert policy.budget(image_tokens) == min(image_tokens, max(exact, 16))


def test_unchanged_selections_are_the_same_object() -> None:
    policy = FastOcrPolicy(2, DecodePolicy.fastocr(0.5, warmup_steps=1), (1,), 1, LAYERS)
    policy.admit(0, 10)
    policy.before_step([0])
    policy.take_scores(1, 0, torch.rand(1, 1, 10))
    policy.before_step([0])
    assert policy.selection(2) is policy.selection(3)


@pytest.mark.parametrize("focal", [(), (-1,), (6,)])
def test_impossible_focal_layers_are_refused(focal: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="focal layers"):
        FastOcrPolicy(1, DecodePolicy.fastocr(), focal, 1, LAYERS)


def test_pooling_shapes() -> None:
    probabilities = torch.rand(2, 3, 5)
    for pooling in POOLINGS:
        assert pooled(probabilities, pooling).shape == (2, 5)
    assert torch.equal(pooled(probabilities, "kv_max"), probabilities.amax(1))
    assert torch.equal(pooled(probabilities, "layer_max")[0], pooled(probabilities, "layer_max")[1])


def test_a_page_ends_on_a_step_that_saw_everything() -> None:
    settings = DecodePolicy.fastocr(0.1, floor=3, warmup_steps=2)
    policy = FastOcrPolicy(3, settings, (1, 3), 3, LAYERS)
    policy.admit(SLOT, IMAGE_TOKENS)
    for step in range(1, 5):
        policy.before_step([SLOT])
        for layer in (1, 3):
            if policy.wants_scores(layer, SLOT):
                policy.take_scores(layer, SLOT, torch.rand(KV_HEADS, GROUP, IMAGE_TOKENS))
        if step <= 2:
            assert not policy.look_around(SLOT), "a step of the warm-up saw everything"
    assert as_lists(policy.selection(2)) is not None
    assert policy.look_around(SLOT)
    policy.before_step([SLOT])
    assert [as_lists(policy.selection(layer)) for layer in range(LAYERS)] == [None] * LAYERS
    assert not policy.warming_up(SLOT), "what it reads counts"
    assert policy.wants_scores(3, SLOT)
    assert not policy.look_around(SLOT), "it has"
    policy.before_step([SLOT])
    assert as_lists(policy.selection(2)) is not None
    assert policy.look_around(SLOT)


def test_where_the_end_is_not_confirmed_no_step_is_done_again() -> None:
    settings = DecodePolicy.fastocr(0.1, floor=3, warmup_steps=1, confirm_end=False)
    policy = FastOcrPolicy(1, settings, (1,), 3, LAYERS)
    policy.admit(0, IMAGE_TOKENS)
    for _ in range(4):
        policy.before_step([0])
        assert not policy.look_around(0)
