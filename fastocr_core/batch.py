"""What is in the slots: pages whose prompt is being cached, and pages being decoded.

A batch belongs to one slot cache. When memory runs out it is dropped whole, and a smaller one takes its
pages up from the start.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch

from fastocr_core.attention.base import AttentionBackend, Step
from fastocr_core.config import DecodePolicy
from fastocr_core.decoding import build_policy
from fastocr_core.decoding.base import Policy
from fastocr_core.forward import Choice, DecoderForward, Prompt
from fastocr_core.kv_cache import SlotCache
from fastocr_core.models.base import ImageEncoding, ModelAdapter
from fastocr_core.sequence import Request, Sequence, described

PolicyBuilder = Callable[[DecodePolicy, ModelAdapter, int], Policy]


@dataclass(frozen=True, slots=True)
class Taken:
    """What a step or the end of a prompt gave a page: a choice, or an error of this page alone. `gaze` is
    where the step looked, as a mean raster index, None if not asked.
    """

    sequence: Sequence
    choice: Choice | None
    gaze: float | None = None
    error: str | None = None


class Batch:
    """Slots of one model under one policy. Not thread-safe; nothing here touches a future."""

    def __init__(
        self,
        model: ModelAdapter,
        settings: DecodePolicy,
        backend: AttentionBackend,
        slots: int,
        max_output_tokens: int,
        prefill_chunk: int,
        build: PolicyBuilder = build_policy,
    ) -> None:
        self.slots, self.policy = slots, build(settings, model, slots)
        self.cache = SlotCache(
            model.shape,
            slots,
            model.vision.max_image_tokens,
            model.max_prompt_tokens,
            max_output_tokens,
            model.text_window,
            torch.empty(0, device=model.device, dtype=model.dtype),
        )
        self.running: dict[int, Sequence] = {}
        self._model, self._chunk = model, prefill_chunk
        self._forward = DecoderForward(model, self.cache, backend, self.policy)
        self._filling: deque[tuple[Sequence, Prompt]] = deque()
        # Where the gaze is taken from while a token cycle is suspected.
        self._gaze_layer = (settings.focal_layers or model.focal_layers or (model.shape.layers // 2,))[-1]
        # Of the newest token of every slot, int64 [axes, slots]; meaningless where a slot is not running.
        self._positions = torch.zeros(1, slots, dtype=torch.int64, device=model.device)
        self._positions_before = self._positions  # the newest step

    @property
    def filling(self) -> Request | None:
        """The page whose prompt is under way, None for none."""
        return self._filling[0][0].request if self._filling else None

    @property
    def held(self) -> int:
        """How many pages are in the slots."""
        return len(self._filling) + len(self.running)

    @property
    def requests(self) -> list[Request]:
        """All pages in the slots."""
        return [sequence.request for sequence, _ in self._filling] + [
            sequence.request for sequence in self.running.values()
        ]

    def admit(self, request: Request, now: float) -> None:
        """Encode a page and give it a slot; its prompt is cached by `fill`. A failure leaves no trace."""
        encoding = (
            self._model.encode_scored(request.page)
            if self.policy.needs_scored_encoding
            else ImageEncoding(self._model.encode(request.page))
        )
        image, layout = self.policy.compress(encoding, request.layout)
        slot = self.cache.allocate(layout)
        sequence = Sequence(request, slot, layout, now)
        try:
            grid = self._model.image_grid(request.page)
            self.policy.admit(slot, layout.image_tokens, grid)
            self._filling.append((sequence, self._forward.prompt(slot, image, layout, grid)))
        except Exception:
            self.release(sequence)
            raise

    def fill(self) -> tuple[int, Taken | None]:
        """Cache the next piece of the oldest prompt: how many entries, and at its end the first choice.

        A failure takes the page out of its slot.
        """
        sequence, prompt = self._filling[0]
        before = prompt.left
        most = before if self.policy.needs_whole_prompt else self._chunk
        try:
            choice = self._forward.prefill(prompt, most, self._model.ban(()))
            if choice is not None:
                self.policy.admitted(sequence.slot)
        except Exception:
            self._filling.popleft()
            self.release(sequence)
            raise
        if choice is None:
            return before - prompt.left, None
        self._filling.popleft()
        self.running[sequence.slot] = sequence
        self._set_positions(sequence.slot, prompt.layout.positions[:, -1])
        return before, Taken(sequence, choice)

    def step(self) -> list[Taken]:
        """One token for every page being decoded."""
        live = tuple(sorted(self.running))
        self.policy.before_step(live)
        counts = {slot: self.running[slot].reads for slot in live if not self.policy.warming_up(slot)}
        watched = frozenset(slot for slot in live if self.running[slot].guard.suspicious)
        step = Step(live, self.policy, counts, watched, self._gaze_layer)
        tokens = [0] * self.slots
        banned: dict[int, Collection[int]] = {}
        errors: dict[int, str] = {}
        for slot in live:
            tokens[slot] = self.running[slot].tokens[-1]
            try:
                banned[slot] = self._model.ban(self.running[slot].tokens)
            except Exception as failure:  # this page's own trouble
                errors[slot] = described(failure)
        fed = torch.tensor(tokens, device=self._model.device)
        self._positions_before = self._positions
        self._positions = self._model.next_positions(self._positions, fed)
        choices = self._forward.step(fed, self._positions, step, banned)
        return [
            Taken(
                self.running[slot],
                None if slot in errors else choices[slot],
                step.gaze.get(slot),
                errors.get(slot),
            )
            for slot in live
        ]

    def look_around(self, sequence: Sequence) -> bool:
        """The newest step ended a page. True: it was taken back, and the next one does it again with the whole page in
        sight, where the policy wants that.
        """
        slot = sequence.slot
        if not sequence.tokens or not self.policy.look_around(slot):
            return False
        self.cache.held(slot).outputs -= 1
        self._positions[:, slot] = self._positions_before[:, slot]
        return True

    def release(self, sequence: Sequence) -> float:
        """Free the slot of a page; the share of its cached image rows that the policy still needed."""
        self.running.pop(sequence.slot, None)
        self.cache.free(sequence.slot)
        try:
            return self.policy.resident_share(sequence.slot)
        finally:
            self.policy.release(sequence.slot)

    def abandon(self) -> list[Request]:
        """Take all pages out of their slots, in the order of submission."""
        requests = sorted(self.requests, key=lambda request: request.number)
        for sequence in [sequence for sequence, _ in self._filling] + list(self.running.values()):
            with contextlib.suppress(Exception):  # a policy that cannot let go must not cost the other pages
                self.release(sequence)
        self._filling.clear()
        return requests

    def _set_positions(self, slot: int, last: torch.Tensor) -> None:
        """Note where the prompt of a page ends, int64 [axes]."""
        if len(self._positions) != len(last):
            self._positions = self._positions.new_zeros(len(last), self.slots)
        self._positions[:, slot] = last
