"""Options of the fastocr policy against naive definitions: top-p budget, dilation, focal layers per page,
and the choice of focal layers by recovered mass.
"""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fastocr_core.config import DecodePolicy
from fastocr_core.decoding.base import ImageGrid
from fastocr_core.decoding.fastocr import FastOcrPolicy
from fastocr_core.decoding.focal import layers_by_ratio
from fastocr_core.decoding.focal_choice import best_focal_layers, recovered_mass, recovered_share
from fastocr_core.decoding.measuring import LayerMasses, MeasuringPolicy
from tests.support.attention_maps import assert_strongest

KV_HEADS, GROUP, SLOT = 2, 2, 0


def attention(image_tokens: int, seed: int) -> torch.Tensor:
    """Image attention [kv_heads, group, image_tokens] that sums to less than 1 by query head."""
    logits = 3 * torch.randn(KV_HEADS, GROUP, image_tokens + 4, generator=torch.Generator().manual_seed(seed))
    return logits.softmax(2)[..., :image_tokens]


def fixation(policy: FastOcrPolicy, grid: ImageGrid, image_tokens: int, scores: torch.Tensor) -> torch.Tensor:
    """The first set of a page whose only layer but the focal one is sparse; one warm-up step."""
    policy.admit(SLOT, image_tokens, grid)
    policy.before_step([SLOT])
    policy.take_scores(0, SLOT, scores)
    policy.before_step([SLOT])
    chosen = policy.selection(1).sets[SLOT]
    assert chosen is not None
    return chosen


@settings(max_examples=80)
@given(
    image_tokens=st.integers(1, 60),
    share=st.sampled_from([0.1, 0.5, 1.0]),
    floor=st.integers(1, 8),
    top_p=st.sampled_from([0.2, 0.6, 0.9, 0.99, 1.0]),
    seed=st.integers(0, 2**16),
)
def test_top_p_keeps_the_fewest_tokens_that_hold_the_share(
    image_tokens: int, share: float, floor: int, top_p: float, seed: int
) -> None:
    policy_settings = DecodePolicy.fastocr(share, floor, 1, (0,), "kv_mean", top_p=top_p)
    policy = FastOcrPolicy(1, policy_settings, (0,), floor, 2)
    probabilities = attention(image_tokens, seed)
    chosen = fixation(policy, ImageGrid(1, image_tokens), image_tokens, probabilities)
    scores = probabilities.mean(1).double().numpy()
    most = policy.budget(image_tokens)
    needed = []
    for head in scores:
        order, held, count = sorted(head, reverse=True), 0.0, 0
        while count < image_tokens and held < top_p * head.sum() * (1 - 1e-6):
            held += order[count]
            count += 1
        needed.append(count)
    expected = min(max(*needed, min(floor, most)), most)
    if top_p < 1.0:  # at 1.0 the last tokens round to nothing
        assert abs(chosen.shape[1] - expected) <= (0 if chosen.shape[1] == most else 1)
    assert min(floor, most) <= chosen.shape[1] <= most
    assert_strongest(chosen, scores, chosen.shape[1])


