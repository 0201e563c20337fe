"""Adds up the measurements of a run, file by file: curves over time and a line per actor.

The number of steps of a curve is bounded: whenever there are too many, neighbours are merged and a step lasts
twice as long. So memory does not grow with the length of the run, only with the number of its actors.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from workers.layout import METRICS_FOLDER
from workers.metrics import METRICS, WINDOW_SECONDS
from workers.object_store import ObjectStore, StorageError

MOST_STEPS = 240
COLUMNS = ["stage", "node", "gpu_id", "actor", "window_start", "window_seconds", "name", "value"]
READ, RASTERIZE = "read", "rasterize"
LONGEST_WINDOW_SECONDS = 31 * 86_400.0
_COUNTERS = frozenset(metric.name for metric in METRICS if metric.kind == "counter")
_GAUGES = frozenset(metric.name for metric in METRICS if metric.kind == "gauge")
_DRAWN_AS_MEAN = ("gpu_utilisation", "slot_fill")


@dataclass(slots=True)
class ActorFacts:
    """One actor over its life; `gauges` are means weighted by time, `last` the newest values, `most` the largest."""

    stage: str
    node: str
    gpu_id: str | None
    actor: str
    first: float = 0.0
    alive_seconds: float = 0.0
    counters: Counter[str] = field(default_factory=Counter)
    last: dict[str, float] = field(default_factory=dict)
    most: dict[str, float] = field(default_factory=dict)
    gauge_seconds: Counter[str] = field(default_factory=Counter)
    _last_window: float = 0.0

    def mean(self, name: str) -> float | None:
        """Mean of a gauge over the actor's life; None if it was never measured."""
        seconds, measured = self.gauge_seconds[name], self.gauge_seconds[f"{name} seconds"]
        return seconds / measured if measured else None

    @property
    def busy_share(self) -> float:
        return min(1.0, self.counters["busy_seconds"] / self.alive_seconds) if self.alive_seconds else 0.0


