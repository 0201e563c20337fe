"""The engine around the decoding: order, errors as results, budgets, threads, counts."""

import concurrent.futures
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from PIL import Image

from fastocr_core import DecodePolicy, Engine, EngineLimits, load
from fastocr_core.attention.base import Step
from fastocr_core.kv_cache import SlotCache
from fastocr_core.vision.prepared import PreparedPage
from tests.parity.random_model import MAX_IMAGE_TOKENS, RandomAdapter, page_of
from tests.support.queued import submit_at_once

SPARSE = DecodePolicy.fastocr(kept_share=0.1, warmup_steps=4)
SHORT = EngineLimits(max_output_tokens=12)


def test_a_page_that_cannot_be_encoded_leaves_the_others_unchanged() -> None:
    pages = [page_of(tokens, tokens) for tokens in (30, 31, 32, 33, 34)]
    with Engine(RandomAdapter(), SPARSE, max_batch=3) as engine:
        whole = list(engine.read(pages))
    with Engine(RandomAdapter(broken_tokens=32), SPARSE, max_batch=3) as engine:
        broken = list(engine.read(pages))
    assert broken[2].finish_reason == "error"
    assert broken[2].error == "RuntimeError: this page cannot be encoded"
    assert broken[2].image_tokens == 32
    for index in (0, 1, 3, 4):
        assert (broken[index].tokens, broken[index].logprobs) == (whole[index].tokens, whole[index].logprobs)


def test_too_large_pages_and_unreadable_inputs_are_error_results() -> None:
    with Engine(RandomAdapter(), limits=SHORT) as engine:
        large, fine = engine.read([page_of(MAX_IMAGE_TOKENS + 1), page_of(3)])
        assert large.finish_reason == "error"
        assert "image tokens exceed" in (large.error or "")
        assert fine.finish_reason == "length"
        nonsense: Any = "not an image"
        assert engine.submit(nonsense).result().finish_reason == "error"


def test_a_failing_parser_is_an_error_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(self: RandomAdapter, tokens: list[int], page: PreparedPage) -> None:
        raise KeyError("no such token")

    monkeypatch.setattr(RandomAdapter, "parse", parse)
    with Engine(RandomAdapter(), limits=SHORT) as engine:
        (page,) = engine.read([page_of(3)])
    assert page.finish_reason == "error"
    assert len(page.tokens) == 12


def test_logits_that_are_not_finite_are_an_error_result(monkeypatch: pytest.MonkeyPatch) -> None:
    model = RandomAdapter()
    sound = model.logits

    def logits(hidden: torch.Tensor) -> torch.Tensor:
        values = sound(hidden)
        return values if len(values) == 1 else values * torch.tensor([[1.0], [torch.nan]])

    monkeypatch.setattr(model, "logits", logits)
    with Engine(model, max_batch=2, limits=SHORT) as engine:
        first, second = engine.read([page_of(3), page_of(4)])
    assert (first.finish_reason, second.finish_reason) == ("length", "error")
    assert second.output_tokens == 1


def test_a_failing_step_fails_its_pages_and_not_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    with Engine(RandomAdapter(), max_batch=2, limits=SHORT) as engine:
        attend = engine.backend.attend

        def out_of_memory(*arguments: Any) -> torch.Tensor:
            raise MemoryError("no memory left")

        monkeypatch.setattr(engine.backend, "attend", out_of_memory)
        assert [page.error for page in engine.read([page_of(3), page_of(4)])] == [
            "MemoryError: no memory left"
        ] * 2
        monkeypatch.setattr(engine.backend, "attend", attend)
        assert [page.finish_reason for page in engine.read([page_of(3)])] == ["length"]


def test_results_come_in_input_order_and_input_is_taken_as_needed() -> None:
    taken = 0

    def pages() -> Iterator[PreparedPage]:
        nonlocal taken
        for seed in range(40):
            taken += 1
            yield page_of(1 + seed % 7, seed)

    with Engine(
        RandomAdapter(), max_batch=2, limits=EngineLimits(max_output_tokens=5, pages_ahead=3)
    ) as engine:
        results = engine.read(pages())
        assert next(results).image_tokens == 1
        assert taken == 5
        assert [page.image_tokens for page in results] == [1 + seed % 7 for seed in range(1, 40)]
        assert 0.5 < engine.slot_fill() <= 1.0
        assert engine.tokens_out == 40 * 5
        assert engine.busy_seconds > 0


