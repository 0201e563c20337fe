"""A page may take so long and no longer; its neighbours do not notice."""

import pytest

from fastocr_core import Engine, EngineLimits
from fastocr_core.sequence import Sequence
from tests.parity.random_model import RandomAdapter, page_of

PAGES = [page_of(tokens, tokens) for tokens in (30, 31, 32)]


def test_a_late_page_ends_with_what_it_has_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with Engine(RandomAdapter(), max_batch=3) as engine:
        whole = list(engine.read(PAGES))
    with Engine(RandomAdapter(), max_batch=3, limits=EngineLimits(seconds_per_page=1000.0)) as engine:
        end_if_late = engine._end_if_late

        def aged(batch: object, sequence: Sequence) -> None:
            if sequence.request.page.image_tokens == 31 and len(sequence.tokens) == 5:
                sequence.admitted_at -= 2000.0
            end_if_late(batch, sequence)  # type: ignore[arg-type]

        monkeypatch.setattr(engine, "_end_if_late", aged)
        results = list(engine.read(PAGES))
    assert (results[1].finish_reason, results[1].output_tokens) == ("error", 5)
    assert results[1].error == "TimeoutError: not finished within 1000 s"
    assert results[1].tokens == whole[1].tokens[:5]
    for index in (0, 2):
        assert results[index].tokens == whole[index].tokens


def test_waiting_does_not_count_and_no_limit_is_none() -> None:
    with Engine(RandomAdapter(), max_batch=1, limits=EngineLimits(seconds_per_page=None)) as engine:
        assert [page.finish_reason for page in engine.read(PAGES)] == ["length"] * 3
    with pytest.raises(ValueError, match="seconds_per_page"):
        EngineLimits(seconds_per_page=0.0)
