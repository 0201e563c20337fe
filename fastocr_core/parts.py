"""A page that is read in parts: every part is a page to the slots, and the caller gets one result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from threading import Lock

from fastocr_core.output import FinishReason, PageText, mean_logprob
from fastocr_core.vision.prepared import PreparedPage

_WORST_FIRST: tuple[FinishReason, ...] = ("error", "loop", "length", "stop")


def submit_parts(page: PreparedPage, submit: Callable[[PreparedPage], Future[PageText]]) -> Future[PageText]:
    """Submit every part of a page; the future holds their joined result.

    Cancelling it takes back what has not begun, and so does a part that fails: the page has failed with it. What
    `submit` raises is passed on.
    """
    whole: Future[PageText] = Future()
    futures: list[Future[PageText]] = []
    lock, left = Lock(), len(page.parts)

    def one_is_done(done: Future[PageText]) -> None:
        nonlocal left
        if not done.cancelled() and done.result().finish_reason == "error":
            _cancel(futures)
        with lock:
            left -= 1
            if left:
                return
        if whole.set_running_or_notify_cancel():
            whole.set_result(join_parts([future.result() for future in futures if not future.cancelled()]))

    def is_cancelled(cancelled: Future[PageText]) -> None:
        if cancelled.cancelled():
            _cancel(futures)

    try:
        futures.extend(submit(part) for part in page.parts)
    except BaseException:
        _cancel(futures)
        raise
    whole.add_done_callback(is_cancelled)
    for future in futures:
        future.add_done_callback(one_is_done)
    return whole


def _cancel(futures: Iterable[Future[PageText]]) -> None:
    """Those that are being read are read to their end."""
    for future in futures:
        future.cancel()


def join_parts(parts: Sequence[PageText]) -> PageText:
    """The parts of one page, in reading order, as one reading.

    It ended as its worst part did, and waited until its first part was begun; shares are means over the image tokens (read
    share: weighed by the outputs too), times are sums over the parts.
    """
    worst = min(parts, key=lambda part: _WORST_FIRST.index(part.finish_reason))
    logprobs = tuple(value for part in parts for value in part.logprobs)
    image_tokens, outputs = (
        sum(part.image_tokens for part in parts),
        sum(part.output_tokens for part in parts),
    )
    reads = [part.image_tokens * part.output_tokens for part in parts]
    longest_loop = max(parts, key=lambda part: part.loop_share * part.output_tokens)
    return replace(
        worst,
        text="\n".join(part.text for part in parts if part.text),
        blocks=tuple(block for part in parts for block in part.blocks),
        tokens=tuple(token for part in parts for token in part.tokens),
        logprobs=logprobs,
        mean_logprob=mean_logprob(logprobs),
        min_logprob_window=min(part.min_logprob_window for part in parts),
        image_tokens=image_tokens,
        output_tokens=outputs,
        image_kv_read_share=_mean([part.image_kv_read_share for part in parts], reads),
        queue_seconds=min(part.queue_seconds for part in parts),
        encode_seconds=sum(part.encode_seconds for part in parts),
        decode_seconds=sum(part.decode_seconds for part in parts),
        loop_period=longest_loop.loop_period,
        loop_share=longest_loop.loop_share * longest_loop.output_tokens / max(1, outputs),
        kv_resident_share=_mean(
            [part.kv_resident_share for part in parts], [part.image_tokens for part in parts]
        ),
        banned_tokens=sum(part.banned_tokens for part in parts),
    )


def _mean(values: Sequence[float], weights: Sequence[int]) -> float:
    """Weighted mean; the plain one where nothing weighs anything."""
    if not sum(weights):
        return sum(values) / len(values)
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)
