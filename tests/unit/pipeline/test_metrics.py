"""Totals become rows per window and, through Ray, numbers for Prometheus; an undeclared metric is a
programmer's error.
"""

import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from fastocr_core import DecodePolicy, Engine, load
from tests.unit.pipeline.factory import manifest_page, page_row
from workers import metrics as metrics_module
from workers.gpu_probe import gpu_probe
from workers.metrics import METRIC_NAMES, METRICS, MetricsRoller, Worker
from workers.object_store import LocalStore
from workers.ray_metrics import RayMetrics
from workers.reading_totals import ReadingTotals, page_measures
from workers.schema import MetricsRow

WORKER = Worker("run", "read", "node", None, "actor")


def _values(folder: Path, name: str) -> list[float]:
    (file,) = folder.glob("metrics/*.parquet")
    return [row["value"] for row in pq.read_table(file).to_pylist() if row["name"] == name]


def test_counters_are_differences_and_gauges_are_states(tmp_path: Path) -> None:
    totals = {"pages": 3.0, "slot_fill": 0.5}
    roller = MetricsRoller(LocalStore(str(tmp_path)), WORKER, lambda: dict(totals), window_seconds=3600)
    roller.roll()
    totals.update(pages=5.0, slot_fill=0.75)
    roller.close()
    assert _values(tmp_path, "pages") == [3.0, 2.0]
    assert _values(tmp_path, "slot_fill") == [0.5, 0.75]
    (file,) = tmp_path.glob("metrics/*.parquet")
    assert all(
        row["window_seconds"] >= 0 and row["actor"] == "actor" for row in pq.read_table(file).to_pylist()
    )


def test_rates_are_counters_by_the_seconds_of_their_window(tmp_path: Path) -> None:
    totals = {"pages": 0.0, "output_tokens": 0.0, "busy_seconds": 0.0}
    roller = MetricsRoller(LocalStore(str(tmp_path)), WORKER, lambda: dict(totals), window_seconds=3600)
    totals.update(pages=2.0, output_tokens=500.0, busy_seconds=1.0)
    roller.close()
    (file,) = tmp_path.glob("metrics/*.parquet")
    rows = {row["name"]: row for row in pq.read_table(file).to_pylist()}
    for counter, rate in (
        ("pages", "pages_per_second"),
        ("output_tokens", "tokens_per_second"),
        ("busy_seconds", "busy_share"),
    ):
        assert rows[rate]["value"] * rows[rate]["window_seconds"] == pytest.approx(rows[counter]["value"])


def test_a_clock_that_is_set_back_spoils_no_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    totals = {"pages": 0.0}
    roller = MetricsRoller(LocalStore(str(tmp_path)), WORKER, lambda: dict(totals), window_seconds=3600)
    monkeypatch.setattr(metrics_module.time, "time", lambda: 0.0)
    totals["pages"] = 2.0
    roller.close()
    (file,) = tmp_path.glob("metrics/*.parquet")
    rows = {row["name"]: row for row in pq.read_table(file).to_pylist()}
    assert rows["pages"]["window_seconds"] > 0
    assert rows["pages_per_second"]["value"] > 0


def test_a_window_ends_early_when_asked(tmp_path: Path) -> None:
    rolled = threading.Event()
    roller = MetricsRoller(
        LocalStore(str(tmp_path)), WORKER, lambda: {"pages": 7.0}, 3600, lambda rows: rolled.set()
    )
    roller.roll_soon()
    assert rolled.wait(60)
    roller.close()
    assert _values(tmp_path, "pages") == [7.0, 0.0]


def test_only_declared_names_are_written(tmp_path: Path) -> None:
    assert len(METRIC_NAMES) == len(METRICS)
    for name in ("odd", "pages_per_second"):  # rates are made here, nobody may sample them
        roller = MetricsRoller(
            LocalStore(str(tmp_path)), WORKER, lambda n=name: {n: 1.0}, window_seconds=3600
        )
        with pytest.raises(ValueError, match="undeclared"):
            roller.roll()


def test_rates_and_histograms_stand_beside_a_counter_of_the_same_quantity() -> None:
    counters = {metric.name for metric in METRICS if metric.kind == "counter"}
    for metric in METRICS:
        if metric.kind == "rate":
            assert metric.per_second_of in counters
        if metric.kind == "histogram":
            assert metric.name.removeprefix("page_") in counters
            assert list(metric.boundaries) == sorted(metric.boundaries)


class _Instrument:
    """Stands in for Ray's instruments and remembers what it was told."""

    made: dict[str, "_Instrument"]

    def __init__(self, name: str, *arguments: Any) -> None:
        self.heard: list[float] = []
        self.tags: dict[str, str] = {}
        self.made[name] = self

    def set_default_tags(self, tags: dict[str, str]) -> None:
        self.tags = tags

    def inc(self, value: float) -> None:
        assert value > 0, "Ray refuses a counter that does not grow"
        self.heard.append(value)

    set = observe = inc


