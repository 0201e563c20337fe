"""Dense decoding that measures how well every layer's fixation would serve every other layer.

Not a policy to read with: `fastocr_core.profile` runs it to find the focal layers of a model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fastocr_core.config import Pooling
from fastocr_core.decoding.base import ImageGrid
from fastocr_core.decoding.dense import DensePolicy
from fastocr_core.decoding.scores import pooled, strongest


@dataclass(frozen=True, slots=True)
class LayerMasses:
    """Image attention by layer, softmax mass averaged over steps and query heads.

    `mass[l]` is all of layer l's (the image attention ratio); `same[f][l]` what layer l puts on the tokens
    that layer f chose in the same step, `previous[f][l]` on those it chose in the step before. `steps` were
    averaged; `mass` covers the same steps.
    """

    mass: tuple[float, ...]
    same: tuple[tuple[float, ...], ...]
    previous: tuple[tuple[float, ...], ...]
    steps: int


@dataclass(slots=True)
class SlotSets:
    """Sets int64 [layers, kv_heads, kept] of one page: those of this step so far, and of the step before."""

    kept: int
    steps: int = 0
    now: Tensor | None = None
    before: Tensor | None = None


class MeasuringPolicy(DensePolicy):
    """Every layer of every step gives its scores; the first step of a page only its sets."""

    def __init__(self, slots: int, layers: int, budget: Callable[[int], int], pooling: Pooling) -> None:
        super().__init__(slots)
        self._layers, self._budget, self._pooling = layers, budget, pooling
        self._pages: list[SlotSets | None] = [None] * slots
        self._mass = torch.zeros(layers, dtype=torch.float64)
        self._same = torch.zeros(layers, layers, dtype=torch.float64)  # [chooser, served]
        self._previous = torch.zeros(layers, layers, dtype=torch.float64)
        self._steps = 0

    def admit(self, slot: int, image_tokens: int, grid: ImageGrid | None = None) -> None:
        """Start with a page."""
        self._pages[slot] = SlotSets(self._budget(image_tokens))

    def release(self, slot: int) -> None:
        """Done with a page; what it measured stays."""
        self._pages[slot] = None

    def before_step(self, live: Sequence[int]) -> None:
        """This step's sets become the previous ones."""
        for slot in live:
            page = self._held(slot)
            page.steps += 1
            page.before, page.now = page.now, None
            self._steps += page.steps > 1

    def wants_scores(self, layer: int, slot: int) -> bool:
        """Always."""
        return True

    def take_scores(self, layer: int, slot: int, probabilities: Tensor) -> None:
        """Measure what the sets known so far hold of this layer's attention, then choose this layer's own."""
        page = self._held(slot)
        if page.before is not None:
            self._mass[layer] += float(probabilities.sum(2).mean())
            self._previous[:, layer] += _held_by(page.before, probabilities)
            if layer and page.now is not None:
                self._same[:layer, layer] += _held_by(page.now[:layer], probabilities)
        chosen = strongest(pooled(probabilities, self._pooling), page.kept)
        if page.now is None:
            page.now = chosen.new_zeros(self._layers, *chosen.shape)
        page.now[layer] = chosen

    def measured(self) -> LayerMasses:
        """What has been measured so far. ValueError if no page came to a second step."""
        if not self._steps:
            raise ValueError("no page came to a second step, so there is nothing to choose layers from")
        mass, same, previous = (each / self._steps for each in (self._mass, self._same, self._previous))
        same = same + torch.diag(mass)  # a focal layer sees everything
        return LayerMasses(
            tuple(mass.tolist()),
            tuple(map(tuple, same.tolist())),
            tuple(map(tuple, previous.tolist())),
            self._steps,
        )

    def _held(self, slot: int) -> SlotSets:
        page = self._pages[slot]
        assert page is not None, f"slot {slot} is empty"
        return page


def _held_by(sets: Tensor, probabilities: Tensor) -> Tensor:
    """Mass of [kv_heads, group, image_tokens] on sets [layers, kv_heads, kept]: float64 [layers]."""
    layers, group = sets.shape[0], probabilities.shape[1]
    rows = sets[:, :, None].expand(-1, -1, group, -1)  # [layers, kv_heads, group, kept]
    found = probabilities[None].expand(layers, -1, -1, -1).gather(3, rows)
    return found.sum(3).mean((1, 2)).double().cpu()
