"""PyramidKV (arXiv 2406.02069) on image tokens: SnapKV's votes, with budgets that fall linearly with depth.

With m tokens a layer on average and beta = 20, the top layer keeps m / 20 and layer 0 keeps 2m - m / 20.
Variant `inverted` turns the pyramid over: reading needs the image in middle and late layers, so the
published shape is a doubtful one here, and its mirror image is the control.
"""

from torch import Tensor

from fastocr_core.config import DecodePolicy
from fastocr_core.decoding.base import Policy
from fastocr_core.decoding.eviction import SlotSets
from fastocr_core.decoding.snapkv import SnapKvPolicy, smoothed_along
from fastocr_core.models.base import ModelAdapter

BETA = 20


class PyramidKvPolicy(SnapKvPolicy):
    """SnapKV with `layer_budget` by depth."""

    def layer_budget(self, layer: int, image_tokens: int) -> int:
        """Between 1 and all of them; a page of fewer than 2m image tokens has m in every layer."""
        depth = layer if self._settings.chosen_variant == "pyramid" else self._layers - 1 - layer
        return pyramid_budget(self.budget(image_tokens), depth, self._layers, image_tokens)

    def settled(self, votes: Tensor, page: SlotSets) -> Tensor:
        """Smoothed along the token order, as published."""
        return smoothed_along(votes, self._settings.kernel)


def pyramid_budget(mean: int, depth: int, layers: int, image_tokens: int) -> int:
    """Tokens kept at `depth` of so many layers, rounded, when `mean` are kept on average."""
    if image_tokens < 2 * mean or layers == 1:
        return mean
    least = mean / BETA
    most = 2 * mean - least  # never above 2 * mean, so it fits
    return max(1, round(most - depth * (most - least) / (layers - 1)))


def build(settings: DecodePolicy, model: ModelAdapter, slots: int, floor: int) -> Policy:
    """Nothing depends on the model but its layers."""
    return PyramidKvPolicy(slots, settings, floor, model.shape.layers)
