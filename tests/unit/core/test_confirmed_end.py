"""A sparse step that would end a page is taken back and done again with the whole page in sight."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from torch import Tensor

from fastocr_core import DecodePolicy, Engine, EngineLimits, PageText
from fastocr_core.decoding.base import Policy
from fastocr_core.decoding.fastocr import FastOcrPolicy, build
from fastocr_core.models.base import ModelAdapter
from tests.parity.random_model import RandomAdapter, page_of

SETTINGS = DecodePolicy.fastocr(0.1, warmup_steps=3)
PAGES = [page_of(tokens, seed) for seed, tokens in enumerate((90, 17, 40, 64, 120, 75))]
STOPS = frozenset(range(9))


class Spying(FastOcrPolicy):
    """Notes which outputs of slot 0 were read again, counted from the first step."""

    again: list[int]
    done = 0

    def before_step(self, live: Sequence[int]) -> None:
        self.done += 1
        super().before_step(live)

    def look_around(self, slot: int) -> bool:
        again = super().look_around(slot)
        if again:
            self.done -= 1
            self.again.append(self.done + 1)
        return again


class Foreseeing(Spying):
    """Looks around in the steps it is told to, at once; nothing is done again."""

    def before_step(self, live: Sequence[int]) -> None:
        if self.done + 1 in self.again:
            self._held(0).to_look = True
        super().before_step(live)

    def look_around(self, slot: int) -> bool:
        return False


def read(
    adapter: RandomAdapter,
    number: int,
    kind: type[Spying],
    again: list[int],
    settings: DecodePolicy = SETTINGS,
) -> PageText:
    def made(settings: DecodePolicy, model: ModelAdapter, slots: int) -> Policy:
        policy = kind(slots, settings, model.focal_layers, 4, model.shape.layers)
        policy.again = again
        return policy

    with Engine(adapter, settings, 1, build=made) as engine:
        (result,) = engine.read([PAGES[number]])
    return result


@pytest.mark.parametrize("window", [None, 9])
def test_a_step_done_again_leaves_no_trace_of_the_first_try(window: int | None) -> None:
    adapter = RandomAdapter(text_window=window, stop_ids=STOPS)
    went_on = 0
    for number in range(len(PAGES)):
        again: list[int] = []
        result = read(adapter, number, Spying, again)
        foreseen = read(adapter, number, Foreseeing, again)
        assert result.tokens == foreseen.tokens
        assert result.logprobs == foreseen.logprobs
        assert result.finish_reason == foreseen.finish_reason
        if result.finish_reason == "stop" and len(result.tokens) > SETTINGS.warmup_steps:
            assert again[-1] == len(result.tokens), "the last step saw everything"
        went_on += sum(step < len(result.tokens) for step in again)
    assert went_on, "no page went on after a second look"


def test_switched_off_a_page_ends_where_the_sparse_step_says() -> None:
    adapter = RandomAdapter(stop_ids=STOPS)
    earlier = 0
    for number in range(len(PAGES)):
        again: list[int] = []
        confirmed = read(adapter, number, Spying, again)
        first = read(adapter, number, Spying, [], replace(SETTINGS, confirm_end=False))
        ends = again[0] if again else len(confirmed.tokens)
        assert first.tokens == confirmed.tokens[:ends]
        earlier += len(first.tokens) < len(confirmed.tokens)
    assert earlier


def test_what_is_read_for_the_second_look_is_counted() -> None:
    adapter, looks = RandomAdapter(stop_ids=STOPS), 0
    for number, page in enumerate(PAGES):
        again: list[int] = []
        result = read(adapter, number, Spying, again)
        kept = SETTINGS.kept_share * page.image_tokens
        kept = max(4, int(kept) + (kept != int(kept))) / page.image_tokens
        steps = len(result.tokens) - (result.finish_reason != "stop") - SETTINGS.warmup_steps
        if steps <= 0:
            continue
        sparse = steps * (2 + 3 * kept) / 5  # two focal layers of five see everything, in every first try
        assert result.image_kv_read_share == pytest.approx((sparse + len(again)) / (steps + len(again)))
        looks += len(again)
    assert looks


def test_logits_decide_again() -> None:
    """The end is said until everything is in sight, then another letter, then the end again."""
    adapter = RandomAdapter(stop_ids=frozenset({7}))
    policies: list[FastOcrPolicy] = []

    def made(settings: DecodePolicy, model: ModelAdapter, slots: int) -> Policy:
        policies.append(build(settings, model, slots, 4))  # type: ignore[arg-type]
        return policies[-1]

    heard: list[bool] = []

    def logits(hidden: Tensor) -> Tensor:
        fixation = policies[0]._slots[0]
        looking = fixation is None or fixation.steps <= 3 or fixation.looks_around
        heard.append(looking)
        scores = hidden.new_zeros(*hidden.shape[:-1], 128)
        scores[..., 11 if looking and len(heard) < 8 else 7] = 9.0
        return scores

    adapter.logits = logits  # type: ignore[method-assign]
    with Engine(adapter, SETTINGS, 1, build=made) as engine:
        (result,) = engine.read([PAGES[0]])
    assert heard == [True, True, True, True, False, True, False, True]
    assert result.tokens == (11,) * 5
    assert result.finish_reason == "stop"


def test_a_policy_that_fails_at_the_end_of_a_page_costs_that_page_alone() -> None:
    class Failing(FastOcrPolicy):
        def look_around(self, slot: int) -> bool:
            if self._held(slot).image_tokens == 64:
                raise RuntimeError("this page is too much")
            return super().look_around(slot)

    def made(settings: DecodePolicy, model: ModelAdapter, slots: int) -> Policy:
        return Failing(slots, settings, model.focal_layers or (0,), 4, model.shape.layers)

    adapter = RandomAdapter(stop_ids=STOPS)
    with Engine(adapter, SETTINGS, 4) as engine:
        expected = list(engine.read(PAGES))
    with Engine(adapter, SETTINGS, 4, build=made) as engine:
        results = list(engine.read(PAGES))
    for page, result, other in zip(PAGES, results, expected, strict=True):
        if page.image_tokens == 64:
            assert result.error == "RuntimeError: this page is too much"
            assert result.tokens == other.tokens[: len(result.tokens)]
        else:
            assert (result.error, result.tokens) == (None, other.tokens)


def test_the_time_limit_of_a_page_holds_while_it_looks_again() -> None:
    class Undecided(FastOcrPolicy):
        def look_around(self, slot: int) -> bool:
            return True

    def made(settings: DecodePolicy, model: ModelAdapter, slots: int) -> Policy:
        return Undecided(slots, settings, model.focal_layers or (0,), 4, model.shape.layers)

    limits = EngineLimits(seconds_per_page=0.05)
    with Engine(RandomAdapter(stop_ids=STOPS), SETTINGS, 1, limits, build=made) as engine:
        (result,) = engine.read([PAGES[1]])
    assert result.error == "TimeoutError: not finished within 0.05 s"
