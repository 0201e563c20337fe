"""The dense policy: every step looks at everything."""

from collections.abc import Sequence

from torch import Tensor

from fastocr_core.attention.base import Selection
from fastocr_core.config import DecodePolicy
from fastocr_core.decoding.base import ImageGrid, Policy
from fastocr_core.models.base import ModelAdapter


class DensePolicy(Policy):
    """Nothing to choose."""

    def __init__(self, slots: int) -> None:
        self._everything = Selection((None,) * slots)

    def budget(self, image_tokens: int) -> int:
        """All of them."""
        return image_tokens

    def admit(self, slot: int, image_tokens: int, grid: ImageGrid | None = None) -> None:
        """No state."""

    def release(self, slot: int) -> None:
        """No state."""

    def before_step(self, live: Sequence[int]) -> None:
        """No state."""

    def warming_up(self, slot: int) -> bool:
        """Never: a dense step is what is asked for."""
        return False

    def selection(self, layer: int) -> Selection:
        """Everything."""
        return self._everything

    def wants_scores(self, layer: int, slot: int) -> bool:
        """Never."""
        return False

    def take_scores(self, layer: int, slot: int, probabilities: Tensor) -> None:
        """Not asked for."""


def build(settings: DecodePolicy, model: ModelAdapter, slots: int, floor: int) -> Policy:
    """Nothing to settle."""
    return DensePolicy(slots)
