"""Prompts cached in chunks: the same tokens as in one piece, alone, in a batch and joining late."""

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fastocr_core import DecodePolicy, Engine, EngineLimits, PageText
from fastocr_core.attention.prefill import causal_attention, visible_mask
from fastocr_core.batch import Batch
from fastocr_core.decoding.base import ImageGrid, Policy, PrefillView
from fastocr_core.decoding.dense import DensePolicy
from fastocr_core.models.base import ModelAdapter, PromptLayout
from fastocr_core.vision.prepared import PreparedPage
from tests.parity.random_model import RandomAdapter, page_of
from tests.support.small_generators import GENERATORS, Generator, SamePrompt

PAGES = [page_of(tokens, seed) for seed, tokens in enumerate((90, 17, 150, 1, 64, 33, 128, 71))]
POLICIES = [DecodePolicy.dense(), DecodePolicy.fastocr(kept_share=0.1, warmup_steps=3)]


class LongPrompt(RandomAdapter):
    """Hundreds of text tokens before and after the image."""

    def layout(self, page: PreparedPage, prompt: str | None) -> PromptLayout:
        ids = tuple(1 + (7 * place) % 120 for place in range(700))
        return PromptLayout(ids, 310, page.image_tokens, torch.arange(page.image_tokens + len(ids))[None])


def chunks_of(entries: int) -> EngineLimits:
    return EngineLimits(prefill_chunk=entries, max_output_tokens=30)


def read(
    model: ModelAdapter, policy: DecodePolicy, limits: EngineLimits, pages: Sequence[PreparedPage] = PAGES
) -> list[PageText]:
    with Engine(model, policy, 4, limits) as engine:
        return list(engine.read(pages))


def assert_same(one: PageText, other: PageText) -> None:
    assert one.error is None
    assert one.tokens == other.tokens
    assert torch.equal(torch.tensor(one.logprobs), torch.tensor(other.logprobs))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("make", [RandomAdapter, LongPrompt])
def test_the_cut_does_not_change_the_tokens(policy: DecodePolicy, make: Callable[[], RandomAdapter]) -> None:
    model, pages = make(), PAGES[:4]
    whole = read(model, policy, chunks_of(10_000), pages)
    for chunk in (33, 155):
        for cut, expected in zip(read(model, policy, chunks_of(chunk), pages), whole, strict=True):
            assert cut.error is None
            assert cut.tokens == expected.tokens
            assert cut.logprobs == pytest.approx(expected.logprobs, abs=1e-4)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_bit_for_bit_alone_in_a_batch_and_late(policy: DecodePolicy) -> None:
    model = RandomAdapter()
    with Engine(model, policy, 8, EngineLimits(prefill_chunk=16)) as engine:
        together = list(engine.read(PAGES))
        for index in (0, 2, 3):
            (alone,) = engine.read([PAGES[index]])
            assert_same(alone, together[index])
        before = engine.steps
        early = [engine.submit(page) for page in PAGES[:2]]
        while engine.steps < before + 10:
            time.sleep(0.001)
        assert_same(engine.submit(PAGES[2]).result(), together[2])
        for future, expected in zip(early, together, strict=False):
            assert_same(future.result(), expected)


def test_pages_go_on_while_a_prompt_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    for name in ("fill", "step"):
        wrapped = getattr(Batch, name)

        def noted(self: Batch, wrapped: Any = wrapped, name: str = name) -> Any:
            order.append(name)
            return wrapped(self)

        monkeypatch.setattr(Batch, name, noted)
    with Engine(RandomAdapter(), max_batch=2, limits=EngineLimits(prefill_chunk=20)) as engine:
        first = engine.submit(page_of(3))
        while engine.steps < 5:
            time.sleep(0.001)
        late = engine.submit(page_of(150))
        assert first.result().finish_reason == late.result().finish_reason == "length"
        assert engine.prefill_chunks == 1 + 8
    fills = [place for place, name in enumerate(order) if name == "fill"]
    assert all(later - earlier == 2 for earlier, later in pairwise(fills[1:])), order
    assert len(fills) == 9


def test_a_prompt_beyond_the_room_is_an_error_result() -> None:
    model = LongPrompt()
    model.max_prompt_tokens = 699
    (page,) = read(model, POLICIES[0], chunks_of(64), PAGES[:1])
    assert page.error == "ValueError: a prompt of 700 tokens exceeds the slot's 699"