@settings(max_examples=80)
@given(
    rows=st.integers(1, 8),
    columns=st.integers(1, 9),
    newline=st.booleans(),
    first=st.integers(0, 3),
    kept=st.integers(1, 80),
    seed=st.integers(0, 2**16),
)
def test_dilation_keeps_neighbours_before_weaker_hits(
    rows: int, columns: int, newline: bool, first: int, kept: int, seed: int
) -> None:
    stride = columns + newline
    image_tokens = first + rows * stride + 2
    kept = min(kept, image_tokens)
    policy_settings = DecodePolicy.fastocr(kept / image_tokens, kept, 1, (0,), "kv_max", dilate=True)
    policy = FastOcrPolicy(1, policy_settings, (0,), kept, 2)
    probabilities = attention(image_tokens, seed)
    grid = ImageGrid(rows, columns, first, stride if newline else 0)
    chosen = fixation(policy, grid, image_tokens, probabilities)
    places = {first + r * stride + c: (r, c) for r in range(rows) for c in range(columns)}
    for head, scores in enumerate(probabilities.amax(1).tolist()):
        order = sorted(range(image_tokens), key=lambda token: -scores[token])
        hits = order[: max(1, kept // 30)]
        near = {
            token
            for token, hit in itertools.product(order, hits)
            if token in places
            and hit in places
            and abs(places[token][0] - places[hit][0]) <= 1
            and abs(places[token][1] - places[hit][1]) <= 2
        }
        ranked = sorted(order, key=lambda token: (token not in hits, token not in near, -scores[token]))
        assert chosen[head].tolist() == sorted(ranked[:kept])


def test_markers_are_kept_on_top_of_the_budget() -> None:
    policy = FastOcrPolicy(1, DecodePolicy.fastocr(0.1, 2, 1, (0,)), (0,), 2, 2)
    probabilities = attention(20, 3)
    probabilities[:, :, [4, 9]] = 0.0
    chosen = fixation(policy, ImageGrid(4, 4, stride=5, markers=(4, 9)), 20, probabilities)
    assert chosen.shape == (KV_HEADS, 4)
    for head, tokens in enumerate(chosen.tolist()):
        best = probabilities[head].amax(0).topk(2).indices.tolist()
        assert tokens == sorted([4, 9, *best])


@settings(max_examples=60)
@given(st.lists(st.integers(0, 9).map(float), min_size=1, max_size=9), st.integers(1, 9))
def test_layers_by_ratio_avoid_neighbours_while_they_can(ratios: list[float], count: int) -> None:
    count = min(count, len(ratios))
    chosen = layers_by_ratio(ratios, count)
    assert list(chosen) == sorted(set(chosen))
    assert len(chosen) == count
    assert ratios[max(chosen, key=lambda layer: ratios[layer])] == max(ratios)
    if count == 2 and len(ratios) > 3:
        assert chosen[1] - chosen[0] > 1
    greedy: list[int] = []
    for layer in sorted(range(len(ratios)), key=lambda each: -ratios[each]):
        if not any(layer in (other - 1, other + 1) for other in greedy):
            greedy.append(layer)
    if len(greedy) >= count:
        assert set(chosen) == set(greedy[:count])


def masses_of(layers: int, seed: int) -> LayerMasses:
    generator = torch.Generator().manual_seed(seed)
    mass = torch.rand(layers, generator=generator)
    same, previous = (torch.rand(layers, layers, generator=generator) * mass for _ in range(2))
    same = same.triu(1) + torch.diag(mass)
    rows = [tuple(map(tuple, each.tolist())) for each in (same, previous)]
    return LayerMasses(tuple(mass.tolist()), rows[0], rows[1], 1)


@settings(max_examples=60)
@given(layers=st.integers(1, 7), count=st.integers(1, 7), seed=st.integers(0, 2**16))
def test_best_focal_layers_beat_every_other_choice(layers: int, count: int, seed: int) -> None:
    count = min(count, layers)
    masses = masses_of(layers, seed)
    best = best_focal_layers(masses, count)
    everything = [recovered_mass(masses, each) for each in itertools.combinations(range(layers), count)]
    assert len(best) == count
    assert recovered_mass(masses, best) == pytest.approx(max(everything))
    assert recovered_share(masses, range(layers)) == pytest.approx(1.0)


@pytest.mark.parametrize("count", [0, 4])
def test_impossible_counts_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match="focal layers can be chosen"):
        best_focal_layers(masses_of(3, 0), count)


def test_measuring_equals_a_naive_account() -> None:
    """Two steps of one page: what layer l puts on the sets of the layers before it, and of the last step."""
    layers, image_tokens, kept = 3, 12, 2
    policy = MeasuringPolicy(1, layers, lambda _: kept, "kv_max")
    policy.admit(SLOT, image_tokens, None)
    maps = [[attention(image_tokens, 10 * step + layer) for layer in range(layers)] for step in range(2)]
    for step in range(2):
        policy.before_step([SLOT])
        for layer in range(layers):
            assert policy.wants_scores(layer, SLOT)
            policy.take_scores(layer, SLOT, maps[step][layer])
    measured = policy.measured()

    def held(chooser: torch.Tensor, served: torch.Tensor) -> float:
        total = 0.0
        for head in range(KV_HEADS):
            tokens = chooser[head].amax(0).topk(kept).indices
            total += float(served[head][:, tokens].sum())
        return total / (KV_HEADS * GROUP)

    assert measured.steps == 1
    for layer in range(layers):
        assert measured.mass[layer] == pytest.approx(float(maps[1][layer].sum(2).mean()))
        for chooser in range(layers):
            assert measured.previous[chooser][layer] == pytest.approx(
                held(maps[0][chooser], maps[1][layer]), abs=1e-6
            )
            if chooser < layer:
                same = held(maps[1][chooser], maps[1][layer])
                assert measured.same[chooser][layer] == pytest.approx(same, abs=1e-6)


@settings(max_examples=40)
@given(st.integers(0, 2**16), st.integers(1, 3), st.booleans())
def test_every_page_finds_its_own_focal_layers(seed: int, count: int, reuse: bool) -> None:
    """Two pages that enter at different steps: each ranks its own warm-up and seeds its own fixation."""
    layers, warmup, image_tokens = 5, 3, 14
    policy_settings = DecodePolicy.fastocr(0.2, 1, warmup, reuse=reuse, focal="per_page", focal_count=count)
    policy = FastOcrPolicy(2, policy_settings, (1,), 1, layers)
    seen: dict[int, list[list[torch.Tensor]]] = {0: [], 1: []}
    entered = {0: 1, 1: 3}
    for step in range(1, 9):
        live = [slot for slot, first in entered.items() if first <= step]
        for slot in live:
            if entered[slot] == step:
                policy.admit(slot, image_tokens, None)
        policy.before_step(live)
        for slot in live:
            seen[slot].append([])
        for layer in range(layers):
            for slot in live:
                age = step - entered[slot] + 1
                maps = seen[slot]
                probabilities = attention(image_tokens, seed + 1000 * slot + 10 * step + layer)
                chosen = policy.selection(layer).sets[slot]
                if age <= warmup:
                    assert chosen is None
                    assert policy.wants_scores(layer, slot)
                    assert policy.warming_up(slot)
                else:
                    ratios = [
                        sum(float(one[each].sum(2).mean()) for one in maps[:warmup]) for each in range(layers)
                    ]
                    focal = layers_by_ratio(ratios, count)
                    assert policy.focal_layers_of(slot) == focal
                    assert policy.wants_scores(layer, slot) == (layer in focal)
                    before = [each for each in focal if each < layer]
                    if layer in focal or (not before and not reuse):
                        assert chosen is None
                    else:
                        server = maps[-1][before[-1]] if before else maps[-2][focal[-1]]
                        assert chosen is not None
                        assert_strongest(chosen, server.amax(1).double().numpy(), 3)
                maps[-1].append(probabilities)
                if policy.wants_scores(layer, slot):
                    policy.take_scores(layer, slot, probabilities)
