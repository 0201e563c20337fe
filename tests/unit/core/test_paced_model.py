"""The reader that measurements use writes as much as its rhythm says, and slots are timed while it does."""

import numpy as np
from PIL import Image

from fastocr_core import DecodePolicy, Engine
from fastocr_core.bench.paced_model import PacedAdapter
from fastocr_core.bench.rhythm import Rhythm
from fastocr_core.slot_clock import SlotClock
from fastocr_core.vision import model_vision, prepare
from fastocr_core.vision.prepared import PreparedPage

SHORT = Rhythm(step_seconds=1.0, encode_seconds_per_token=0.5, shortest=3, longest=5, slow_factor=4)


def _pages(count: int) -> list[PreparedPage]:
    noise = np.random.default_rng(5)
    images = (noise.integers(0, 256, (32, 64), dtype=np.uint8) for _ in range(count))
    return [prepare(Image.fromarray(image), model_vision("tiny")) for image in images]


def test_a_page_writes_as_much_as_its_pixels_say_and_one_in_ten_is_long() -> None:
    pages = _pages(400)
    slow = [page for page in pages if SHORT.is_slow(page)]
    assert 20 <= len(slow) <= 60
    assert {SHORT.tokens_of(page) for page in pages} == {3, 4, 5, 12, 16, 20}
    assert all(SHORT.tokens_of(page) >= 12 for page in slow)
    chosen = [*slow[:3], *pages[:9]]
    with Engine(PacedAdapter(SHORT, lambda seconds: None), DecodePolicy.fastocr(), max_batch=4) as engine:
        for page, result in zip(chosen, engine.read(chosen), strict=True):
            assert (result.output_tokens, result.finish_reason) == (SHORT.tokens_of(page), "stop")
            assert len(result.text) == result.output_tokens


def test_a_slot_counts_as_filled_from_the_end_of_encoding_until_the_page_is_read() -> None:
    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    (page,) = _pages(1)
    with Engine(PacedAdapter(SHORT, wait), DecodePolicy.dense(), max_batch=4) as engine:
        engine._slot_clock = SlotClock(lambda: now)
        engine.submit(page).result()
        steps = SHORT.tokens_of(page) + 1  # one more says that the page ends
        assert now == page.image_tokens * 0.5 + steps
        assert engine.filled_seconds() == steps / 4
        now += 100.0
        assert engine.filled_seconds() == steps / 4


def test_a_clock_weighs_time_by_the_share_that_was_held() -> None:
    now = 5.0
    clock = SlotClock(lambda: now)
    now = 7.0
    clock.hold(0.5)
    now = 11.0
    assert clock.filled_seconds() == 2.0
    clock.hold(1.0)
    now = 12.0
    clock.hold(0.0)
    now = 50.0
    assert clock.filled_seconds() == 3.0