def test_pages_from_many_threads() -> None:
    model = RandomAdapter()
    pages = [page_of(5 + index, index) for index in range(12)]
    with Engine(model, SPARSE, max_batch=4, limits=SHORT) as engine:
        expected = [page.tokens for page in engine.read(pages)]
        results: dict[int, tuple[int, ...]] = {}

        def ask(index: int) -> None:
            results[index] = engine.submit(pages[index]).result().tokens

        threads = [threading.Thread(target=ask, args=(index,)) for index in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [results[index] for index in range(12)] == expected


def test_close_finishes_what_was_submitted_and_refuses_more() -> None:
    engine = Engine(RandomAdapter(), max_batch=2, limits=SHORT)
    futures = [engine.submit(page_of(4, seed)) for seed in range(5)]
    engine.close()
    assert [future.result().finish_reason for future in futures] == ["length"] * 5
    with pytest.raises(RuntimeError, match="closed"):
        engine.submit(page_of(4))
    engine.close()


def test_token_budget_bounds_the_pages_at_once() -> None:
    pages = [page_of(40, seed) for seed in range(6)]
    # A page can grow to 40 + 5 + 12 = 57 tokens.
    for budget, at_once in ((10, 1), (57 * 2, 2), (57 * 3 + 56, 3)):
        limits = EngineLimits(token_budget=budget, max_output_tokens=12)
        with Engine(RandomAdapter(), max_batch=4, limits=limits) as engine:
            assert len(list(engine.read(pages))) == 6
            # the first steps may be taken before all pages were handed over
            assert (at_once - 1) / 4 < engine.slot_fill() <= at_once / 4


def test_read_share_equals_an_instrumented_count(monkeypatch: pytest.MonkeyPatch) -> None:
    model = RandomAdapter()
    page = page_of(90)
    read, cached, seen_steps = 0, 0, set()
    with Engine(model, SPARSE, max_batch=2) as engine:
        attend = engine.backend.attend

        def counted(
            layer: int, query: torch.Tensor, scaling: float, cache: SlotCache, step: Step
        ) -> torch.Tensor:
            nonlocal read, cached
            seen_steps.add(cache.held(0).outputs)
            if cache.held(0).outputs > 4:
                chosen = step.policy.selection(layer).sets[0]
                read += 2 * 90 if chosen is None else chosen.numel()
                cached += 2 * 90
            return attend(layer, query, scaling, cache, step)

        monkeypatch.setattr(engine.backend, "attend", counted)
        (result,) = engine.read([page])
    assert len(seen_steps) == 59
    assert result.image_kv_read_share == read / cached
    # Two focal layers of five, nine of ninety tokens elsewhere.
    assert result.image_kv_read_share == pytest.approx((2 + 3 * 0.1) / 5)


def test_a_page_shorter_than_the_warm_up_counts_as_dense() -> None:
    with Engine(RandomAdapter(), SPARSE, limits=EngineLimits(max_output_tokens=3)) as engine:
        (page,) = engine.read([page_of(90)])
    assert page.image_kv_read_share == 1.0


def test_a_proven_loop_is_stopped() -> None:
    model = RandomAdapter()
    stuck = torch.zeros(128)
    stuck[9] = 50.0
    model.logits = lambda hidden: stuck.expand(*hidden.shape[:-1], -1)  # type: ignore[method-assign]
    model.next_positions = lambda positions, tokens: positions  # type: ignore[method-assign]
    model.max_output_tokens = 400
    with Engine(model, SPARSE, max_batch=2) as engine:
        (page,) = engine.read([page_of(60)])
    assert page.finish_reason == "loop"
    assert 36 < page.output_tokens < 100
    with Engine(model, SPARSE, max_batch=2, limits=EngineLimits(stop_loops=False)) as engine:
        (page,) = engine.read([page_of(60)])
    assert page.finish_reason == "length"


def test_pictures_go_through_the_models_own_view() -> None:
    with Engine(load("tiny", device="cpu"), max_batch=2) as engine:
        pages = [Image.new("L", (200, 120), 255), Image.new("RGB", (64, 640), (30, 60, 90))]
        first, second = engine.read(pages)
    assert (first.image_tokens, second.image_tokens) == (7 * 4, 2 * 16)
    assert first.finish_reason == second.finish_reason == "stop"
    assert first.text
    assert first.blocks[0].box == (0.0, 0.0, 200.0, 120.0)
    assert first.mean_logprob == pytest.approx(sum(first.logprobs) / len(first.logprobs))


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="mini, tiny"):
        load("huge")
    with pytest.raises(ValueError, match=r"known: gather, .*masked"):
        Engine(RandomAdapter(), backend="magic")
    with pytest.raises(ValueError, match="revision"):
        load("tiny", revision="other", device="cpu")


def test_cancelled_pages_count_as_done() -> None:
    with Engine(RandomAdapter(), SPARSE, max_batch=1, limits=SHORT) as engine:
        with engine._wake:  # the engine cannot read the pages before they are cancelled
            futures = submit_at_once(engine, [page_of(6, seed) for seed in range(12)])
            cancelled = [future.cancel() for future in futures[4:]]
        done, waiting = concurrent.futures.wait(futures, timeout=60)
    assert all(cancelled)
    assert not waiting
    assert len(done) == 12
