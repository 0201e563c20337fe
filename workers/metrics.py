"""Names and meaning of everything we measure, and the roller that writes it as rows.

Each actor adds a row per metric and window of ten seconds, and keeps its current file in `metrics/` up to
date, so that a killed actor loses ten seconds of measurements and no more.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from workers.layout import METRICS_FOLDER
from workers.object_store import ObjectStore, StorageError
from workers.schema import MetricsRow, rows_to_table, table_to_parquet

WINDOW_SECONDS = 10.0
FILE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Metric:
    """One declared metric. `counter` values are sums over the window, `gauge` values its state at the end."""

    name: str
    kind: str
    description: str


METRICS: tuple[Metric, ...] = (
    Metric("shards", "counter", "shards completed and staged"),
    Metric("pages", "counter", "pages completed, whatever their outcome"),
    Metric("pages_failed", "counter", "pages that ended without text"),
    Metric("image_tokens", "counter", "image tokens of completed pages"),
    Metric("output_tokens", "counter", "tokens written by the model"),
    Metric("busy_seconds", "counter", "seconds in which the model was encoding or decoding"),
    Metric("queue_seconds", "counter", "seconds that completed pages had waited for a place in the batch"),
    Metric("decode_steps", "counter", "decode steps of the engine"),
    Metric("slot_fill", "gauge", "mean share of decode slots in use since the actor started"),
    Metric(
        "image_kv_read_share", "gauge", "mean counted share of image cache rows read, over completed pages"
    ),
)
METRIC_NAMES = frozenset(metric.name for metric in METRICS)
_COUNTERS = frozenset(metric.name for metric in METRICS if metric.kind == "counter")


@dataclass(frozen=True, slots=True)
class Worker:
    """Who measures: stage, machine, device and actor."""

    run_id: str
    stage: str
    node: str
    gpu_id: str | None
    actor: str


class MetricsRoller:
    """Turns running totals into rows per window, in a thread of its own, until `close`.

    `sample` returns the current totals (counters) and states (gauges) by declared name.
    """

    def __init__(
        self,
        store: ObjectStore,
        worker: Worker,
        sample: Callable[[], Mapping[str, float]],
        window_seconds: float = WINDOW_SECONDS,
    ) -> None:
        self._store = store
        self._worker = worker
        self._sample = sample
        self._window_seconds = window_seconds
        self._rows: list[MetricsRow] = []
        self._file_index = 0
        self._file_started = self._window_started = time.time()
        self._totals: Mapping[str, float] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fastocr-metrics", daemon=True)
        self._thread.start()

    def roll(self) -> None:
        """End the current window now and store it. Losing a measurement never fails the work."""
        with self._lock:
            self._end_window(time.time())
            try:
                self._store.put(self._key(), table_to_parquet(rows_to_table(self._rows, MetricsRow)))
            except StorageError:
                return
            if time.time() - self._file_started >= FILE_SECONDS:
                self._rows = []
                self._file_index += 1
                self._file_started = time.time()

    def close(self) -> None:
        """Store what is there and stop."""
        self._stopped.set()
        self._thread.join()
        self.roll()

    def _run(self) -> None:
        while not self._stopped.wait(self._window_seconds):
            self.roll()

    def _end_window(self, now: float) -> None:
        values = dict(self._sample())
        unknown = values.keys() - METRIC_NAMES
        if unknown:
            raise ValueError(f"undeclared metrics: {sorted(unknown)}")
        start = datetime.fromtimestamp(self._window_started, UTC)
        for name, value in values.items():
            measured = value - self._totals.get(name, 0.0) if name in _COUNTERS else value
            self._rows.append(
                MetricsRow(
                    run_id=self._worker.run_id,
                    stage=self._worker.stage,
                    node=self._worker.node,
                    gpu_id=self._worker.gpu_id,
                    actor=self._worker.actor,
                    window_start=start,
                    window_seconds=now - self._window_started,
                    name=name,
                    value=float(measured),
                )
            )
        self._totals = values
        self._window_started = now

    def _key(self) -> str:
        return f"{METRICS_FOLDER}{self._worker.stage}-{self._worker.actor}-{self._file_index:04d}.parquet"
