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

    `strongest[i]` is float64 [at most count, 2]: image token and its share of the layer's image attention, mean over heads,
    of which each looks at its own tokens; `seen[i]` int64, ascending, what any head saw, or None where nothing was left
    out. Both name the page's own image tokens, also where the policy puts fewer into the prompt.
    """

    def __init__(self, inner: Policy, layer: int, count: int) -> None:
        self._inner, self._layer, self._count = inner, layer, count
        self.needs_whole_prompt, self.needs_scored_encoding = (
            inner.needs_whole_prompt,
            inner.needs_scored_encoding,
        )
        self.strongest: list[Tensor] = []
        self.seen: list[Tensor | None] = []
        self._again = False
        self._kept: Tensor | None = None  # image tokens that are in the prompt, None for all

    def compress(self, encoding: ImageEncoding, layout: PromptLayout) -> tuple[Tensor, PromptLayout]:
        """Handed on; which image tokens are kept shows in their positions."""
        embeddings, compressed = self._inner.compress(encoding, layout)
        before, after = _image_positions(layout), _image_positions(compressed)
        self._kept = None
        if after.shape != before.shape:
            self._kept = (after[:, :, None] == before[:, None, :]).all(0).int().argmax(1).cpu()
        return embeddings, compressed

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
        """Handed on. A step that is done again is noted in place of the first try."""
        self._inner.before_step(live)
        if self._again:
            self.strongest.pop()
            self.seen.pop()
            self._again = False
        self.strongest.append(torch.zeros(0, 2, dtype=torch.float64))
        self.seen.append(self._kept)

    def warming_up(self, slot: int) -> bool:
        """Of the wrapped policy."""
        return self._inner.warming_up(slot)

    def look_around(self, slot: int) -> bool:
        """As the wrapped policy says."""
        self._again = self._inner.look_around(slot)
        return self._again

    def selection(self, layer: int) -> Selection:
        """Of the wrapped policy; what slot 0 may see is noted."""
        selection = self._inner.selection(layer)
        if self.seen and selection.sets[0] is not None:
            self.seen[-1] = self._on_page(selection.sets[0].unique())  # type: ignore[no-untyped-call]
        return selection

    def wants_scores(self, layer: int, slot: int) -> bool:
        """Also for the recorded layer."""
        return layer == self._layer or self._inner.wants_scores(layer, slot)

    def take_scores(self, layer: int, slot: int, probabilities: Tensor) -> None:
        """Note, and hand on what the wrapped policy asked for."""
        if layer == self._layer and slot == 0:
            self._note(layer, probabilities.mean(1).double())
        if self._inner.wants_scores(layer, slot):
            self._inner.take_scores(layer, slot, probabilities)

    def resident_share(self, slot: int) -> float:
        """Of the wrapped policy."""
        return self._inner.resident_share(slot)

    def extra_bytes(self, image_tokens: int) -> int:
        """Of the wrapped policy."""
        return self._inner.extra_bytes(image_tokens)

    def _note(self, layer: int, mass: Tensor) -> None:
        """mass [kv_heads, seen]: image attention of one step, in the order of each head's own set where there is one."""
        chosen = self._inner.selection(layer).sets[0]
        if chosen is None:
            tokens, received = torch.arange(mass.shape[1], device=mass.device), mass.mean(0)
        else:
            tokens, places = chosen.expand_as(mass).unique(return_inverse=True)  # type: ignore[no-untyped-call]
            received = mass.new_zeros(len(tokens)).index_add_(0, places.flatten(), mass.flatten()) / len(mass)
        top = (received / received.sum().clamp(min=1e-12)).topk(min(self._count, len(tokens)))
        indices = self._on_page(tokens[top.indices])
        self.strongest[-1] = torch.stack([indices.double(), top.values.cpu()], dim=1)

    def _on_page(self, tokens: Tensor) -> Tensor:
        """Image tokens of the prompt as those of the page, on the CPU."""
        return tokens.cpu() if self._kept is None else self._kept[tokens.cpu()]


def _image_positions(layout: PromptLayout) -> Tensor:
    """[axes, image_tokens]"""
    return layout.positions[:, layout.image_start : layout.image_start + layout.image_tokens]
