"""The FastOCR policy (arXiv 2605.17447): focal-guided pruning and cross-step fixation reuse.

After w dense warm-up steps, a focal layer looks at everything and its strongest k image tokens are what the
layers below it in the stack order look at, until the next focal layer. Layers before the first focal layer
use what the deepest focal layer chose one step before. Nothing is evicted from the cache.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fastocr_core.attention.base import Selection
from fastocr_core.config import DecodePolicy, Pooling
from fastocr_core.decoding.base import ImageGrid, Policy
from fastocr_core.decoding.dilation import dilated, neighbour_table
from fastocr_core.decoding.focal import WarmupWatch, checked_layers, default_focal_layers
from fastocr_core.decoding.scores import pooled, share_budget, strongest, top_p_count
from fastocr_core.models.base import ModelAdapter


@dataclass(slots=True)
class SlotFixation:
    """What one page looks at: `chosen` int64 [kv_heads, kept], None before the first choice.

    `focal` are its focal layers, empty until its warm-up has shown them; `watch` measures that warm-up.
    """

    image_tokens: int
    focal: tuple[int, ...]
    watch: WarmupWatch | None = None
    neighbours: Tensor | None = None
    markers: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    steps: int = 0
    looks_around: bool = False  # this step sees everything
    to_look: bool = False  # the next one will
    chosen: Tensor | None = None


class FastOcrPolicy(Policy):
    """Warm-up, focal layers, reuse. `floor` and `focal_layers` come resolved for the model; with
    `focal="per_page"` only the number of `focal_layers` counts where `focal_count` is not given.
    """

    def __init__(
        self,
        slots: int,
        settings: DecodePolicy,
        focal_layers: Sequence[int],
        floor: int,
        layers: int,
        pooling: Pooling = "kv_max",
    ) -> None:
        self.focal_layers = checked_layers(focal_layers, layers)
        self._settings, self._floor, self._layers = settings, floor, layers
        self.warmup_steps = settings.warmup_steps
        self._focal_count = min(layers, settings.focal_count or len(self.focal_layers))
        self._pooling = settings.pooling or pooling
        self._slots: list[SlotFixation | None] = [None] * slots
        self._everything = Selection((None,) * slots)
        self._latest = self._everything

    def budget(self, image_tokens: int) -> int:
        """k = max(ceil(kept_share * N), floor), at most N; with a top-p budget the most that is kept."""
        return share_budget(self._settings.kept_share, self._floor, image_tokens)

    def admit(self, slot: int, image_tokens: int, grid: ImageGrid | None = None) -> None:
        """Start the warm-up of a page."""
        per_page = self._settings.focal == "per_page"
        fixation = SlotFixation(image_tokens, () if per_page else self.focal_layers)
        if per_page:
            fixation.watch = WarmupWatch(self._layers)
        if self._settings.dilate and grid is not None:
            fixation.neighbours = neighbour_table(grid, image_tokens)
        if grid is not None and grid.markers:
            fixation.markers = torch.tensor([each for each in grid.markers if each < image_tokens])
        self._slots[slot] = fixation

    def release(self, slot: int) -> None:
        """Forget the page."""
        self._slots[slot] = None

    def before_step(self, live: Sequence[int]) -> None:
        """Count the step of every page; pages that leave their warm-up become sparse."""
        for slot in live:
            fixation = self._held(slot)
            fixation.looks_around, fixation.to_look = fixation.to_look, False
            fixation.steps += 1
            if fixation.watch is not None and fixation.steps > self.warmup_steps:
                fixation.focal = fixation.watch.focal_layers(self._focal_count)
                self._fixate(fixation, fixation.watch.newest[fixation.focal[-1]])
                fixation.watch = None

    def warming_up(self, slot: int) -> bool:
        """Steps 1..w of a page are dense."""
        return self._held(slot).steps <= self.warmup_steps

    def look_around(self, slot: int) -> bool:
        """A page does not end on a sparse step: what it left out may hold the rest of the text."""
        fixation = self._held(slot)
        sparse = fixation.steps > self.warmup_steps and not fixation.looks_around
        fixation.to_look = self._settings.confirm_end and sparse
        return fixation.to_look

    def focal_layers_of(self, slot: int) -> tuple[int, ...]:
        """The focal layers of the page in a slot; empty while its warm-up still looks for them."""
        return self._held(slot).focal

    def selection(self, layer: int) -> Selection:
        """Everything in focal layers (and before the first one if nothing is reused), else the current
        fixation.
        """
        sets = tuple(self._visible(fixation, layer) for fixation in self._slots)
        if not any(chosen is not None for chosen in sets):
            return self._everything
        if not all(one is other for one, other in zip(sets, self._latest.sets, strict=True)):
            self._latest = Selection(sets)
        return self._latest

    def wants_scores(self, layer: int, slot: int) -> bool:
        """Focal layers of sparse pages. In a page's warm-up: all layers where it looks for its focal layers,
        else the deepest focal layer in the last step, to seed the first fixation.
        """
        fixation = self._held(slot)
        if fixation.watch is not None:
            return True
        if layer not in fixation.focal:
            return False
        if self.warming_up(slot):
            return fixation.steps == self.warmup_steps and layer == fixation.focal[-1]
        return True

    def take_scores(self, layer: int, slot: int, probabilities: Tensor) -> None:
        """Keep the strongest image tokens; in a watched warm-up note what the layer looked at."""
        fixation = self._held(slot)
        scores = pooled(probabilities, self._pooling)  # [kv_heads, image_tokens]
        if fixation.watch is None:
            self._fixate(fixation, scores)
        else:
            last = fixation.steps == self.warmup_steps
            fixation.watch.note(layer, probabilities, scores if last else None)

    def extra_bytes(self, image_tokens: int) -> int:
        """The int64 indices of one set: only the newest is alive."""
        return 8 * self.budget(image_tokens)

    def _fixate(self, fixation: SlotFixation, scores: Tensor) -> None:
        """The new set from pooled scores [kv_heads, image_tokens]."""
        kept = self.budget(fixation.image_tokens)
        if self._settings.top_p is not None:
            least = min(self._floor, kept)
            kept = top_p_count(scores, self._settings.top_p, least, kept)
        if len(fixation.markers):
            # Markers show nothing and cost little; they come on top of the budget.
            kept = min(fixation.image_tokens, kept + len(fixation.markers))
            scores = scores.index_fill(1, fixation.markers.to(scores.device), 8.0)
        if fixation.neighbours is not None and kept < fixation.image_tokens:
            fixation.neighbours = fixation.neighbours.to(scores.device)
            fixation.chosen = dilated(scores, kept, fixation.neighbours)
        else:
            fixation.chosen = strongest(scores, kept)

    def _visible(self, fixation: SlotFixation | None, layer: int) -> Tensor | None:
        if fixation is None or fixation.steps <= self.warmup_steps or fixation.looks_around:
            return None
        if layer in fixation.focal or (layer < fixation.focal[0] and not self._settings.reuse):
            return None
        return fixation.chosen

    def _held(self, slot: int) -> SlotFixation:
        fixation = self._slots[slot]
        assert fixation is not None, f"slot {slot} is empty"
        return fixation


def build(settings: DecodePolicy, model: ModelAdapter, slots: int, floor: int) -> Policy:
    """The policy with the focal layers of the settings, else of the model, else spread evenly."""
    focal_layers = settings.focal_layers or model.focal_layers or default_focal_layers(model.shape.layers)
    pooling = settings.pooling or model.default_pooling
    return FastOcrPolicy(slots, settings, focal_layers, floor, model.shape.layers, pooling)
