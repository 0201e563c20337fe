"""The policy contract: which image tokens each slot may look at, layer by layer, in every decode step.

A policy decides and keeps per-slot state; it never touches the cache.
"""

import abc
from collections.abc import Sequence

from torch import Tensor

from fastocr_core.attention.base import Selection


class Policy(abc.ABC):
    """One decoding policy for all slots of an engine."""

    @abc.abstractmethod
    def budget(self, image_tokens: int) -> int:
        """Image tokens that a sparse layer keeps of so many."""

    @abc.abstractmethod
    def admit(self, slot: int, image_tokens: int) -> None:
        """A page has been prefilled into `slot`."""

    @abc.abstractmethod
    def release(self, slot: int) -> None:
        """The page in `slot` is done."""

    @abc.abstractmethod
    def before_step(self, live: Sequence[int]) -> None:
        """A step over the pages in `live` begins."""

    @abc.abstractmethod
    def warming_up(self, slot: int) -> bool:
        """Whether this step is warm-up for the slot, and so not counted."""

    @abc.abstractmethod
    def selection(self, layer: int) -> Selection:
        """Whom each slot may look at in `layer`; the same object as long as nothing changed."""

    @abc.abstractmethod
    def wants_scores(self, layer: int, slot: int) -> bool:
        """Whether the image attention of this slot in this layer is needed; the slot then looks at
        everything.
        """

    @abc.abstractmethod
    def take_scores(self, layer: int, slot: int, probabilities: Tensor) -> None:
        """Image attention [kv_heads, queries per kv head, image_tokens]: softmax over image and text
        together.
        """
