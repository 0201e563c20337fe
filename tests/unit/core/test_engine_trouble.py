"""What goes wrong with one page stays with that page; memory running out makes the batch smaller."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

import pytest
import torch

import fastocr_core.batch
from fastocr_core import DecodePolicy, Engine, EngineLimits, PageText
from fastocr_core.attention.base import Step
from fastocr_core.kv_cache import SlotCache
from fastocr_core.memory import is_out_of_memory
from fastocr_core.vision.prepared import PreparedPage
from tests.parity.random_model import RandomAdapter, page_of
from tests.support.queued import read_at_once

SPARSE = DecodePolicy.fastocr(kept_share=0.1, warmup_steps=4)
SHORT = EngineLimits(max_output_tokens=12)
PAGES = [page_of(tokens, tokens) for tokens in (30, 31, 32, 33, 34, 35, 36, 37)]


def read_whole(limits: EngineLimits = SHORT) -> list[PageText]:
    with Engine(RandomAdapter(), SPARSE, max_batch=4, limits=limits) as engine:
        return list(engine.read(PAGES))


def tokens_of(pages: Sequence[PageText]) -> list[tuple[int, ...]]:
    return [page.tokens for page in pages]


def test_garbage_a_raising_adapter_and_an_endless_page_leave_the_others_unchanged() -> None:
    ending = frozenset(range(6))
    pages = [page_of(tokens, seed) for seed, tokens in enumerate((90, 17, 150, 1, 64, 33, 128, 71))]
    with Engine(RandomAdapter(stop_ids=ending), SPARSE, max_batch=8) as engine:
        whole = list(engine.read(pages))
    endless = [index for index, page in enumerate(whole) if page.finish_reason == "length"]
    assert endless, "one page should go on to the limit"
    garbage: Any = b"%PDF-1.4 not an image"
    broken = RandomAdapter(stop_ids=ending, broken_tokens=77)
    with Engine(broken, SPARSE, max_batch=8) as engine:
        results = list(engine.read([*pages[:3], garbage, *pages[3:6], page_of(77), *pages[6:]]))
    assert (results[3].finish_reason, results[3].error) == (
        "error",
        "TypeError: a page must be a PIL image, not bytes",
    )
    assert {page.finish_reason for page in results} == {"stop", "length", "error"}
    assert (results[7].finish_reason, results[7].error) == (
        "error",
        "RuntimeError: this page cannot be encoded",
    )
    for one, other in zip([*results[:3], *results[4:7], *results[8:]], whole, strict=True):
        assert (one.tokens, one.logprobs, one.finish_reason) == (
            other.tokens,
            other.logprobs,
            other.finish_reason,
        )


def test_a_step_that_breaks_costs_only_the_page_that_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_whole()
    with Engine(RandomAdapter(), SPARSE, max_batch=4, limits=SHORT) as engine:
        attend = engine.backend.attend

        def touchy(layer: int, query: Any, scaling: float, cache: SlotCache, step: Step) -> torch.Tensor:
            if any(
                cache.held(slot).image_tokens == 32 and cache.held(slot).outputs > 5 for slot in step.live
            ):
                raise RuntimeError("a kernel broke")
            return attend(layer, query, scaling, cache, step)

        monkeypatch.setattr(engine.backend, "attend", touchy)
        results = list(engine.read(PAGES))
        assert engine.pages_restarted == 4
    assert results[2].error == "RuntimeError: a kernel broke"
    assert results[2].tokens == whole[2].tokens[:6], "the text so far is kept"
    for index in (0, 1, 3, 4, 5, 6, 7):
        assert (results[index].tokens, results[index].logprobs) == (
            whole[index].tokens,
            whole[index].logprobs,
        )


def test_memory_running_out_in_a_step_halves_slots_and_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_whole()
    with Engine(RandomAdapter(), SPARSE, max_batch=4, limits=SHORT) as engine:
        attend = engine.backend.attend

        def greedy(layer: int, query: Any, scaling: float, cache: SlotCache, step: Step) -> torch.Tensor:
            if len(step.live) > 2:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return attend(layer, query, scaling, cache, step)

        monkeypatch.setattr(engine.backend, "attend", greedy)
        results = read_at_once(engine, PAGES)
        assert (engine.slots, engine.out_of_memory, engine.pages_restarted) == (2, 1, 4)
        # Four pages of 30 to 33 image tokens, 5 of prompt and 12 of output were held.
        assert engine.token_budget == (30 + 31 + 32 + 33 + 4 * 17) // 2
    assert [page.error for page in results] == [None] * 8
    assert tokens_of(results) == tokens_of(whole)


@pytest.mark.parametrize("times", [1, 3])
def test_memory_running_out_while_a_page_is_taken_in(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, model, left = read_whole(), RandomAdapter(), times
    encode = model.encode

    def hungry(page: PreparedPage) -> torch.Tensor:
        nonlocal left
        if page.image_tokens == 34 and left:
            left -= 1
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")
        return encode(page)

    monkeypatch.setattr(model, "encode", hungry)
    with Engine(model, SPARSE, max_batch=8, limits=SHORT) as engine:
        results = list(engine.read(PAGES))
        assert (engine.out_of_memory, engine.slots) == (times, 8 // 2**times)
    assert tokens_of(results) == tokens_of(whole)


@pytest.mark.parametrize("where", ["encode", "step"])
def test_a_page_too_large_for_all_memory_fails_alone(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, model = read_whole(), RandomAdapter()
    with Engine(model, SPARSE, max_batch=4, limits=SHORT) as engine:
        encode, attend = model.encode, engine.backend.attend

        def hungry(page: PreparedPage) -> torch.Tensor:
            if where == "encode" and page.image_tokens == 32:
                raise torch.OutOfMemoryError("too large")
            return encode(page)

        def greedy(layer: int, query: Any, scaling: float, cache: SlotCache, step: Step) -> torch.Tensor:
            if where == "step" and any(cache.held(slot).image_tokens == 32 for slot in step.live):
                raise torch.OutOfMemoryError("too large")
            return attend(layer, query, scaling, cache, step)

        monkeypatch.setattr(model, "encode", hungry)
        monkeypatch.setattr(engine.backend, "attend", greedy)
        results = list(engine.read(PAGES))
        assert (engine.slots, engine.token_budget) == (4, None), "the others get their slots back"
        assert engine.out_of_memory == 3  # with four slots, with two, with one
    assert results[2].error == "OutOfMemoryError: too large"
    for index in (0, 1, 3, 4, 5, 6, 7):
        assert results[index].tokens == whole[index].tokens


def test_an_engine_starts_with_as_many_slots_as_there_is_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def small_machine(shape: Any, slots: int, *rest: Any) -> SlotCache:
        if slots > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return SlotCache(shape, slots, *rest)

    monkeypatch.setattr(fastocr_core.batch, "SlotCache", small_machine)
    with Engine(RandomAdapter(), SPARSE, max_batch=8, limits=SHORT) as engine:
        assert (engine.slots, engine.out_of_memory) == (2, 2)
        assert tokens_of(list(engine.read(PAGES))) == tokens_of(read_whole())


def test_real_allocations_that_fail_are_recognised() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 52)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("shape mismatch"))


def test_pages_from_an_event_loop() -> None:
    whole = read_whole()

    async def ask(engine: Engine) -> tuple[list[PageText], PageText]:
        results = await asyncio.gather(*(engine.read_async(page) for page in PAGES))
        waiting = [asyncio.create_task(engine.read_async(page)) for page in PAGES]
        await asyncio.sleep(0)
        waiting[-1].cancel()
        cancelled = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(cancelled[-1], asyncio.CancelledError)
        assert tokens_of(cancelled[:-1]) == tokens_of(whole[:-1])  # type: ignore[arg-type]
        nonsense: Any = "not an image"
        return results, await engine.read_async(nonsense)

    with Engine(RandomAdapter(), SPARSE, max_batch=4, limits=SHORT) as engine:
        results, failed = asyncio.run(ask(engine))
    assert tokens_of(results) == tokens_of(whole)
    assert failed.finish_reason == "error"


class Guarded(RandomAdapter):
    """Bans what was said up to three tokens ago."""

    def ban(self, tokens: Sequence[int]) -> Collection[int]:
        if len(tokens) == 7 and tokens[0] == self.raises_after:
            raise LookupError("the guard broke")
        return set(tokens[-3:])

    raises_after = -1


def test_banned_tokens_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    model, favoured = Guarded(), torch.zeros(128)
    favoured[9] = 50.0
    logits = model.logits
    monkeypatch.setattr(model, "logits", lambda hidden: logits(hidden) + favoured)
    with Engine(model, max_batch=2, limits=SHORT) as engine:
        (page,) = engine.read([page_of(30)])
    # Token 9 is wanted in every step and allowed in every fourth.
    assert [token == 9 for token in page.tokens] == [index % 4 == 0 for index in range(12)]
    assert page.banned_tokens == 9
    assert all(logprob < -20 for index, logprob in enumerate(page.logprobs) if index % 4)
    with Engine(RandomAdapter(), max_batch=2, limits=SHORT) as engine:
        assert next(engine.read([page_of(30)])).banned_tokens == 0


def test_a_guard_that_raises_fails_its_page_alone() -> None:
    model = Guarded()
    with Engine(model, max_batch=4, limits=SHORT) as engine:
        whole = list(engine.read(PAGES[:3]))
        firsts = [page.tokens[0] for page in whole]
        assert firsts.count(firsts[1]) == 1
        model.raises_after = firsts[1]
        results = list(engine.read(PAGES[:3]))
    assert results[1].error == "LookupError: the guard broke"
    assert results[1].tokens == whole[1].tokens[:7]
    assert tokens_of([results[0], results[2]]) == tokens_of([whole[0], whole[2]])


def looping_model(period: int) -> RandomAdapter:
    """Says the same `period` tokens over and over, by the position of the token."""
    model = RandomAdapter()
    model.max_output_tokens = 400
    said = 0

    def logits(hidden: torch.Tensor) -> torch.Tensor:
        nonlocal said
        scores = torch.zeros(*hidden.shape[:-1], 128)
        scores[..., 10 + said % period] = 50.0
        said += 1
        return scores

    model.logits = logits  # type: ignore[method-assign]
    return model


@pytest.mark.parametrize("advance", [0.0, 1.5])
def test_a_cycle_is_a_loop_only_where_the_gaze_stands_still(advance: float) -> None:
    period = 9
    with Engine(looping_model(period), SPARSE, max_batch=1) as engine:
        attend = engine.backend.attend

        def gazing(layer: int, query: Any, scaling: float, cache: SlotCache, step: Step) -> torch.Tensor:
            output = attend(layer, query, scaling, cache, step)
            for slot in step.watched:
                step.gaze[slot] = 20.0 + advance * cache.held(slot).outputs
            return output

        engine.backend.attend = gazing  # type: ignore[method-assign]
        (page,) = engine.read([page_of(60)])
    assert page.loop_period == period
    if advance:  # some forty equal rows of a table
        assert (page.finish_reason, page.output_tokens) == ("length", 400)
        assert page.loop_share == 1.0
    else:
        assert page.finish_reason == "loop"
        assert page.output_tokens < 120
        assert page.loop_share == 1.0
