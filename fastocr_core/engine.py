"""The engine: reads pages in a continuous batch. Pages join while others are decoded, and every page ends
in a result.

One background thread owns the model. It takes waiting pages into free slots, encodes each alone and caches
its prompt in chunks, with one decode step of all slots in between. Which pages share a batch has no
influence on any page's tokens.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

import torch

from fastocr_core.attention import attention_backend
from fastocr_core.batch import Batch, PolicyBuilder, Taken
from fastocr_core.config import DecodePolicy, EngineLimits
from fastocr_core.decoding import build_policy
from fastocr_core.memory import is_out_of_memory, release_cached_memory
from fastocr_core.models.base import ModelAdapter
from fastocr_core.output import FinishReason, PageText
from fastocr_core.parts import submit_parts
from fastocr_core.sequence import Request, Sequence, described, failed_page, finished_page
from fastocr_core.slot_clock import SlotClock
from fastocr_core.vision import prepare
from fastocr_core.vision.prepared import PreparedPage

if TYPE_CHECKING:
    from PIL.Image import Image


class Engine:
    """Reads pages with one model and one decode policy.

    `backend` is the name of an attention backend, `gather` by default; `masked` is the slow oracle. `build`
    makes the running policy, for policies that no setting names. Close the engine, or use it as a context
    manager. Where memory runs out, slots and token budget are halved and the
    pages are read again; `out_of_memory` and `pages_restarted` count that, `slots` and `token_budget` are what
    is in force.
    """

    def __init__(
        self,
        model: ModelAdapter,
        policy: DecodePolicy | None = None,
        max_batch: int = 8,
        limits: EngineLimits | None = None,
        backend: str = "gather",
        build: PolicyBuilder = build_policy,
    ) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch must be at least 1, not {max_batch}")
        self.model, self.max_batch = model, max_batch
        self.policy, self.limits = policy or DecodePolicy.dense(), limits or EngineLimits()
        self.max_output_tokens = min(
            model.max_output_tokens, self.limits.max_output_tokens or model.max_output_tokens
        )
        self.backend = attention_backend(backend)
        self.slots, self.token_budget = max_batch, self.limits.token_budget
        self._waiting: deque[Request] = deque()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._submitted = 0
        self.started_at = time.time()
        self.busy_seconds = 0.0  # encoding, prefilling and decoding
        self.decode_seconds = 0.0  # decode steps alone
        self.tokens_out = 0
        self.steps = 0
        self.prefill_chunks = 0
        self.out_of_memory = 0
        self.pages_restarted = 0
        self._filled_slots = 0
        self._offered_slots = 0
        self._slot_clock = SlotClock()
        self._batch: Batch | None = None
        self._build_policy = build
        self._build()

    def read(self, pages: "Iterable[Image | PreparedPage]", prompt: str | None = None) -> Iterator[PageText]:
        """Results in input order, streaming; at most `max_batch + limits.pages_ahead` pages are held at
        once.
        """
        ahead: deque[Future[PageText]] = deque()
        try:
            for page in pages:
                ahead.append(self.submit(page, prompt))
                if len(ahead) >= self.max_batch + self.limits.pages_ahead:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()

    def submit(self, page: "Image | PreparedPage", prompt: str | None = None) -> "Future[PageText]":
        """Queue one page; callable from any thread. The future holds a result even where the page failed.

        RuntimeError after `close`.
        """
        future: Future[PageText] = Future()
        submitted_at = time.monotonic()
        try:
            prepared = page if isinstance(page, PreparedPage) else prepare(page, self.model.vision)
            layout = None if prepared.parts else self.model.layout(prepared, prompt)
        except Exception as failure:  # errors are results
            future.set_result(failed_page(self.policy, described(failure), 0, 0.0))
            return future
        if layout is None:
            return submit_parts(prepared, lambda part: self.submit(part, prompt))
        with self._wake:
            if self._closed:
                raise RuntimeError("the engine is closed")
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="fastocr-engine", daemon=True)
                self._thread.start()
            self._submitted += 1
            self._waiting.append(Request(prepared, layout, future, submitted_at, self._submitted))
            self._wake.notify()
        return future

    async def read_async(self, page: "Image | PreparedPage", prompt: str | None = None) -> PageText:
        """One page, for an asyncio loop: images are prepared in a thread, and the loop goes on meanwhile.

        Cancelling it takes a page that has not been begun out of the queue.
        """
        if isinstance(page, PreparedPage):
            future = self.submit(page, prompt)
        else:
            future = await asyncio.to_thread(self.submit, page, prompt)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Finish what was submitted, then stop, and let go of the cache. Harmless when repeated."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is threading.current_thread():
            return
        if self._thread is not None:
            self._thread.join()
        self._batch = None

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def slot_fill(self) -> float:
        """Mean share of slots that held a page being decoded in the steps so far; 0.0 before the first."""
        return self._filled_slots / self._offered_slots if self._offered_slots else 0.0

    def filled_seconds(self) -> float:
        """Seconds since the engine was made, each weighted by the share of slots that held a page. A page that is
        being encoded is in no slot yet.
        """
        return self._slot_clock.filled_seconds()

    def kv_bytes(self) -> int:
        """Bytes of cached keys and values of the pages in the slots now."""
        batch = self._batch
        return batch.cache.bytes_in_use() if batch else 0

    def _loop(self) -> None:
        with torch.inference_mode():
            while self._wait_for_work():
                try:
                    self._turn(self._batch or self._build())
                except Exception as failure:  # nobody may wait for ever on a page
                    self._give_up(described(failure))

    def _wait_for_work(self) -> bool:
        """Block until there is something to do; False when closed and done."""
        with self._wake:
            while not self._waiting and not (self._batch and self._batch.requests):
                if self._closed:
                    return False
                self._wake.wait()
            return True

    def _turn(self, batch: Batch) -> None:
        """Take in about one chunk of prompts, all that fits if nobody is being decoded; then one step."""
        begun = time.monotonic()
        most = self.limits.prefill_chunk if batch.running else None
        taken_in = 0
        while (most is None or taken_in < most) and self._batch is batch:
            if batch.filling is None and not self._admit_next(batch):
                break
            taken_in += self._fill(batch)
        decode_begun = time.monotonic()
        if batch.running and self._batch is batch:
            self._step(batch)
        ended = time.monotonic()
        self.decode_seconds += ended - decode_begun
        self.busy_seconds += ended - begun

    def _next_request(self, batch: Batch) -> Request | None:
        """The oldest waiting page if a slot is free and the token budget allows it; pages never overtake."""
        with self._wake:
            while self._waiting and self._waiting[0].future.cancelled():
                # tells those who wait for the future that it is done
                self._waiting.popleft().future.set_running_or_notify_cancel()
            if not self._waiting or batch.cache.free_slots == 0:
                return None
            held, first = batch.requests, self._waiting[0]
            if held and (first.alone or any(request.alone for request in held)):
                return None
            if self.token_budget is not None and held:
                tokens = sum(request.tokens_at_most(self.max_output_tokens) for request in [first, *held])
                if tokens > self.token_budget:
                    return None
            return self._waiting.popleft()

    def _admit_next(self, batch: Batch) -> bool:
        """Bring the next page into a slot; False if there is none to bring."""
        while (request := self._next_request(batch)) is not None:
            if not request.started and not request.future.set_running_or_notify_cancel():
                continue
            request.started = True
            admitted_at = time.monotonic()
            try:
                batch.admit(request, admitted_at)
                self._note_slots()
                return True
            except Exception as failure:  # errors are results, and other pages go on
                self._refuse(batch, request, failure)
                if self._batch is not batch:
                    return False
        return False

    def _fill(self, batch: Batch) -> int:
        """One piece of the oldest prompt: how many entries."""
        request = batch.filling
        assert request is not None, "no prompt is under way"
        try:
            entries, taken = batch.fill()
        except Exception as failure:  # errors are results, and other pages go on
            self._refuse(batch, request, failure)
            return 0
        self.prefill_chunks += 1
        if taken is not None:
            taken.sequence.prefilled_at = time.monotonic()
            self._take(batch, taken)
        return entries

    def _step(self, batch: Batch) -> None:
        try:
            taken = batch.step()
        except Exception as failure:
            self._step_broke(batch, failure)
            return
        self.steps += 1
        self._filled_slots += len(taken)
        self._offered_slots += batch.slots
        for one in taken:
            self._take(batch, one)

    def _take(self, batch: Batch, taken: Taken) -> None:
        """Add a token to a page, and finish the page where this was its end."""
        sequence, choice = taken.sequence, taken.choice
        if choice is None:
            self._finish(batch, sequence, "error", taken.error)
            return
        if not choice.logprob > -float("inf"):  # also true for not-a-number
            self._finish(batch, sequence, "error", "the model produced logits that are not finite")
            return
        if choice.token in self.model.stop_ids:
            self._end(batch, sequence, choice.banned)
            return
        sequence.banned += choice.banned
        sequence.tokens.append(choice.token)
        sequence.logprobs.append(choice.logprob)
        self.tokens_out += 1
        looping = sequence.guard.looping(choice.token, taken.gaze)
        if looping and self.limits.stop_loops:
            self._finish(batch, sequence, "loop", None)
        elif len(sequence.tokens) >= self.max_output_tokens:
            self._finish(batch, sequence, "length", None)
        else:
            self._end_if_late(batch, sequence)

    def _end(self, batch: Batch, sequence: Sequence, banned: int) -> None:
        """The page says that it ends here; a policy that left something out may want to look again."""
        try:
            again = batch.look_around(sequence)
        except Exception as failure:  # a policy at fault costs this page alone
            self._finish(batch, sequence, "error", described(failure))
            return
        if again:
            self._end_if_late(batch, sequence)
            return
        sequence.banned += banned
        self._finish(batch, sequence, "stop", None)

    def _end_if_late(self, batch: Batch, sequence: Sequence) -> None:
        """Waiting in the queue does not count: only the time since the page was taken in."""
        limit = self.limits.seconds_per_page
        if limit is not None and time.monotonic() - sequence.admitted_at > limit:
            late = TimeoutError(f"not finished within {limit:g} s")
            self._finish(batch, sequence, "error", described(late))

    def _finish(self, batch: Batch, sequence: Sequence, reason: FinishReason, error: str | None) -> None:
        """Free the slot and hand out the result."""
        try:
            try:
                resident = batch.release(sequence)
            finally:
                self._note_slots()
            result = finished_page(sequence, self.model, self.policy, reason, error, resident)
        except Exception as failure:  # a policy or an adapter at fault: the page is in no slot any more
            queued = sequence.admitted_at - sequence.request.submitted_at
            tokens = sequence.request.layout.image_tokens
            result = failed_page(self.policy, error or described(failure), tokens, queued)
        sequence.request.future.set_result(result)

    def _refuse(self, batch: Batch, request: Request, failure: Exception) -> None:
        """A page could not be taken in: it is read again with less in memory, or has failed."""
        self._note_slots()
        out_of_memory = is_out_of_memory(failure)
        if out_of_memory and self._shrink(batch, request):
            return
        queued = time.monotonic() - request.submitted_at
        result = failed_page(self.policy, described(failure), request.layout.image_tokens, queued)
        request.future.set_result(result)
        if out_of_memory:
            self._restore(request)

    def _step_broke(self, batch: Batch, failure: Exception) -> None:
        """Read the pages again: with less in memory, or each alone, so that only the one at fault fails."""
        only = next(iter(batch.running.values())) if len(batch.requests) == 1 else None
        out_of_memory = is_out_of_memory(failure)
        if out_of_memory and self._shrink(batch, None):
            return
        if only is not None:
            self._finish(batch, only, "error", described(failure))
            if out_of_memory:
                self._restore(only.request)
            return
        suspects = {sequence.request.number for sequence in batch.running.values()}
        requests = batch.abandon()
        for request in requests:
            request.alone = request.alone or request.number in suspects
        self._requeue(requests)

    def _shrink(self, batch: Batch, refused: Request | None) -> bool:
        """Halve slots and token budget and read all pages again, with them the one that was refused.

        False if that was one page in one slot: less there cannot be.
        """
        self.out_of_memory += 1
        requests = batch.requests + ([] if refused is None else [refused])
        if batch.slots == 1 and len(requests) == 1:
            return False
        for request in requests:
            request.memory_before = request.memory_before or (self.slots, self.token_budget)
        if len(requests) > 1:
            tokens = sum(request.tokens_at_most(self.max_output_tokens) for request in requests)
            self.token_budget = min(self.token_budget or tokens, max(1, tokens // 2))
        self.slots = max(1, batch.slots // 2)
        batch.abandon()
        self._requeue(requests)
        self._batch = None
        return True

    def _restore(self, request: Request) -> None:
        """One page alone was too much: the others get back what was taken from them on its account."""
        if request.memory_before is not None:
            self.slots, self.token_budget = request.memory_before
            self._batch = None

    def _note_slots(self) -> None:
        """Pages came into slots or left them."""
        batch = self._batch
        self._slot_clock.hold(batch.held / batch.slots if batch else 0.0)

    def _requeue(self, requests: list[Request]) -> None:
        """Pages go back to where they stood in the queue."""
        self._slot_clock.hold(0.0)
        self.pages_restarted += len(requests)
        with self._wake:
            self._waiting = deque(sorted([*requests, *self._waiting], key=lambda request: request.number))

    def _build(self) -> Batch:
        """A batch of `slots` slots, or of as many as there is memory for. Raises if there is none for one."""
        if self.out_of_memory:
            release_cached_memory()
        while True:
            try:
                self.backend.cache_replaced()
                self._batch = Batch(
                    self.model,
                    self.policy,
                    self.backend,
                    self.slots,
                    self.max_output_tokens,
                    self.limits.prefill_chunk,
                    self._build_policy,
                )
                return self._batch
            except Exception as failure:
                if not is_out_of_memory(failure) or self.slots == 1:
                    raise
            self.out_of_memory += 1
            self.slots //= 2
            release_cached_memory()

    def _give_up(self, error: str) -> None:
        """Something broke that no page can be blamed for: what is in the slots is lost, or the next page if
        there are no slots; the engine and the waiting pages are not.
        """
        requests = self._batch.abandon() if self._batch else []
        self._batch = None
        self._note_slots()
        with self._wake:
            if not requests and self._waiting:
                requests.append(self._waiting.popleft())
        for request in requests:
            if not request.started and not request.future.set_running_or_notify_cancel():
                continue
            if not request.future.done():
                request.future.set_result(failed_page(self.policy, error, request.layout.image_tokens, 0.0))
