"""The declared metrics once more, through `ray.util.metrics`, for Prometheus and dashboards.

Ray exports them only where its metrics agent runs (the extra `cluster`); elsewhere recording costs nothing
and goes nowhere.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from workers.metrics import EXPORT_PREFIX, METRICS, Metric, Worker
from workers.schema import MetricsRow

TAG_KEYS = ("run_id", "stage", "actor", "gpu_id")


class RayMetrics:
    """All declared metrics of one actor, registered with Ray when first used."""

    def __init__(self, worker: Worker) -> None:
        self._tags = {
            "run_id": worker.run_id,
            "stage": worker.stage,
            "actor": worker.actor,
            "gpu_id": worker.gpu_id or "",
        }
        self._instruments: dict[str, Any] = {}

    def export(self, rows: Sequence[MetricsRow]) -> None:
        """Hand on the rows of a window: counters grow by them, gauges and rates take their values."""
        for row in rows:
            metric = _DECLARED[row.name]
            if metric.kind != "counter":
                self._instrument(metric).set(row.value)
            elif row.value > 0:
                self._instrument(metric).inc(row.value)

    def observe(self, values: Mapping[str, float]) -> None:
        """Hand on the measures of one page, by the names of declared histograms."""
        for name, value in values.items():
            self._instrument(_DECLARED[name]).observe(value)

    def _instrument(self, metric: Metric) -> Any:
        instrument = self._instruments.get(metric.name)
        if instrument is None:
            instrument = self._instruments[metric.name] = _registered(metric)
            instrument.set_default_tags(self._tags)
        return instrument


def _registered(metric: Metric) -> Any:
    from ray.util import metrics

    name = EXPORT_PREFIX + metric.name
    if metric.kind == "histogram":
        return metrics.Histogram(name, metric.description, list(metric.boundaries), TAG_KEYS)
    kind = metrics.Counter if metric.kind == "counter" else metrics.Gauge
    return kind(name, metric.description, TAG_KEYS)


def ray_metrics(worker: Worker) -> RayMetrics | None:
    """For an actor that runs in Ray; None outside of it."""
    import ray

    return RayMetrics(worker) if ray.is_initialized() else None


_DECLARED = {metric.name: metric for metric in METRICS}
