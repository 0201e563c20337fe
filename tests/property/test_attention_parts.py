"""Any lengths, heads and sets: what the fast backends read of both parts is the masked softmax over
everything, and depends on no other slot.
"""

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fastocr_core.attention import AttentionBackend, attention_backend
from fastocr_core.attention.base import ReadCount, Selection, Step
from fastocr_core.kv_cache import SlotCache
from fastocr_core.models.base import DecoderShape, PromptLayout

# Triton's interpreter takes about a second for a call: few examples, and no search for smaller ones.
EXAMPLES = {
    "gather": settings(max_examples=40),
    "together": settings(max_examples=60),
    "triton": settings(max_examples=8, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate)),
}
SLOTS, IMAGE_CAPACITY, PROMPT_CAPACITY, OUTPUT_CAPACITY = 3, 40, 6, 20


class FixedSelection:
    """Given sets in layer 0; image attention is asked for in every slot."""

    def __init__(self, sets: tuple[torch.Tensor | None, ...]) -> None:
        self.chosen = Selection(sets)
        self.scores: dict[int, torch.Tensor] = {}

    def selection(self, layer: int) -> Selection:
        return self.chosen

    def wants_scores(self, layer: int, slot: int) -> bool:
        return True

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
    shape: DecoderShape,
    states: list[tuple[int, int, int, int | None]],
    window: int | None,
    dtype: torch.dtype = torch.float32,
) -> SlotCache:
    like = torch.empty(0, dtype=dtype)
    cache = SlotCache(shape, SLOTS, IMAGE_CAPACITY, PROMPT_CAPACITY, OUTPUT_CAPACITY, window, like)
    for image, prompt, outputs, _ in states:
        slot = cache.allocate(PromptLayout((0,) * prompt, 0, image, torch.zeros(1, image + prompt)))
        cache.held(slot).outputs = min(outputs, OUTPUT_CAPACITY) if window is None else outputs
    for tensor in parts_of(cache):
        tensor.normal_()
    return cache


def parts_of(cache: SlotCache) -> tuple[torch.Tensor, ...]:
    """Keys and values of layer 0, image and text."""
    store = cache.slot_layers[0]
    return store.image_keys, store.image_values, store.text_keys, store.text_values


def backend_named(name: str) -> AttentionBackend:
    if name == "triton":
        pytest.importorskip("triton", reason="triton is not installed: its kernels are not tested")
    return attention_backend(name)


def attended(
    backend: AttentionBackend,
    cache: SlotCache,
    query: torch.Tensor,
    sets: tuple[torch.Tensor | None, ...],
    live: set[int],
) -> tuple[torch.Tensor, dict[int, torch.Tensor], dict[int, ReadCount]]:
    """Output, scores and counts of one layer."""
    policy, counts = FixedSelection(sets), {slot: ReadCount() for slot in live}
    step = Step(tuple(sorted(live)), policy, counts)
    return backend.attend(0, query, 0.3, cache, step), policy.scores, counts


def random_sets(
    states: list[tuple[int, int, int, int | None]], kv_heads: int
) -> tuple[torch.Tensor | None, ...]:
    return tuple(
        None if kept is None else torch.rand(kv_heads, image).topk(kept, 1).indices.sort(1).values
        for image, _, _, kept in states
    )


def check_against_oracle(name: str) -> None:
    """Output, counts and scores of random states are those of the masked softmax."""

    @EXAMPLES[name]
    @given(
        states=slot_states(),
        kv_heads=st.integers(1, 3),
        group=st.integers(1, 3),
        window=st.sampled_from([None, 1, 8]),
        head_dim=st.sampled_from([8, 16, 24]),
        live=st.sets(st.integers(0, SLOTS - 1), min_size=1),
        seed=st.integers(0, 2**16),
    )
    def check(
        states: list[tuple[int, int, int, int | None]],
        kv_heads: int,
        group: int,
        window: int | None,
        head_dim: int,
        live: set[int],
        seed: int,
    ) -> None:
        torch.manual_seed(seed)
        shape = DecoderShape(1, kv_heads * group, kv_heads, head_dim, 8, 1)
        cache, sets = filled_cache(shape, states, window), random_sets(states, kv_heads)
        query = torch.randn(SLOTS, shape.query_heads, 1, head_dim)
        fast, fast_scores, fast_counts = attended(backend_named(name), cache, query, sets, live)
        slow, slow_scores, slow_counts = attended(attention_backend("masked"), cache, query, sets, live)
        torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)
        assert fast.shape == (SLOTS, 1, shape.query_heads, head_dim)
        assert fast_counts == slow_counts
        assert fast_scores.keys() == slow_scores.keys() == live
        for slot, scores in fast_scores.items():
            torch.testing.assert_close(scores, slow_scores[slot], rtol=1e-4, atol=1e-6)
        for slot in set(range(SLOTS)) - live:
            assert not fast[slot].any()

    check()


def check_alone_and_beside(name: str, dtype: torch.dtype) -> None:
    """A slot's output and scores are the same bit for bit alone and beside other pages."""

    @EXAMPLES[name]
    @given(
        states=slot_states(),
        others=slot_states(),
        slot=st.integers(0, SLOTS - 1),
        seed=st.integers(0, 2**16),
    )
    def check(
        states: list[tuple[int, int, int, int | None]],
        others: list[tuple[int, int, int, int | None]],
        slot: int,
        seed: int,
    ) -> None:
        shape = DecoderShape(1, 6, 2, 16, 8, 1)
        torch.manual_seed(seed)
        cache, query = filled_cache(shape, states, None, dtype), torch.randn(SLOTS, 6, 1, 16).to(dtype)
        sets = random_sets(states, 2)
        alone, alone_scores, _ = attended(backend_named(name), cache, query, sets, {slot})
        beside = filled_cache(
            shape, [states[slot] if at == slot else others[at] for at in range(SLOTS)], None, dtype
        )
        for store, own in zip(parts_of(beside), parts_of(cache), strict=True):
            store[slot] = own[slot]
        other_sets = random_sets(others, 2)
        mixed = tuple(sets[slot] if at == slot else other_sets[at] for at in range(SLOTS))
        own_row = torch.arange(SLOTS)[:, None, None, None] == slot
        moved = torch.where(own_row, query, torch.randn_like(query))
        together, scores, _ = attended(backend_named(name), beside, moved, mixed, set(range(SLOTS)))
        assert torch.equal(alone[slot], together[slot])
        assert torch.equal(alone_scores[slot], scores[slot])

    check()


def test_gather_equals_masked_softmax() -> None:
    check_against_oracle("gather")


def test_together_equals_masked_softmax() -> None:
    check_against_oracle("together")


def test_triton_equals_masked_softmax() -> None:
    check_against_oracle("triton")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gather_reads_a_slot_the_same_whoever_is_beside_it(dtype: torch.dtype) -> None:
    check_alone_and_beside("gather", dtype)


def test_triton_reads_a_slot_the_same_whoever_is_beside_it() -> None:
    check_alone_and_beside("triton", torch.float32)