def test_rows_are_handed_to_ray_under_declared_names(monkeypatch: pytest.MonkeyPatch) -> None:
    ray_metrics_module = pytest.importorskip("ray.util.metrics")
    _Instrument.made = {}
    for kind in ("Counter", "Gauge", "Histogram"):
        monkeypatch.setattr(ray_metrics_module, kind, _Instrument)
    row = MetricsRow("run", "read", "node", None, "actor", None, 10.0, "pages", 3.0)  # type: ignore[arg-type]
    exported = RayMetrics(WORKER)
    exported.export([row, replace(row, value=0.0), replace(row, name="slot_fill", value=0.5)])
    exported.export([replace(row, value=4.0)])
    exported.observe({"page_decode_seconds": 2.5})
    assert {name: instrument.heard for name, instrument in _Instrument.made.items()} == {
        "fastocr_pages": [3.0, 4.0],
        "fastocr_slot_fill": [0.5],
        "fastocr_page_decode_seconds": [2.5],
    }
    assert _Instrument.made["fastocr_pages"].tags["actor"] == "actor"


def test_every_metric_is_one_that_ray_takes() -> None:
    exported = RayMetrics(WORKER)
    for metric in METRICS:
        if metric.kind == "histogram":
            exported.observe({metric.name: 1.0})
        else:
            exported.export([MetricsRow("run", "read", "node", None, "actor", None, 10.0, metric.name, 1.0)])  # type: ignore[arg-type]
    names = [name for metric in METRICS for name in metric.prometheus_names]
    assert len(set(names)) == len(names)
    assert "ray_fastocr_pages_total" in names


def test_totals_of_pages() -> None:
    page = manifest_page("a", 0, 1)
    rows = [
        replace(page_row(page), queue_seconds=0.25, decode_seconds=2.0, image_kv_read_share=0.1),
        replace(page_row(page, "flagged"), queue_seconds=0.5, decode_seconds=1.0, image_kv_read_share=0.3),
        replace(page_row(page, "failed"), image_tokens=None, output_tokens=None),
    ]
    totals = ReadingTotals()
    assert "image_kv_read_share" not in totals.sample()
    totals.add(rows)
    sample = totals.sample()
    assert sample.pop("image_kv_read_share") == pytest.approx(0.2)
    assert sample == {
        "shards": 1, "pages": 3, "pages_failed": 1, "pages_flagged": 1, "image_tokens": 20, "output_tokens": 10,
        "queue_seconds": 0.75, "decode_seconds": 3.0,
    }  # fmt: skip
    assert page_measures(rows[0])["page_decode_seconds"] == 2.0
    assert page_measures(rows[2]) == {}


class _Library:
    """NVML as it answers on a machine with two devices, of which the second is a slice that tells less."""

    class NVMLError(Exception):
        """What NVML raises."""

    def nvmlInit(self) -> None:  # noqa: N802
        """Nothing to start."""

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if index > 0:
            raise self.NVMLError
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        return uuid

    def nvmlDeviceGetUtilizationRates(self, handle: object) -> object:  # noqa: N802
        if handle == "MIG-1":
            raise self.NVMLError
        return SimpleNamespace(gpu=93)

    def nvmlDeviceGetMemoryInfo(self, handle: object) -> object:  # noqa: N802
        return SimpleNamespace(used=5_000_000_000)


def test_a_gpu_is_asked_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", _Library())
    whole, part = gpu_probe("0"), gpu_probe("MIG-1")
    assert whole is not None
    assert part is not None
    assert whole.sample() == {"gpu_utilisation": 0.93, "gpu_memory_bytes": 5e9}
    assert part.sample() == {"gpu_memory_bytes": 5e9}
    assert gpu_probe("7") is None
    assert gpu_probe(None) is None
    monkeypatch.setitem(sys.modules, "pynvml", None)  # as if it were not installed
    assert gpu_probe("0") is None


def test_cached_bytes_are_those_of_the_pages_held() -> None:
    model = load("tiny")
    with Engine(model, policy=DecodePolicy.dense(), max_batch=2) as engine:
        assert engine.kv_bytes() == 0
        layout = SimpleNamespace(image_tokens=10, ids=(1, 2, 3))
        assert engine._batch is not None
        slot = engine._batch.cache.allocate(layout)  # type: ignore[arg-type]
        shape = model.shape
        row_bytes = 2 * shape.layers * shape.kv_heads * shape.head_dim * 4
        assert engine.kv_bytes() == 13 * row_bytes
        engine._batch.cache.free(slot)
        assert engine.kv_bytes() == 0
