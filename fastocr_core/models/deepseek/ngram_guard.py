"""The n-gram guard of the DeepSeek-OCR family: no run of n output tokens may occur twice within a window.

It belongs to these models alone, which were evaluated with it; elsewhere it would destroy true repetition.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NgramGuard:
    """`size` is n, `window` how many of the last outputs are searched, `allowed` ids are never banned (table
    cells repeat by nature). The prompt does not count.
    """

    size: int
    window: int
    allowed: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.size < 2 or self.window < self.size:
            raise ValueError(f"a guard needs 2 <= size <= window, not size {self.size}, window {self.window}")

    def banned(self, tokens: Sequence[int]) -> frozenset[int]:
        """Ids that would complete a run seen before in the window, after the outputs `tokens`."""
        if len(tokens) < self.size:
            return frozenset()
        recent = list(tokens[-self.window :])
        prefix = recent[len(recent) - self.size + 1 :]
        last = prefix[-1]
        ends = range(self.size - 1, len(recent))
        return (
            frozenset(
                recent[end]
                for end in ends
                if recent[end - 1] == last and recent[end - self.size + 1 : end] == prefix
            )
            - self.allowed
        )