class Observing(DensePolicy):
    """Takes notes of the prompt in layer 1."""

    def __init__(self, slots: int, whole: bool) -> None:
        super().__init__(slots)
        self.needs_whole_prompt = whole
        self.views: list[PrefillView] = []
        self.life: list[str] = []

    def admit(self, slot: int, image_tokens: int, grid: ImageGrid | None = None) -> None:
        self.life.append(f"admit {image_tokens} {grid and grid.columns}")

    def admitted(self, slot: int) -> None:
        self.life.append("admitted")

    def observes_prefill(self, layer: int) -> bool:
        return layer == 1

    def take_prefill(self, layer: int, slot: int, view: PrefillView) -> None:
        self.life.append("prefill")
        self.views.append(view)


def observed(whole: bool, chunk: int) -> tuple[Observing, int]:
    policies: list[Observing] = []

    def build(settings: DecodePolicy, model: ModelAdapter, slots: int) -> Policy:
        policies.append(Observing(slots, whole))
        return policies[-1]

    with Engine(RandomAdapter(), None, 2, chunks_of(chunk), build=build) as engine:
        (page,) = engine.read([page_of(90)])
        assert page.error is None
        return policies[0], engine.prefill_chunks


def test_policies_see_the_prompt_in_chunks_or_whole() -> None:
    whole, one = observed(whole=True, chunk=20)
    assert one == 1
    assert whole.life == ["admit 90 90", "prefill", "admitted"]
    cut, many = observed(whole=False, chunk=20)
    assert many == 5
    assert cut.life == ["admit 90 90", *["prefill"] * 5, "admitted"]
    assert [view.first_row for view in cut.views] == [0, 20, 40, 60, 80]
    (view,) = whole.views
    assert (view.image_start, view.image_tokens, view.prompt_entries) == (2, 90, 95)
    assert view.keys.shape == (2, 95, 16)
    queries = torch.cat([piece.query for piece in cut.views], dim=1)
    torch.testing.assert_close(queries, view.query, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(cut.views[-1].keys, view.keys, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(cut.views[1].keys, view.keys[:, :40], rtol=1e-4, atol=1e-4)


@settings(max_examples=50)
@given(
    before=st.integers(0, 4),
    image=st.integers(1, 9),
    after=st.integers(1, 4),
    rows=st.integers(1, 12),
    seed=st.integers(0, 999),
)
def test_hidden_image_tokens_are_seen_by_nobody_but_themselves(
    before: int, image: int, after: int, rows: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    visible = torch.rand(image, generator=generator) < 0.5
    layout = PromptLayout((1,) * (before + after), before, image, torch.zeros(1, before + image + after))
    entries = before + image + after
    rows = min(rows, entries)
    mask = visible_mask(visible, layout, rows, entries)
    for row in range(rows):
        own = entries - rows + row
        for entry in range(entries):
            hidden = before <= entry < before + image and not visible[entry - before]
            assert bool(mask[row, entry]) == (entry == own or (entry < own and not hidden))


@settings(max_examples=50)
@given(rows=st.integers(1, 9), earlier=st.integers(0, 9), group=st.integers(1, 3), seed=st.integers(0, 999))
def test_chunk_attention_is_causal(rows: int, earlier: int, group: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(1, 2 * group, rows, 8, generator=generator)
    keys, values = torch.randn(2, 1, 2, earlier + rows, 8, generator=generator)
    output = causal_attention(query, keys, values, 0.3)
    for head in range(2 * group):
        for row in range(rows):
            seen = earlier + row + 1
            weights = (keys[0, head // group, :seen] @ query[0, head, row] * 0.3).softmax(0)
            expected = weights @ values[0, head // group, :seen]
            torch.testing.assert_close(output[0, head, row], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS.keys())
@torch.inference_mode()
def test_dense_engine_equals_generate_of_three_families(make: Callable[..., Generator]) -> None:
    source = make(rows=2)
    plain = source.generate()
    model = SamePrompt(make(rows=2), (1, 2), 48)
    with Engine(model, limits=EngineLimits(prefill_chunk=29), max_batch=3) as engine:
        pages = list(engine.read(model.page_of_row(row) for row in (0, 1)))
        assert engine.prefill_chunks > 4
    assert [list(page.tokens) for page in pages] == plain
