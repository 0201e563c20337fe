"""Names and meaning of everything we measure, and the roller that writes it as rows.

Each actor adds a row per metric and window of ten seconds, and keeps its current file in `metrics/` up to
date, so that a killed actor loses ten seconds of measurements and no more.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from workers.layout import METRICS_FOLDER
from workers.object_store import ObjectStore, StorageError
from workers.schema import MetricsRow, rows_to_table, table_to_parquet

WINDOW_SECONDS = 10.0
FILE_SECONDS = 300.0
EXPORT_PREFIX = "fastocr_"
RAY_PREFIX = "ray_"
SECONDS_BOUNDARIES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
TOKEN_BOUNDARIES = (10.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)

Kind = Literal["counter", "gauge", "rate", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One declared metric.

    `counter` values are sums over the window, `gauge` values its state at the end, `rate` values the counter
    `per_second_of` by the seconds of the window. A `histogram` of single pages is only exported through Ray,
    beside a counter of the same quantity: its exported sum is rebuilt from `boundaries` and not to be trusted.
    """

    name: str
    kind: Kind
    description: str
    per_second_of: str | None = None
    boundaries: tuple[float, ...] = ()

    @property
    def prometheus_names(self) -> tuple[str, ...]:
        """The names under which Ray's metrics agent exports it."""
        name = f"{RAY_PREFIX}{EXPORT_PREFIX}{self.name}"
        if self.kind == "histogram":
            return (f"{name}_bucket", f"{name}_sum", f"{name}_count")
        return (f"{name}_total",) if self.kind == "counter" else (name,)


METRICS: tuple[Metric, ...] = (
    Metric("shards", "counter", "shards completed and staged"),
    Metric("pages", "counter", "pages completed, whatever their outcome"),
    Metric("pages_flagged", "counter", "completed pages whose text needs care"),
    Metric("pages_failed", "counter", "completed pages without text"),
    Metric("pages_drawn", "counter", "pages drawn and prepared by a rasterize actor, failures among them"),
    Metric("image_tokens", "counter", "image (visual) tokens of completed pages"),
    Metric("output_tokens", "counter", "tokens written by the model, of completed pages"),
    Metric("busy_seconds", "counter", "seconds in which the model was at work, or a rasterize actor was"),
    Metric("queue_seconds", "counter", "seconds that completed pages had waited for a place in the batch"),
    Metric("decode_seconds", "counter", "seconds between first and last token, over completed pages"),
    Metric("decode_steps", "counter", "decode steps of the engine"),
    Metric("backlog_seconds", "counter", "seconds in which an OCR actor had more pages at hand than slots"),
    Metric("backlog_filled_seconds", "counter", "the same seconds by the share of slots that held a page"),
    Metric("out_of_memory", "counter", "times that memory ran out and what is decoded at once was halved"),
    Metric("pages_restarted", "counter", "times that a page was taken out of its slot and begun again"),
    Metric("pages_per_second", "rate", "completed pages a second", per_second_of="pages"),
    Metric("tokens_per_second", "rate", "tokens written a second", per_second_of="output_tokens"),
    Metric("busy_share", "rate", "time at work by time passed; over 1 during second readings", per_second_of="busy_seconds"),
    Metric("slot_fill", "gauge", "mean share of slots that held a page while others waited, since the start"),
    Metric("kv_bytes", "gauge", "bytes of keys and values cached for the pages being decoded"),
    Metric("image_kv_read_share", "gauge", "mean counted share of image cache rows read, over completed pages"),
    Metric("gpu_utilisation", "gauge", "share of time in which the GPU ran a kernel, as NVML counts it"),
    Metric("gpu_memory_bytes", "gauge", "memory in use on the GPU, by whomever"),
    Metric("page_queue_seconds", "histogram", "wait of a page for the batch", boundaries=SECONDS_BOUNDARIES),
    Metric("page_decode_seconds", "histogram", "first to last token of a page", boundaries=SECONDS_BOUNDARIES),
    Metric("page_output_tokens", "histogram", "tokens written for a page", boundaries=TOKEN_BOUNDARIES),
)  # fmt: skip
METRIC_NAMES = frozenset(metric.name for metric in METRICS)
_SAMPLED = frozenset(metric.name for metric in METRICS if metric.kind in ("counter", "gauge"))
_COUNTERS = frozenset(metric.name for metric in METRICS if metric.kind == "counter")
_RATES = {metric.per_second_of: metric.name for metric in METRICS if metric.per_second_of is not None}


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

    `sample` returns the current totals (counters) and states (gauges) by declared name; `export` hears the
    rows of each window as they are made.
    """

    def __init__(
        self,
        store: ObjectStore,
        worker: Worker,
        sample: Callable[[], Mapping[str, float]],
        window_seconds: float = WINDOW_SECONDS,
        export: Callable[[Sequence[MetricsRow]], None] | None = None,
    ) -> None:
        self._store = store
        self._worker = worker
        self._sample = sample
        self._export = export
        self._window_seconds = window_seconds
        self._rows: list[MetricsRow] = []
        self._file_index = 0
        # Lengths are told by a clock that nobody sets; the time of day only says when.
        self._file_clock = self._window_clock = time.monotonic()
        self._window_started = time.time()
        self._totals: Mapping[str, float] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="fastocr-metrics", daemon=True)
        self._thread.start()

    def roll(self) -> None:
        """End the current window now and store it. Losing a measurement never fails the work."""
        with self._lock:
            self._end_window(time.time(), time.monotonic())
            try:
                self._store.put(self._key(), table_to_parquet(rows_to_table(self._rows, MetricsRow)))
            except StorageError:
                return
            if time.monotonic() - self._file_clock >= FILE_SECONDS:
                self._rows = []
                self._file_index += 1
                self._file_clock = time.monotonic()

    def roll_soon(self) -> None:
        """Have the thread end the window without waiting for its length: the actor may have nothing more to do."""
        self._wake.set()

    def close(self) -> None:
        """Store what is there and stop."""
        self._stopped = True
        self._wake.set()
        self._thread.join()
        self.roll()

    def _run(self) -> None:
        while True:
            self._wake.wait(self._window_seconds)
            self._wake.clear()
            if self._stopped:
                return
            self.roll()

    def _end_window(self, now: float, clock: float) -> None:
        totals = dict(self._sample())
        unknown = totals.keys() - _SAMPLED
        if unknown:
            raise ValueError(f"undeclared metrics: {sorted(unknown)}")
        seconds = clock - self._window_clock
        values: dict[str, float] = {}
        for name, value in totals.items():
            values[name] = value - self._totals.get(name, 0.0) if name in _COUNTERS else value
            if name in _RATES and seconds > 0:
                values[_RATES[name]] = values[name] / seconds
        rows = [self._row(name, value, seconds) for name, value in values.items()]
        self._rows += rows
        self._totals = totals
        self._window_started, self._window_clock = now, clock
        if self._export is not None:
            self._export(rows)

    def _row(self, name: str, value: float, seconds: float) -> MetricsRow:
        return MetricsRow(
            run_id=self._worker.run_id,
            stage=self._worker.stage,
            node=self._worker.node,
            gpu_id=self._worker.gpu_id,
            actor=self._worker.actor,
            window_start=datetime.fromtimestamp(self._window_started, UTC),
            window_seconds=seconds,
            name=name,
            value=float(value),
        )

    def _key(self) -> str:
        return f"{METRICS_FOLDER}{self._worker.stage}-{self._worker.actor}-{self._file_index:04d}.parquet"
