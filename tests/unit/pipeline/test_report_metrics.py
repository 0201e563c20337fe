"""Measurements add up to the same whatever the length of a step, and the number of steps is bounded."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.pace import Pace, devices, pace_words
from pipeline.report_metrics import MeasuredRun, Timeline, add_rows, rate, share

BEGUN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
WINDOWS = st.lists(
    st.tuples(st.floats(0, 1e6), st.floats(0, 700), st.integers(0, 1000)), min_size=1, max_size=40
)  # fmt: skip


@given(WINDOWS)
def test_nothing_is_lost_when_steps_are_merged(windows: list[tuple[float, float, int]]) -> None:
    timeline = Timeline(most_steps=8)
    for start, seconds, value in windows:
        timeline.add("pages", 1.7e9 + start, seconds, value)
        assert len(timeline.steps()) <= 8
    assert sum(timeline.per_step("pages")) == pytest.approx(sum(value for _, _, value in windows))
    first, last = min(start for start, _, _ in windows), max(start + seconds for start, seconds, _ in windows)
    assert timeline.start() <= 1.7e9 + first + 1e-3
    assert timeline.start() + len(timeline.steps()) * timeline.step_seconds >= 1.7e9 + last - 1e-3


def _rows(actor: str, window: int, values: dict[str, float]) -> list[dict[str, Any]]:
    return [
        {
            "stage": "read", "node": "one", "gpu_id": None, "actor": actor, "name": name, "value": value,
            "window_start": BEGUN + timedelta(seconds=10 * window), "window_seconds": 10.0,
        }
        for name, value in values.items()
    ]  # fmt: skip


def test_two_actors_add_up_and_a_gap_between_sessions_is_a_gap() -> None:
    run = MeasuredRun()
    for actor in ("a", "b"):
        for window in (0, 1, 5):
            add_rows(
                run, _rows(actor, window, {"pages": 20.0, "busy_seconds": 5.0, "kv_bytes": 10.0 * window})
            )
    assert run.reading_seconds == 60.0
    assert run.pages == 120
    assert not run.on_gpus
    timeline = run.timeline
    assert rate(timeline, "read pages")[:6] == [4.0, 4.0, None, None, None, 4.0]
    assert share(timeline, "read busy_seconds")[:6] == [0.5, 0.5, None, None, None, 0.5]
    (first, _) = run.of_stage("read")
    assert first.busy_share == 0.5
    assert first.most["kv_bytes"] == 50.0
    assert first.mean("kv_bytes") == pytest.approx(20.0)
    assert first.mean("gpu_utilisation") is None


def test_pages_per_device_day_and_cost() -> None:
    pace = Pace(pages=1000, device_seconds=7200, on_gpus=True, price=2.0)
    assert pace.pages_per_device_day == 12_000
    assert pace.cost == 4.0
    assert pace.cost_per_million_pages == 4000.0
    assert pace_words(pace) == [
        ("pace", "12,000 pages per GPU and day"),
        ("cost", "4,000.00 per million pages (4.00 so far, at 2.00 per GPU hour)"),
    ]
    assert pace_words(Pace(0, 10.0, False, 1.0)) == []
    assert pace_words(Pace(5, 0.0, False)) == []
    assert [devices(4, 0.5), devices(4, 0.0), devices(2, 2.0)] == [2.0, 4.0, 4.0]
