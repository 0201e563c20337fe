"""Dashboard and alerts speak of metrics that exist, of labels that they carry, and of headings to be found."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from workers.metrics import METRICS
from workers.ray_metrics import TAG_KEYS

NAME = re.compile(r"\bray_fastocr_[a-z_]+\b")
SELECTOR = re.compile(r"\{([^{}]*)\}")
GROUPING = re.compile(r"\bby \(([^()]*)\)")
KNOWN = {name for metric in METRICS for name in metric.prometheus_names}
UNTRUSTED = {name for metric in METRICS if metric.kind == "histogram" for name in metric.prometheus_names[1:]}
LABELS = {*TAG_KEYS, "le"}


@pytest.fixture(scope="module")
def dashboard(repository: Path) -> dict[str, Any]:
    return dict(json.loads((repository / "infra/grafana/fastocr.json").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def alerts(repository: Path) -> list[dict[str, Any]]:
    groups = yaml.safe_load((repository / "infra/prometheus/alerts.yaml").read_text(encoding="utf-8"))[
        "groups"
    ]
    return [rule for group in groups for rule in group["rules"]]


@pytest.fixture(scope="module")
def queries(dashboard: dict[str, Any], alerts: list[dict[str, Any]]) -> list[str]:
    return [*_panel_queries(dashboard), *(rule["expr"] for rule in alerts)]


def _panel_queries(dashboard: dict[str, Any]) -> Iterator[str]:
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def test_every_metric_that_is_named_exists(queries: list[str]) -> None:
    named = {name for query in queries for name in NAME.findall(query)}
    assert named
    assert named - KNOWN == set()
    assert all(NAME.search(query) for query in queries)


def test_sums_of_histograms_are_not_used(queries: list[str]) -> None:
    assert {name for query in queries for name in NAME.findall(query)} & UNTRUSTED == set()


def test_every_declared_metric_has_its_place(queries: list[str]) -> None:
    shown = {name for query in queries for name in NAME.findall(query)}
    left_out = {metric.name for metric in METRICS if not shown & set(metric.prometheus_names)}
    # Rates and totals that other panels show in another form.
    assert left_out <= {"busy_seconds", "decode_steps", "pages_per_second"}


def test_every_label_that_is_named_is_carried(queries: list[str]) -> None:
    for query in queries:
        for inside in SELECTOR.findall(query):
            assert set(re.findall(r"(\w+)\s*[=!]", inside)) <= LABELS, query
        for inside in GROUPING.findall(query):
            assert {label.strip() for label in inside.split(",")} <= LABELS, query


def test_panels_stand_side_by_side_and_say_what_they_show(dashboard: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        assert panel["title"]
        assert panel["description"]
        assert panel["datasource"]["uid"] == "${datasource}"
        place = panel["gridPos"]
        cells = {
            (x, y) for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }  # fmt: skip
        assert max(x for x, _ in cells) < 24
        assert not taken & cells, panel["title"]
        taken |= cells
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_every_alert_leads_to_a_heading_of_the_runbook(
    repository: Path, alerts: list[dict[str, Any]]
) -> None:
    runbook = (repository / "RUNBOOK.md").read_text(encoding="utf-8")
    headings = {line.lstrip("# ").strip() for line in runbook.splitlines() if line.startswith("#")}
    for rule in alerts:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["runbook"] in headings
        assert f"`{rule['alert']}`" in runbook


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "alerts.yaml"),
        ("test", "rules", "alerts_test.yaml"),
        ("check", "config", "--syntax-only", "prometheus.yml"),
    ],
)
def test_prometheus_itself_accepts_the_rules(repository: Path, arguments: tuple[str, ...]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (it comes with Prometheus)")
    folder = repository / "infra/prometheus"
    result = subprocess.run([promtool, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
