"""A policy that lets another one decide and writes down what was looked at, for slot 0."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fastocr_core.attention.base import Selection
from fastocr_core.decoding.base import ImageGrid, Policy, PrefillView
from fastocr_core.models.base import ImageEncoding, PromptLayout


class RecordingPolicy(Policy):
    """Delegates to `inner`; keeps, per decode step, the strongest image tokens of `layer` and the set last seen by a sparse
    layer.

    `strongest[i]` is float64 [count, 2]: image token and its share of the layer's image attention, mean over heads;
    `seen[i]` int64, ascending, or None where nothing was left out.
    """

    def __init__(self, inner: Policy, layer: int, count: int) -> None:
        self._inner, self._layer, self._count = inner, layer, count
        self.needs_whole_prompt, self.needs_scored_encoding = (
            inner.needs_whole_prompt,
            inner.needs_scored_encoding,
        )
        self.strongest: list[Tensor] = []
        self.seen: list[Tensor | None] = []

    def compress(self, encoding: ImageEncoding, layout: PromptLayout) -> tuple[Tensor, PromptLayout]:
        """Handed on."""
        return self._inner.compress(encoding, layout)

    def observes_prefill(self, layer: int) -> bool:
        """Of the wrapped policy."""
        return self._inner.observes_prefill(layer)

    def take_prefill(self, layer: int, slot: int, view: PrefillView) -> None:
        """Handed on."""
        self._inner.take_prefill(layer, slot, view)

    def prefill_visible(self, layer: int, slot: int) -> Tensor | None:
        """Of the wrapped policy."""
        return self._inner.prefill_visible(layer, slot)

    def budget(self, image_tokens: int) -> int:
        """Of the wrapped policy."""
        return self._inner.budget(image_tokens)

    def admit(self, slot: int, image_tokens: int, grid: ImageGrid | None = None) -> None:
        """Handed on."""
        self._inner.admit(slot, image_tokens, grid)

    def admitted(self, slot: int) -> None:
        """Handed on."""
        self._inner.admitted(slot)

    def release(self, slot: int) -> None:
        """Handed on."""
        self._inner.release(slot)

    def before_step(self, live: Sequence[int]) -> None:
        """Handed on."""
        self._inner.before_step(live)
        self.strongest.append(torch.zeros(0, 2, dtype=torch.float64))
        self.seen.append(None)

    def warming_up(self, slot: int) -> bool:
        """Of the wrapped policy."""
        return self._inner.warming_up(slot)

    def selection(self, layer: int) -> Selection:
        """Of the wrapped policy; what slot 0 may see is noted."""
        selection = self._inner.selection(layer)
        if self.seen and selection.sets[0] is not None:
            self.seen[-1] = selection.sets[0].unique()  # type: ignore[no-untyped-call]
        return selection

    def wants_scores(self, layer: int, slot: int) -> bool:
        """Also for the recorded layer."""
        return layer == self._layer or self._inner.wants_scores(layer, slot)

    def take_scores(self, layer: int, slot: int, probabilities: Tensor) -> None:
        """Note, and hand on what the wrapped policy asked for."""
        if layer == self._layer and slot == 0:
            self._note(layer, probabilities.mean((0, 1)).double())
        if self._inner.wants_scores(layer, slot):
            self._inner.take_scores(layer, slot, probabilities)

    def resident_share(self, slot: int) -> float:
        """Of the wrapped policy."""
        return self._inner.resident_share(slot)

    def extra_bytes(self, image_tokens: int) -> int:
        """Of the wrapped policy."""
        return self._inner.extra_bytes(image_tokens)

    def _note(self, layer: int, mass: Tensor) -> None:
        """mass [seen]: image attention of one step, in the order of the slot's set where it has one."""
        top = (mass / mass.sum().clamp(min=1e-12)).topk(min(self._count, len(mass)))
        chosen = self._inner.selection(layer).sets[0]
        indices = top.indices if chosen is None else chosen[0][top.indices]
        self.strongest[-1] = torch.stack([indices.double(), top.values], dim=1).cpu()
