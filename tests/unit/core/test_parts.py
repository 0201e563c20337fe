"""Pages in parts: one result for all, cancelled together, and read in order by the embedded reader."""

import math
from concurrent.futures import Future
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fastocr_core import DecodePolicy, Engine, load
from fastocr_core.models.mini.heldout.pages import held_out_pages
from fastocr_core.output import PageText
from fastocr_core.parts import join_parts, submit_parts
from fastocr_core.scores.text import cer
from fastocr_core.sequence import failed_page
from fastocr_core.vision import prepare
from fastocr_core.vision.prepared import PreparedPage

EMPTY = replace(failed_page(DecodePolicy.dense(), "", 0, 0.0), finish_reason="stop", error=None)
PAGE = PreparedPage((), 1, 1, 1, "page", 1, 1, (1, 0, 0, 0, 1, 0), 1, 1, 1.0, 0.0)


def part(text: str, **changes: object) -> PageText:
    logprobs = tuple(-0.1 * index for index in range(len(text)))
    return replace(
        EMPTY, text=text, logprobs=logprobs, tokens=tuple(map(ord, text)), output_tokens=len(text), **changes
    )  # type: ignore[arg-type]


def test_joined_parts_are_one_reading() -> None:
    joined = join_parts(
        [
            part("abcd", image_tokens=100, image_kv_read_share=0.2, queue_seconds=3.0, decode_seconds=1.0),
            part("", queue_seconds=2.0),
            part("efgh", image_tokens=50, image_kv_read_share=0.5, queue_seconds=1.0, decode_seconds=2.0),
        ]
    )
    assert joined.text == "abcd\nefgh"
    assert joined.tokens == tuple(map(ord, "abcdefgh"))
    assert (joined.image_tokens, joined.output_tokens) == (150, 8)
    assert joined.image_kv_read_share == pytest.approx((0.2 * 400 + 0.5 * 200) / 600)
    assert (joined.queue_seconds, joined.decode_seconds) == (1.0, 3.0)
    assert joined.mean_logprob == pytest.approx(sum(joined.logprobs) / 8)


@given(st.permutations(["stop", "length", "loop", "error"]), st.integers(1, 4))
def test_a_page_ends_as_its_worst_part(reasons: list[str], count: int) -> None:
    texts = [part("x", finish_reason=reason, error=reason) for reason in reasons[:count]]
    worst = next(reason for reason in ("error", "loop", "length", "stop") if reason in reasons[:count])
    joined = join_parts(texts)
    assert (joined.finish_reason, joined.error) == (worst, worst)


def test_cancelling_the_page_cancels_its_parts_and_a_late_part_harms_nothing() -> None:
    futures: list[Future[PageText]] = []

    def submit(_: PreparedPage) -> Future[PageText]:
        futures.append(Future())
        return futures[-1]

    whole = submit_parts(replace(PAGE, parts=(PAGE, PAGE)), submit)
    futures[0].set_running_or_notify_cancel()
    assert whole.cancel()
    assert futures[1].cancelled()
    futures[0].set_result(part("late"))
    assert whole.cancelled()


def test_of_a_page_that_has_failed_no_further_part_is_begun() -> None:
    futures: list[Future[PageText]] = []

    def submit(_: PreparedPage) -> Future[PageText]:
        futures.append(Future())
        return futures[-1]

    whole = submit_parts(replace(PAGE, parts=(PAGE,) * 4), submit)
    for future in futures[:2]:
        future.set_running_or_notify_cancel()
    futures[0].set_result(part("late", finish_reason="error", error="TimeoutError: not finished"))
    assert [future.cancelled() for future in futures] == [False, False, True, True]
    assert not whole.done()
    futures[1].set_result(part("text"))
    assert (whole.result(0).finish_reason, whole.result(0).text) == ("error", "late\ntext")


def test_a_closed_engine_refuses_a_page_in_parts_and_keeps_none_of_it() -> None:
    model = load("tiny")
    engine = Engine(model, max_batch=1)
    whole = prepare(Image.new("L", (64, 64), 255), model.vision)
    futures: list[Future[PageText]] = []

    def submit(_: PreparedPage) -> Future[PageText]:
        if futures:
            raise RuntimeError("the engine is closed")
        futures.append(Future())
        return futures[-1]

    with pytest.raises(RuntimeError, match="closed"):
        submit_parts(replace(PAGE, parts=(PAGE, PAGE)), submit)
    assert futures[0].cancelled()
    engine.close()
    with pytest.raises(RuntimeError, match="closed"):
        engine.submit(replace(whole, parts=(whole, whole)))


def test_columns_are_read_one_after_the_other_with_their_boxes() -> None:
    page = list(held_out_pages("columns"))[6]
    prepared = prepare(page.image(), load("mini").vision)
    with Engine(load("mini"), DecodePolicy.dense(), 4) as engine:
        result = engine.submit(prepared).result()
        assert result.finish_reason == "stop"
        assert cer(page.text, result.text) < 0.1
        assert result.image_tokens == prepared.image_tokens
    boxes = [block.box for block in result.blocks if block.box is not None]
    lefts = [box[0] / prepared.source_width for box in boxes]
    leaps = [index for index in range(1, len(boxes)) if boxes[index][1] < boxes[index - 1][1] - 20]
    assert leaps
    assert all(lefts[index] > 0.4 for index in leaps[:1])
    assert all(box[2] <= prepared.source_width + 2 and box[3] <= prepared.source_height + 2 for box in boxes)
    assert math.isclose(result.image_kv_read_share, 1.0)
