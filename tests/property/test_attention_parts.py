"""Any lengths, heads and sets: gathered parts under one softmax are the masked softmax over everything."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fastocr_core.attention.base import ReadCount, Selection, Step
from fastocr_core.attention.gather import GatherAttention
from fastocr_core.attention.reference import MaskedAttention
from fastocr_core.kv_cache import SlotCache
from fastocr_core.models.base import DecoderShape, PromptLayout

SLOTS, IMAGE_CAPACITY, PROMPT_CAPACITY, OUTPUT_CAPACITY = 3, 40, 6, 20


class FixedSelection:
    """Given sets in layer 0; image attention is asked for where a slot looks at everything."""

    def __init__(self, sets: tuple[torch.Tensor | None, ...]) -> None:
        self.chosen = Selection(sets)
        self.scores: dict[int, torch.Tensor] = {}

    def selection(self, layer: int) -> Selection:
        return self.chosen

    def wants_scores(self, layer: int, slot: int) -> bool:
        return self.chosen.sets[slot] is None

    def take_scores(self, layer: int, slot: int, probabilities: torch.Tensor) -> None:
        self.scores[slot] = probabilities


@st.composite
def slot_states(draw: st.DrawFn) -> list[tuple[int, int, int, int | None]]:
    """Per slot: image tokens, prompt tokens, outputs fed, kept image tokens (None: everything)."""
    states = []
    for _ in range(SLOTS):
        image = draw(st.integers(1, IMAGE_CAPACITY))
        kept = draw(st.one_of(st.none(), st.integers(1, image)))
        states.append((image, draw(st.integers(0, PROMPT_CAPACITY)), draw(st.integers(1, 30)), kept))
    return states


def filled_cache(
    shape: DecoderShape, states: list[tuple[int, int, int, int | None]], window: int | None
) -> SlotCache:
    cache = SlotCache(shape, SLOTS, IMAGE_CAPACITY, PROMPT_CAPACITY, OUTPUT_CAPACITY, window, torch.empty(0))
    for image, prompt, outputs, _ in states:
        slot = cache.allocate(PromptLayout((0,) * prompt, 0, image, torch.zeros(1, image + prompt)))
        cache.held(slot).outputs = min(outputs, OUTPUT_CAPACITY) if window is None else outputs
    for tensor in (
        (store := cache.slot_layers[0]).image_keys,
        store.image_values,
        store.text_keys,
        store.text_values,
    ):
        tensor.normal_()
    return cache


@settings(max_examples=60, deadline=None)
@given(
    states=slot_states(),
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    window=st.sampled_from([None, 1, 8]),
    live=st.sets(st.integers(0, SLOTS - 1), min_size=1),
    seed=st.integers(0, 2**16),
)
def test_gather_equals_masked_softmax(
    states: list[tuple[int, int, int, int | None]],
    kv_heads: int,
    group: int,
    window: int | None,
    live: set[int],
    seed: int,
) -> None:
    torch.manual_seed(seed)
    shape = DecoderShape(1, kv_heads * group, kv_heads, 8, 8, 1)
    cache = filled_cache(shape, states, window)
    sets = tuple(
        None if kept is None else torch.rand(kv_heads, image).topk(kept, 1).indices.sort(1).values
        for image, _, _, kept in states
    )
    query = torch.randn(SLOTS, shape.query_heads, 1, shape.head_dim)
    results = []
    for backend in (GatherAttention(), MaskedAttention()):
        policy, counts = FixedSelection(sets), {slot: ReadCount() for slot in live}
        step = Step(tuple(sorted(live)), policy, counts)
        results.append((backend.attend(0, query, 0.3, cache, step), policy.scores, counts))
    (fast, fast_scores, fast_counts), (slow, slow_scores, slow_counts) = results
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)
    assert fast.shape == (SLOTS, 1, shape.query_heads, shape.head_dim)
    assert fast_counts == slow_counts
    assert fast_scores.keys() == slow_scores.keys() == {slot for slot in live if sets[slot] is None}
    for slot, scores in fast_scores.items():
        torch.testing.assert_close(scores, slow_scores[slot], rtol=1e-4, atol=1e-6)
    for slot in set(range(SLOTS)) - live:
        assert not fast[slot].any()
