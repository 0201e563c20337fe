"""The attention contract: one decode step of one layer for all slots, over the rows that the policy
selects.

Backends differ in how they read the cache, never in what a selection means.
"""

import abc
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from fastocr_core.kv_cache import SlotCache


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Image tokens that each slot may look at, by slot index.

    An entry is int64 [kv_heads, kept], ascending along each head, or None: everything. Text rows are always
    seen.
    """

    sets: tuple[Tensor | None, ...]


@dataclass(slots=True)
class ReadCount:
    """Image rows (one head of one token in one layer) that decode steps of a page read, of those cached."""

    read: int = 0
    cached: int = 0

    @property
    def share(self) -> float:
        """Rows read per cached row; 1.0 where nothing was counted."""
        return self.read / self.cached if self.cached else 1.0


class StepPolicy(Protocol):
    """What a backend asks of the decoding policy while a step runs."""

    def selection(self, layer: int) -> Selection:
        """Whom each slot may look at in this layer."""

    def wants_scores(self, layer: int, slot: int) -> bool:
        """Whether the policy chooses from this layer's image attention."""

    def take_scores(self, layer: int, slot: int, probabilities: Tensor) -> None:
        """Image part of the attention, [kv_heads, queries per kv head, seen]; sums to at most 1 per query."""


@dataclass(slots=True)
class Step:
    """One decode step: the slots that hold a page, and what is counted on the way.

    `counts` holds a counter for each slot past its warm-up. `watched` are slots whose gaze is recorded in
    layer `gaze_layer`, as the mean raster index of the image attention.
    """

    live: tuple[int, ...]
    policy: StepPolicy
    counts: dict[int, ReadCount]
    watched: frozenset[int] = frozenset()
    gaze_layer: int = -1
    gaze: dict[int, float] = field(default_factory=dict)

    def wants(self, layer: int, slot: int) -> bool:
        """Whether someone needs the image attention of this slot in this layer."""
        return self.policy.wants_scores(layer, slot) or (layer == self.gaze_layer and slot in self.watched)

    def emit(self, layer: int, slot: int, probabilities: Tensor) -> None:
        """Hand on image attention [kv_heads, group, seen]: over all image tokens, or over those of the
        slot's set in this layer.
        """
        # The gaze first: the policy may change the set.
        if layer == self.gaze_layer and slot in self.watched:
            mass = probabilities.sum(1)  # [kv_heads, seen]
            chosen = self.policy.selection(layer).sets[slot]
            index = torch.arange(mass.shape[1], device=mass.device) if chosen is None else chosen
            self.gaze[slot] = float((mass * index).sum() / mass.sum())
        if self.policy.wants_scores(layer, slot):
            self.policy.take_scores(layer, slot, probabilities)

    def count(self, slot: int, read: int, cached: int) -> None:
        """Note rows of one layer, really read and cached."""
        counter = self.counts.get(slot)
        if counter is not None:
            counter.read += read
            counter.cached += cached


class AttentionBackend(abc.ABC):
    """One way to read the slot cache."""

    name: str

    def cache_replaced(self) -> None:  # noqa: B027 - most backends derive nothing
        """The next call is over another slot cache: forget what was derived from the old one."""

    @abc.abstractmethod
    def attend(self, layer: int, query: Tensor, scaling: float, cache: SlotCache, step: Step) -> Tensor:
        """Attention of one new token per slot, whose own row is already stored.

        `query` is [slots, query_heads, 1, head_dim], rotated; the result [slots, 1, query_heads, head_dim],
        zero for empty slots. A slot's result depends on nothing but that slot, bit for bit. Image attention
        goes to `step.emit` where `step.wants` it: over all image tokens, over the set where there is one.
        """
