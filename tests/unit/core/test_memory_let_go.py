"""An engine that is done with holds no memory: its cache goes at once, not when garbage happens to be collected."""

import gc
from weakref import ref

import pytest
import torch

from fastocr_core import DecodePolicy, Engine, EngineLimits
from fastocr_core.kv_cache import SlotCache
from tests.parity.random_model import RandomAdapter, page_of

SHORT = EngineLimits(max_output_tokens=6)


@pytest.fixture
def caches(monkeypatch: pytest.MonkeyPatch) -> list["ref[SlotCache]"]:
    """All caches made from now on, not kept by this."""
    made: list[ref[SlotCache]] = []
    begin = SlotCache.__init__

    def note(self: SlotCache, *args: object) -> None:
        begin(self, *args)  # type: ignore[arg-type]
        made.append(ref(self))

    monkeypatch.setattr(SlotCache, "__init__", note)
    return made


@pytest.mark.parametrize("policy", ["dense", "fastocr", "h2o", "snapkv", "fastv"])
def test_a_closed_engine_holds_no_cache(policy: str, caches: list["ref[SlotCache]"]) -> None:
    gc.collect()
    gc.disable()
    try:
        with Engine(RandomAdapter(), DecodePolicy.named(policy), 2, SHORT) as engine:
            assert all(page.error is None for page in engine.read([page_of(9), page_of(12), page_of(20)]))
            assert any(cache() is not None for cache in caches)
        assert [cache() for cache in caches] == [None] * len(caches)
        assert engine.kv_bytes() == 0
    finally:
        gc.enable()


def test_a_batch_that_did_not_fit_is_gone_before_the_next_is_made(
    caches: list["ref[SlotCache]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, begun = RandomAdapter(), []
    sound = model.logits

    def logits(hidden: torch.Tensor) -> torch.Tensor:
        if len(begun) < 3:
            begun.append(1)
            if len(begun) == 3:
                raise MemoryError("no room")
        return sound(hidden)

    monkeypatch.setattr(model, "logits", logits)
    gc.collect()
    gc.disable()
    try:
        with Engine(model, None, 4, SHORT) as engine:
            pages = list(engine.read([page_of(9), page_of(12), page_of(20)]))
            assert engine.out_of_memory == 1
            assert [cache() is None for cache in caches[:-1]] == [True] * (len(caches) - 1)
    finally:
        gc.enable()
    assert all(page.error is None for page in pages)
    assert len(caches) == 2


def test_an_engine_that_read_nothing_is_closed() -> None:
    engine = Engine(RandomAdapter())
    engine.close()
    engine.close()
    assert engine.kv_bytes() == 0
    with pytest.raises(RuntimeError, match="closed"):
        engine.submit(page_of(3))
