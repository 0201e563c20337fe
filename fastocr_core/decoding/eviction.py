"""What the eviction baselines share: votes gathered in the prompt, then one set per layer and KV head.

VLM form of methods made for text: only image tokens are evicted, text always stays. Original methods keep
one set per query head; ours is per KV head, with votes averaged over the group, since a cached row serves a
whole group (the common port of these methods found this as good). There is no warm-up.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fastocr_core.attention.base import Selection
from fastocr_core.config import DecodePolicy
from fastocr_core.decoding.base import ImageGrid, Policy, PrefillView
from fastocr_core.decoding.scores import share_budget, strongest


@dataclass(slots=True)
class SlotSets:
    """One page. By layer: `votes` float [kv_heads, image_tokens], and the kept set int64 [kv_heads, kept]."""

    image_tokens: int
    grid: ImageGrid | None
    votes: list[Tensor | None]
    kept: list[Tensor | None]


class EvictionPolicy(Policy):
    """Sets that only shrink. Subclasses say which prompt rows vote and how many tokens a layer keeps."""

    def __init__(self, slots: int, settings: DecodePolicy, floor: int, layers: int) -> None:
        self._settings, self._floor, self._layers = settings, floor, layers
        self._slots: list[SlotSets | None] = [None] * slots
        self._everything = Selection((None,) * slots)
        self._selections: list[Selection | None] = [None] * layers

    def votes_of(self, layer: int, view: PrefillView) -> Tensor:
        """Votes [kv_heads, image_tokens] of this chunk of the prompt; chunks are summed."""
        raise NotImplementedError

    def settled(self, votes: Tensor, page: SlotSets) -> Tensor:
        """Summed votes [kv_heads, image_tokens] as they are ranked, smoothed for example."""
        return votes

    def layer_budget(self, layer: int, image_tokens: int) -> int:
        """Image tokens kept in one layer."""
        return self.budget(image_tokens)

    def budget(self, image_tokens: int) -> int:
        """k = max(ceil(kept_share * N), floor), at most N."""
        return share_budget(self._settings.kept_share, self._floor, image_tokens)

    def admit(self, slot: int, image_tokens: int, grid: ImageGrid | None = None) -> None:
        """Nothing is evicted yet."""
        self._slots[slot] = SlotSets(image_tokens, grid, [None] * self._layers, [None] * self._layers)
        self._forget_selections()

    def observes_prefill(self, layer: int) -> bool:
        """Every layer."""
        return True

    def take_prefill(self, layer: int, slot: int, view: PrefillView) -> None:
        """Add the votes of a chunk."""
        votes, page = self.votes_of(layer, view), self.held(slot)
        before = page.votes[layer]
        page.votes[layer] = votes if before is None else before + votes

    def admitted(self, slot: int) -> None:
        """Evict: every layer that has votes keeps its strongest tokens."""
        page = self.held(slot)
        for layer, votes in enumerate(page.votes):
            if votes is not None:
                kept = self.layer_budget(layer, page.image_tokens)
                page.kept[layer] = strongest(self.settled(votes, page), kept)
        self._forget_selections()

    def release(self, slot: int) -> None:
        """Forget the page."""
        self._slots[slot] = None
        self._forget_selections()

    def before_step(self, live: Sequence[int]) -> None:
        """Static sets do not change."""

    def warming_up(self, slot: int) -> bool:
        """Never: eviction comes before the first step."""
        return False

    def selection(self, layer: int) -> Selection:
        """The kept sets of this layer."""
        known = self._selections[layer]
        if known is None:
            known = Selection(tuple(page.kept[layer] if page else None for page in self._slots))
            self._selections[layer] = known
        return known

    def wants_scores(self, layer: int, slot: int) -> bool:
        """Static sets need none."""
        return False

    def take_scores(self, layer: int, slot: int, probabilities: Tensor) -> None:
        """Not asked for."""

    def resident_share(self, slot: int) -> float:
        """Rows kept of all rows. The engine's cache keeps the others allocated; a cache that moved the kept
        rows together would not.
        """
        page = self.held(slot)
        shares = [1.0 if kept is None else kept.shape[1] / page.image_tokens for kept in page.kept]
        return sum(shares) / len(shares)

    def extra_bytes(self, image_tokens: int) -> int:
        """An int64 index for each kept token of each layer."""
        return 8 * sum(self.layer_budget(layer, image_tokens) for layer in range(self._layers))

    def held(self, slot: int) -> SlotSets:
        """The page in a slot that must be taken."""
        page = self._slots[slot]
        assert page is not None, f"slot {slot} is empty"
        return page

    def keep(self, layer: int, slot: int, chosen: Tensor) -> None:
        """Replace the set of one layer, int64 [kv_heads, kept], ascending."""
        self.held(slot).kept[layer] = chosen
        self._selections[layer] = None

    def _forget_selections(self) -> None:
        self._selections = [None] * self._layers


def summed_votes(blocks: Iterable[Tensor], like: PrefillView) -> Tensor:
    """Blocks [kv_heads, group, rows, image_tokens] summed over rows, averaged over the group."""
    kv_heads = like.keys.shape[0]
    total = torch.zeros(kv_heads, like.image_tokens, device=like.keys.device)
    for block in blocks:
        total += block.sum(2).mean(1)
    return total