class Timeline:
    """Sums per step of time, for any number of names."""

    def __init__(self, most_steps: int = MOST_STEPS) -> None:
        self._most_steps = most_steps
        self._sums: dict[str, Counter[int]] = {}
        self._first = self._last = 0
        self._empty = True
        self.step_seconds = WINDOW_SECONDS

    def add(self, name: str, start: float, seconds: float, value: float) -> None:
        """Spread a value evenly over its window of time."""
        end = start + seconds
        self._make_room(start, end)
        sums = self._sums.setdefault(name, Counter())
        if not end > start:  # too short to tell at this distance from 1970
            sums[int(start // self.step_seconds)] += value  # type: ignore[assignment]
            return
        place = start
        while place < end:
            step = int(place // self.step_seconds)
            until = min(end, (step + 1) * self.step_seconds)
            sums[step] += value * (until - place) / (end - start)  # type: ignore[assignment]
            place = until

    def start(self) -> float:
        """Beginning of the first step, in seconds of Unix time."""
        return self._first * self.step_seconds

    def steps(self) -> range:
        """All steps, with or without a value."""
        return range(0) if self._empty else range(self._first, self._last + 1)

    def per_step(self, name: str) -> list[float]:
        """The sums of a name in all steps."""
        sums = self._sums.get(name, Counter())
        return [float(sums[step]) for step in self.steps()]

    def _make_room(self, start: float, end: float) -> None:
        """Widen the range to hold this window, doubling the steps until there are few enough."""
        if self._empty:
            self._first, self._last, self._empty = int(start // self.step_seconds), 0, False
            self._last = self._first
        while True:
            first = min(self._first, int(start // self.step_seconds))
            last = max(self._last, int(end // self.step_seconds))
            if last - first < self._most_steps:
                self._first, self._last = first, last
                return
            self._double()

    def _double(self) -> None:
        self.step_seconds *= 2
        self._first //= 2
        self._last //= 2
        for name, sums in self._sums.items():
            merged: Counter[int] = Counter()
            for step, value in sums.items():
                merged[step // 2] += value
            self._sums[name] = merged


@dataclass(slots=True)
class MeasuredRun:
    """Everything the measurements of a target say. `unreadable` counts files that are not whole."""

    timeline: Timeline = field(default_factory=Timeline)
    actors: dict[tuple[str, str], ActorFacts] = field(default_factory=dict)
    unreadable: int = 0

    def of_stage(self, stage: str) -> list[ActorFacts]:
        """Actors of a stage in the order of their beginning."""
        return sorted(
            (actor for actor in self.actors.values() if actor.stage == stage), key=lambda one: one.first
        )

    @property
    def reading_seconds(self) -> float:
        """Seconds in which OCR actors were alive, added up over all of them."""
        return sum(actor.alive_seconds for actor in self.of_stage(READ))

    @property
    def pages(self) -> int:
        return int(sum(actor.counters["pages"] for actor in self.of_stage(READ)))

    @property
    def on_gpus(self) -> bool:
        return any(actor.gpu_id is not None for actor in self.of_stage(READ))


def measured_run(store: ObjectStore) -> MeasuredRun:
    """Read every file of measurements once. A file that cannot be read is counted, no more."""
    run = MeasuredRun()
    for stored in store.list(METRICS_FOLDER):
        if not stored.key.endswith(".parquet"):
            continue
        try:
            with store.open(stored.key) as reader:
                for batch in pq.ParquetFile(reader).iter_batches(columns=COLUMNS):
                    add_rows(run, batch.to_pylist())
        except (pa.ArrowException, StorageError, OSError, KeyError, ValueError, TypeError):
            run.unreadable += 1
    return run


def add_rows(run: MeasuredRun, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add measurements, as rows of the table of metrics."""
    for row in rows:
        start, seconds = row["window_start"].timestamp(), float(row["window_seconds"])
        if not 0 <= seconds <= LONGEST_WINDOW_SECONDS:
            continue
        actor = run.actors.setdefault(
            (row["stage"], row["actor"]),
            ActorFacts(row["stage"], row["node"], row["gpu_id"], row["actor"], first=start),
        )
        _count_life(run.timeline, actor, start, seconds)
        _count_value(run.timeline, actor, row["name"], float(row["value"]), start, seconds)


def _count_life(timeline: Timeline, actor: ActorFacts, start: float, seconds: float) -> None:
    """A window has many rows; the first of them counts its seconds. Rows of a window stand together."""
    if start == actor._last_window:
        return
    actor._last_window = start
    actor.first = min(actor.first, start)
    actor.alive_seconds += seconds
    timeline.add(f"{actor.stage} alive", start, seconds, seconds)


def _count_value(
    timeline: Timeline, actor: ActorFacts, name: str, value: float, start: float, seconds: float
) -> None:
    if name in _COUNTERS:
        actor.counters[name] += value  # type: ignore[assignment]
        timeline.add(f"{actor.stage} {name}", start, seconds, value)
    elif name in _GAUGES:
        actor.last[name] = value
        actor.most[name] = max(value, actor.most.get(name, value))
        actor.gauge_seconds[name] += value * seconds  # type: ignore[assignment]
        actor.gauge_seconds[f"{name} seconds"] += seconds  # type: ignore[assignment]
        if name in _DRAWN_AS_MEAN:
            timeline.add(f"{actor.stage} {name}", start, seconds, value * seconds)


def rate(timeline: Timeline, name: str) -> list[float | None]:
    """A counter per second of wall clock; None in steps in which no actor of its stage was alive."""
    alive = timeline.per_step(f"{name.partition(' ')[0]} alive")
    sums = timeline.per_step(name)
    seconds = list(_covered(timeline, alive))
    return [
        value / span if there else None for value, there, span in zip(sums, alive, seconds, strict=True)
    ]  # fmt: skip


def share(timeline: Timeline, name: str) -> list[float | None]:
    """Seconds, or values weighted by seconds, over the seconds in which actors were alive; at most 1."""
    alive = timeline.per_step(f"{name.partition(' ')[0]} alive")
    return [
        min(1.0, value / there) if there else None
        for value, there in zip(timeline.per_step(name), alive, strict=True)
    ]


def _covered(timeline: Timeline, alive: list[float]) -> Iterator[float]:
    """Wall clock of each step: its length, or less at the ends, where even one actor was not there all the time."""
    for there in alive:
        yield min(timeline.step_seconds, there) if there else timeline.step_seconds
