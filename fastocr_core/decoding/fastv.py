"""FastV (arXiv 2403.06764): from layer K on, the prompt and all steps do without most of the image.

The last prompt row's attention in layer K - 1, averaged over heads, ranks the image tokens once, for all
later layers and steps. Kept tokens keep their positions. Layers before K keep everything, so the mean kept
share is (K + (L - K) * kept_share) / L. This is the masked variant: the dropped rows are still computed.
"""

import torch
from torch import Tensor

from fastocr_core.config import DecodePolicy
from fastocr_core.decoding.base import Policy, PrefillView
from fastocr_core.decoding.eviction import EvictionPolicy, SlotSets
from fastocr_core.decoding.prompt_attention import image_attention
from fastocr_core.decoding.scores import strongest
from fastocr_core.models.base import ModelAdapter


class FastVPolicy(EvictionPolicy):
    """One set for all layers from `prune_layer` on. The prompt must come whole: its last row decides what
    the rows before it may see.
    """

    needs_whole_prompt = True

    def __init__(self, slots: int, settings: DecodePolicy, floor: int, layers: int) -> None:
        super().__init__(slots, settings, floor, layers)
        if settings.prune_layer > layers:
            raise ValueError(f"fastv cannot prune from layer {settings.prune_layer} on: there are {layers}")
        self._visible: list[Tensor | None] = [None] * slots

    def observes_prefill(self, layer: int) -> bool:
        """The layer before the cut."""
        return layer == self._settings.prune_layer - 1

    def layer_budget(self, layer: int, image_tokens: int) -> int:
        """All before the cut."""
        return image_tokens if layer < self._settings.prune_layer else self.budget(image_tokens)

    def take_prefill(self, layer: int, slot: int, view: PrefillView) -> None:
        """Rank by the last row, and cut at once: the next layer is part of the same prompt."""
        page = self.held(slot)
        (row,) = image_attention(view, view.prompt_entries - 1)  # [kv_heads, group, 1, image_tokens]
        votes = row.mean((0, 1, 2))  # [image_tokens]
        chosen = strongest(votes[None], self.budget(page.image_tokens))  # [1, kept]
        self._visible[slot] = torch.zeros_like(votes, dtype=torch.bool).index_fill_(0, chosen[0], True)
        self._cut(page, chosen.expand(view.keys.shape[0], -1))

    def prefill_visible(self, layer: int, slot: int) -> Tensor | None:
        """The kept tokens from the cut on."""
        return None if layer < self._settings.prune_layer else self._visible[slot]

    def admitted(self, slot: int) -> None:
        """The sets were made in the prompt."""

    def release(self, slot: int) -> None:
        """Forget the page."""
        self._visible[slot] = None
        super().release(slot)

    def _cut(self, page: SlotSets, chosen: Tensor) -> None:
        for layer in range(self._settings.prune_layer, self._layers):
            page.kept[layer] = chosen
        self._forget_selections()


def build(settings: DecodePolicy, model: ModelAdapter, slots: int, floor: int) -> Policy:
    """ValueError where the model has fewer layers than are left whole."""
    return FastVPolicy(slots, settings, floor, model.shape.layers)
