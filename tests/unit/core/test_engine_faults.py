"""Faults of an adapter or a policy in places where a page is already out of its slot: nobody waits for ever."""

from collections.abc import Sequence
from typing import Any

import pytest

from fastocr_core import DecodePolicy, Engine, EngineLimits
from fastocr_core.decoding.base import ImageGrid, Policy
from fastocr_core.decoding.dense import DensePolicy
from fastocr_core.models.base import ModelAdapter
from fastocr_core.vision.prepared import PreparedPage
from tests.parity.random_model import RandomAdapter, page_of

PAGES = [page_of(tokens, tokens) for tokens in (30, 31, 32, 33, 34)]
SHORT = EngineLimits(max_output_tokens=12)
PATIENCE_SECONDS = 60  # only a test that fails waits so long


class Unforgiving(DensePolicy):
    """Raises when the page of 32 image tokens leaves its slot."""

    def __init__(self, slots: int, where: str) -> None:
        super().__init__(slots)
        self.where, self.of_slot = where, dict[int, int]()

    def admit(self, slot: int, image_tokens: int, grid: ImageGrid | None = None) -> None:
        super().admit(slot, image_tokens, grid)
        self.of_slot[slot] = image_tokens

    def release(self, slot: int) -> None:
        super().release(slot)
        self._raise(slot, "release")

    def resident_share(self, slot: int) -> float:
        self._raise(slot, "resident_share")
        return 1.0

    def _raise(self, slot: int, where: str) -> None:
        if self.where == where and self.of_slot[slot] == 32:
            raise LookupError("the policy lost the page")


@pytest.mark.parametrize("where", ["release", "resident_share"])
def test_a_policy_that_cannot_let_go_of_a_page_fails_that_page_alone(where: str) -> None:
    def build(settings: DecodePolicy, model: ModelAdapter, slots: int) -> Policy:
        return Unforgiving(slots, where)

    with Engine(RandomAdapter(), max_batch=2, limits=SHORT) as engine:
        whole = list(engine.read(PAGES))
    with Engine(RandomAdapter(), max_batch=2, limits=SHORT, build=build) as engine:
        futures = [engine.submit(page) for page in PAGES]
        results = [future.result(timeout=PATIENCE_SECONDS) for future in futures]
        assert engine.kv_bytes() == 0
    assert results[2].error == "LookupError: the policy lost the page"
    for index in (0, 1, 3, 4):
        assert (results[index].tokens, results[index].logprobs) == (
            whole[index].tokens,
            whole[index].logprobs,
        )


def test_pages_of_a_batch_that_is_given_up_are_read_again_whatever_the_policy_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build(settings: DecodePolicy, model: ModelAdapter, slots: int) -> Policy:
        return Unforgiving(slots, "release")

    with Engine(RandomAdapter(), max_batch=4, limits=SHORT, build=build) as engine:
        attend, broken = engine.backend.attend, False

        def once(*arguments: Any) -> Any:
            nonlocal broken
            if not broken and len(arguments[-1].live) == 4:
                broken = True
                raise RuntimeError("a kernel broke")
            return attend(*arguments)

        monkeypatch.setattr(engine.backend, "attend", once)
        futures = [engine.submit(page) for page in PAGES]
        errors = [future.result(timeout=PATIENCE_SECONDS).error for future in futures]
        assert engine.pages_restarted == 4
    assert errors == [None, None, "LookupError: the policy lost the page", None, None]


def test_an_adapter_that_parses_to_nothing_is_an_error_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(self: RandomAdapter, tokens: Sequence[int], page: PreparedPage) -> None:
        return None

    monkeypatch.setattr(RandomAdapter, "parse", parse)
    with Engine(RandomAdapter(), max_batch=2, limits=SHORT) as engine:
        results = [engine.submit(page).result(timeout=PATIENCE_SECONDS) for page in PAGES[:2]]
    assert [page.finish_reason for page in results] == ["error"] * 2
    assert "NoneType" in (results[0].error or "")
