"""What all stages of training share: the falling learning rate, a clock that pauses do not move, checkpoints written whole."""

from __future__ import annotations

import pathlib
import time
from typing import Any

import numpy as np
import torch


def set_rate(
    optimizer: torch.optim.Optimizer, peak: float, progress: float, steps: int, warm: int, floor: float
) -> float:
    """Half a cosine from `peak` down to floor * peak over 0 <= progress <= 1, rising evenly over the first `warm` steps.

    Sets the rate of every group of parameters and returns it.
    """
    fallen = (0.5 * (1 + np.cos(np.pi * progress))) * (1 - floor) + floor
    rate = float(peak * min(1.0, (steps + 1) / warm) * fallen)  # a numpy scalar would spoil the checkpoint
    for group in optimizer.param_groups:
        group["lr"] = rate
    return rate


class TrainingClock:
    """Seconds spent on training. No step counts for more than `longest` of them: a pause (SIGSTOP) must not eat the
    schedule."""

    def __init__(self, seconds: float, spent: float = 0.0, longest: float = 20.0) -> None:
        self.seconds, self.spent = seconds, spent
        self._longest, self._last = longest, time.monotonic()

    @property
    def progress(self) -> float:
        """Share of the schedule that is over, 0 to 1."""
        return min(self.spent / self.seconds, 1.0) if self.seconds > 0 else 1.0

    @property
    def over(self) -> bool:
        """Whether the schedule has ended."""
        return self.spent >= self.seconds

    def tick(self) -> None:
        """A step has ended."""
        now = time.monotonic()
        self.spent, self._last = self.spent + min(now - self._last, self._longest), now


def keep(state: dict[str, Any], checkpoint: pathlib.Path) -> None:
    """Write a checkpoint beside the old one and put it in its place: who is killed in between keeps the old one."""
    beside = checkpoint.with_suffix(".new")
    torch.save(state, beside)
    beside.replace(checkpoint)
