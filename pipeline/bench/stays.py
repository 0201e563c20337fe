"""When each page was in a slot, from the rows of its run: how full the slots were, told without the actor's help."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

COLUMNS = ["finished_at", "encode_seconds", "decode_seconds"]


@dataclass(frozen=True, slots=True)
class Stay:
    """A page was taken from the queue and left its slot at these times, in seconds of Unix time."""

    taken: float
    left: float


def stays_of(rows: Iterable[Mapping[str, Any]]) -> list[Stay]:
    """From rows with `COLUMNS`; pages that no model read have no stay."""
    found = []
    for row in rows:
        if row["decode_seconds"] is None:
            continue
        finished: datetime = row["finished_at"]
        left = finished.timestamp()
        found.append(Stay(left - row["decode_seconds"] - row["encode_seconds"], left))
    return found


def mean_fill(stays: Sequence[Stay], slots: int, until: float) -> float:
    """Mean share of `slots` that held a page from the time the first one was taken until then; at most 1 at any
    moment. 0.0 if that is no time at all.
    """
    begin = min(stay.taken for stay in stays)
    changes = sorted([(stay.taken, 1) for stay in stays] + [(stay.left, -1) for stay in stays] + [(until, 0)])
    filled, held, since = 0.0, 0, begin
    for time, change in changes:
        if time > until:
            break
        filled += min(held, slots) * (time - since)
        held, since = held + change, time
    return filled / (slots * (until - begin)) if until > begin else 0.0
