"""How well a score separates two groups: area under the ROC curve, and thresholds with few false alarms. Plain numbers."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence


def area_under_curve(higher: Sequence[float], lower: Sequence[float]) -> float | None:
    """Chance that a member of `higher` scores above one of `lower`, ties counting half; None where a group is empty."""
    if not higher or not lower:
        return None
    ordered = sorted(lower)
    wins = sum(bisect_left(ordered, value) + bisect_right(ordered, value) for value in higher) / 2
    return wins / (len(higher) * len(lower))


def roc_points(higher: Sequence[float], lower: Sequence[float]) -> list[tuple[float, float]]:
    """(false alarms, detections) for every threshold: shares of `higher` and of `lower` that lie below it."""
    good, bad = sorted(higher), sorted(lower)
    cuts = sorted({*higher, *lower})
    below = [(bisect_left(good, cut), bisect_left(bad, cut)) for cut in cuts] + [(len(good), len(bad))]
    return [(alarms / max(1, len(good)), found / max(1, len(bad))) for alarms, found in below]


def threshold_below(values: Sequence[float], false_alarms: float) -> float:
    """The highest of `values` below which at most that share of them lies. ValueError without values."""
    if not values:
        raise ValueError("no page was read well, so there is nothing to set a threshold by")
    ordered = sorted(values)
    allowed = int(false_alarms * len(ordered) + 1e-9)
    return ordered[min(allowed, len(ordered) - 1)]
