"""Totals become rows per window; an undeclared metric is a programmer's error."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from workers.metrics import METRIC_NAMES, METRICS, MetricsRoller, Worker
from workers.object_store import LocalStore

WORKER = Worker("run", "read", "node", None, "actor")


def test_counters_are_differences_and_gauges_are_states(tmp_path: Path) -> None:
    totals = {"pages": 3.0, "slot_fill": 0.5}
    roller = MetricsRoller(LocalStore(str(tmp_path)), WORKER, lambda: dict(totals), window_seconds=3600)
    roller.roll()
    totals.update(pages=5.0, slot_fill=0.75)
    roller.close()
    (file,) = tmp_path.glob("metrics/*.parquet")
    rows = pq.read_table(file).to_pylist()
    values = {name: [row["value"] for row in rows if row["name"] == name] for name in totals}
    assert values == {"pages": [3.0, 2.0], "slot_fill": [0.5, 0.75]}
    assert all(row["window_seconds"] >= 0 and row["actor"] == "actor" for row in rows)


def test_only_declared_names_are_written(tmp_path: Path) -> None:
    assert len(METRIC_NAMES) == len(METRICS)
    roller = MetricsRoller(LocalStore(str(tmp_path)), WORKER, lambda: {"odd": 1.0}, window_seconds=3600)
    with pytest.raises(ValueError, match="undeclared"):
        roller.roll()
