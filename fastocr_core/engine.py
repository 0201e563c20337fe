"""The engine: reads pages in a continuous batch. Pages join while others are decoded, and every page ends
in a result.

One background thread owns the model. It takes waiting pages into free slots, encodes and prefills each
alone, then runs one decode step for all slots, and so on. Which pages share a batch has no influence on any
page's tokens.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

import torch

from fastocr_core.attention import attention_backend
from fastocr_core.attention.base import Step
from fastocr_core.config import DecodePolicy, EngineLimits
from fastocr_core.decoding import build_policy
from fastocr_core.decoding.base import Policy
from fastocr_core.forward import Choice, DecoderForward
from fastocr_core.kv_cache import SlotCache
from fastocr_core.models.base import ModelAdapter
from fastocr_core.output import FinishReason, PageText
from fastocr_core.sequence import Request, Sequence, described, failed_page, finished_page
from fastocr_core.vision import prepare
from fastocr_core.vision.prepared import PreparedPage

if TYPE_CHECKING:
    from PIL.Image import Image

PROMPT_CAPACITY = 256
PolicyBuilder = Callable[[DecodePolicy, ModelAdapter, int], Policy]


class Engine:
    """Reads pages with one model and one decode policy.

    `backend` is `gather` or `masked` (the slow oracle); `build` makes the running policy, and so takes one of
    your own. Close it, or use it as a context manager.
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
        self._chooser = build(self.policy, model, max_batch)
        self._cache = SlotCache(
            model.shape,
            max_batch,
            model.vision.max_image_tokens,
            PROMPT_CAPACITY,
            self.max_output_tokens,
            model.text_window,
            torch.empty(0, device=model.device, dtype=model.dtype),
        )
        self._forward = DecoderForward(model, self._cache, self.backend, max_batch)
        # Where the gaze is taken from while a token cycle is suspected.
        self._gaze_layer = (self.policy.focal_layers or model.focal_layers or (model.shape.layers // 2,))[-1]
        # Of the newest token of every slot, int64 [axes, slots]; meaningless where a slot is empty.
        self._positions = torch.zeros(1, max_batch, dtype=torch.int64, device=model.device)
        self._running: dict[int, Sequence] = {}
        self._waiting: deque[Request] = deque()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.started_at = time.time()
        self.busy_seconds = 0.0  # encoding, prefilling and decoding
        self.decode_seconds = 0.0  # decode steps alone
        self.tokens_out = 0
        self.steps = 0
        self._filled_slots = 0

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
            layout = self.model.layout(prepared, prompt)
        except Exception as failure:  # errors are results
            future.set_result(failed_page(self.policy, described(failure), 0, 0.0))
            return future
        with self._wake:
            if self._closed:
                raise RuntimeError("the engine is closed")
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="fastocr-engine", daemon=True)
                self._thread.start()
            self._waiting.append(Request(prepared, layout, future, submitted_at))
            self._wake.notify()
        return future

    def close(self) -> None:
        """Finish what was submitted, then stop. Harmless when repeated."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def slot_fill(self) -> float:
        """Mean share of slots that held a page in the steps so far; 0.0 before the first."""
        return self._filled_slots / (self.steps * self.max_batch) if self.steps else 0.0

    def kv_bytes(self) -> int:
        """Bytes of cached keys and values of the pages being decoded now."""
        return self._cache.bytes_in_use()

    def _loop(self) -> None:
        with torch.inference_mode():
            while self._wait_for_work():
                try:
                    self._turn()
                except Exception as failure:  # nobody may wait for ever on a page
                    self._fail_running(described(failure))

    def _turn(self) -> None:
        """Take in what fits, then decode one step."""
        begun = time.monotonic()
        while (request := self._next_request()) is not None:
            self._admit(request)
        decode_begun = time.monotonic()
        if self._running:
            self._step()
        ended = time.monotonic()
        self.decode_seconds += ended - decode_begun
        self.busy_seconds += ended - begun

    def _wait_for_work(self) -> bool:
        """Block until there is something to do; False when closed and done."""
        with self._wake:
            while not self._waiting and not self._running:
                if self._closed:
                    return False
                self._wake.wait()
            return True

    def _next_request(self) -> Request | None:
        """The oldest waiting page if a slot is free and the token budget allows it; pages never overtake."""
        with self._wake:
            while self._waiting and self._waiting[0].future.cancelled():
                # tells those who wait for the future that it is done
                self._waiting.popleft().future.set_running_or_notify_cancel()
            if not self._waiting or self._cache.free_slots == 0:
                return None
            budget = self.limits.token_budget
            if budget is not None and self._running:
                requests = [self._waiting[0], *(sequence.request for sequence in self._running.values())]
                if sum(request.tokens_at_most(self.max_output_tokens) for request in requests) > budget:
                    return None
            return self._waiting.popleft()

    def _admit(self, request: Request) -> None:
        """Encode and prefill one page into a free slot; its first token comes from the prompt."""
        if not request.future.set_running_or_notify_cancel():
            return
        admitted_at = time.monotonic()
        slot = None
        try:
            image = self.model.encode(request.page)
            slot = self._cache.allocate(request.layout)
            choice = self._forward.prefill(slot, image, request.layout)
        except Exception as failure:  # errors are results, and other pages go on
            if slot is not None:
                self._cache.free(slot)
            queued = admitted_at - request.submitted_at
            result = failed_page(self.policy, described(failure), request.layout.image_tokens, queued)
            request.future.set_result(result)
            return
        sequence = Sequence(request, slot, admitted_at, time.monotonic())
        self._running[slot] = sequence
        self._set_positions(slot, request.layout.positions[:, -1])
        self._chooser.admit(slot, request.layout.image_tokens)
        self._take(sequence, choice, None)

    def _step(self) -> None:
        """One token for every page in a slot."""
        live = tuple(sorted(self._running))
        self._chooser.before_step(live)
        counts = {slot: self._running[slot].reads for slot in live if not self._chooser.warming_up(slot)}
        watched = frozenset(slot for slot in live if self._running[slot].guard.suspicious)
        step = Step(live, self._chooser, counts, watched, self._gaze_layer)
        tokens = [0] * self.max_batch
        for slot in live:
            tokens[slot] = self._running[slot].tokens[-1]
        fed = torch.tensor(tokens, device=self.model.device)
        self._positions = self.model.next_positions(self._positions, fed)
        choices = self._forward.step(fed, self._positions, step)
        self.steps += 1
        self._filled_slots += len(live)
        for slot in live:
            self._take(self._running[slot], choices[slot], step.gaze.get(slot))

    def _fail_running(self, error: str) -> None:
        """A step broke: the pages in the batch are lost, the engine and the waiting pages are not."""
        for sequence in list(self._running.values()):
            self._finish(sequence, "error", error)

    def _set_positions(self, slot: int, last: torch.Tensor) -> None:
        """Note where the prompt of a page ends, int64 [axes]."""
        if len(self._positions) != len(last):
            self._positions = self._positions.new_zeros(len(last), self.max_batch)
        self._positions[:, slot] = last

    def _take(self, sequence: Sequence, choice: Choice, gaze: float | None) -> None:
        """Add a token to a page, and finish the page where this was its end."""
        if not choice.logprob > -float("inf"):  # also true for not-a-number
            self._finish(sequence, "error", "the model produced logits that are not finite")
            return
        if choice.token in self.model.stop_ids:
            self._finish(sequence, "stop", None)
            return
        sequence.tokens.append(choice.token)
        sequence.logprobs.append(choice.logprob)
        self.tokens_out += 1
        if self.limits.stop_loops and sequence.guard.looping(choice.token, gaze):
            self._finish(sequence, "loop", None)
        elif len(sequence.tokens) >= self.max_output_tokens:
            self._finish(sequence, "length", None)

    def _finish(self, sequence: Sequence, reason: FinishReason, error: str | None) -> None:
        """Free the slot and hand out the result."""
        del self._running[sequence.slot]
        self._cache.free(sequence.slot)
        self._chooser.release(sequence.slot)
        sequence.request.future.set_result(finished_page(sequence, self.model, self.policy, reason, error))
