"""Paired bootstrap: how sure a ratio of two scores over the same pages is."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

DRAWS = 2000
SEED = 20_250
COVERED = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio and the interval that covers it with 95 % (percentile bootstrap over pages)."""

    value: float
    low: float
    high: float


def ratio_interval(ours: Sequence[float], reference: Sequence[float]) -> Interval | None:
    """Sum of `ours` over sum of `reference`, by page; pages are drawn together, so that hard pages weigh on both.

    None without pages or where the reference sums to nothing. ValueError for sequences of different length.
    """
    if len(ours) != len(reference):
        raise ValueError(f"{len(ours)} pages against {len(reference)}")
    above, below = np.asarray(ours, float), np.asarray(reference, float)
    if not len(above) or below.sum() <= 0:
        return None
    drawn = np.random.default_rng(SEED).integers(len(above), size=(DRAWS, len(above)))
    sums = below[drawn].sum(1)
    ratios = above[drawn].sum(1)[sums > 0] / sums[sums > 0]
    low, high = np.quantile(ratios, [(1 - COVERED) / 2, (1 + COVERED) / 2])
    return Interval(float(above.sum() / below.sum()), float(low), float(high))
