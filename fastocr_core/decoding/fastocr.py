"""The FastOCR policy (arXiv 2605.17447): focal-guided pruning and cross-step fixation reuse.

After w dense warm-up steps, a focal layer looks at everything and its strongest k image tokens are what the
layers below it in the stack order look at, until the next focal layer. Layers before the first focal layer
use what the deepest focal layer chose one step before. Nothing is evicted from the cache.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from fastocr_core.attention.base import Selection
from fastocr_core.config import DecodePolicy, Pooling
from fastocr_core.decoding.base import ImageGrid, Policy


@dataclass(slots=True)
class SlotFixation:
    """What one page looks at: `chosen` int64 [kv_heads, kept], None before the first choice."""

    image_tokens: int
    kept: int
    steps: int = 0
    chosen: Tensor | None = None


class FastOcrPolicy(Policy):
    """Warm-up, focal layers, reuse. `floor` and `focal_layers` come resolved for the model."""

    def __init__(
        self,
        slots: int,
        settings: DecodePolicy,
        focal_layers: Sequence[int],
        floor: int,
        layers: int,
        pooling: Pooling = "kv_max",
    ) -> None:
        focal = tuple(sorted(set(focal_layers)))
        if not focal or focal[0] < 0 or focal[-1] >= layers:
            raise ValueError(f"focal layers must be some of 0..{layers - 1}, not {tuple(focal_layers)}")
        self.focal_layers = focal
        self._focal = frozenset(focal)
        self._settings, self._floor = settings, floor
        self._pooling = settings.pooling or pooling
        self._slots: list[SlotFixation | None] = [None] * slots
        self._everything = Selection((None,) * slots)
        self._current: Selection | None = None

    def budget(self, image_tokens: int) -> int:
        """k = max(ceil(kept_share * N), floor), at most N."""
        # The small term undoes products such as 0.05 * 560 = 28.000000000000004.
        share = math.ceil(self._settings.kept_share * image_tokens - 1e-9)
        return min(image_tokens, max(share, self._floor))

    def admit(self, slot: int, image_tokens: int, grid: ImageGrid | None = None) -> None:
        """Start the warm-up of a page."""
        self._slots[slot] = SlotFixation(image_tokens, self.budget(image_tokens))
        self._current = None

    def release(self, slot: int) -> None:
        """Forget the page."""
        self._slots[slot] = None
        self._current = None

    def before_step(self, live: Sequence[int]) -> None:
        """Count the step of every page; pages that leave their warm-up become sparse."""
        for slot in live:
            self._held(slot).steps += 1
        self._current = None

    def warming_up(self, slot: int) -> bool:
        """Steps 1..w of a page are dense."""
        return self._held(slot).steps <= self._settings.warmup_steps

    def selection(self, layer: int) -> Selection:
        """Everything in focal layers (and before the first one if nothing is reused), else the current
        fixation.
        """
        if layer in self._focal or (layer < self.focal_layers[0] and not self._settings.reuse):
            return self._everything
        if self._current is None:
            self._current = Selection(tuple(self._visible(fixation) for fixation in self._slots))
        return self._current

    def wants_scores(self, layer: int, slot: int) -> bool:
        """Focal layers of sparse pages; the deepest one alone in the last warm-up step, to seed the first
        fixation.
        """
        if layer not in self._focal:
            return False
        if self.warming_up(slot):
            last = self._held(slot).steps == self._settings.warmup_steps
            return last and layer == self.focal_layers[-1]
        return True

    def take_scores(self, layer: int, slot: int, probabilities: Tensor) -> None:
        """Keep the k strongest image tokens, ascending, so that keeping all of them reads rows in storage
        order.
        """
        fixation = self._held(slot)
        scores = pooled(probabilities, self._pooling)  # [kv_heads, image_tokens]
        strongest = scores.topk(fixation.kept, dim=1, sorted=False).indices
        fixation.chosen = strongest.sort(dim=1).values
        self._current = None

    def _visible(self, fixation: SlotFixation | None) -> Tensor | None:
        if fixation is None or fixation.steps <= self._settings.warmup_steps:
            return None
        return fixation.chosen

    def _held(self, slot: int) -> SlotFixation:
        fixation = self._slots[slot]
        assert fixation is not None, f"slot {slot} is empty"
        return fixation


def pooled(probabilities: Tensor, pooling: Pooling) -> Tensor:
    """[kv_heads, group, image_tokens] -> [kv_heads, image_tokens], over the group or over all heads of the
    layer.
    """
    kv_heads = probabilities.shape[0]
    if pooling == "kv_max":
        return probabilities.amax(1)
    if pooling == "kv_mean":
        return probabilities.mean(1)
    layer = probabilities.amax((0, 1)) if pooling == "layer_max" else probabilities.mean((0, 1))
    return layer.expand(kv_heads, -1)
