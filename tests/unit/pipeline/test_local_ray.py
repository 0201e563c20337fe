"""A local run starts a Ray of its own, whatever the environment says."""

from pathlib import Path
from typing import Any

import pytest

from pipeline import local_ray
from pipeline.config import ClusterSettings


def test_an_address_in_the_environment_does_not_turn_a_local_run_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    calls: list[dict[str, Any]] = []
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setattr(ray, "init", lambda **settings: calls.append(settings))
    monkeypatch.setattr(local_ray.signal, "signal", lambda number, handler: None)
    local_ray._start_local(ClusterSettings(local_cpus=1), tmp_path)
    assert [call["address"] for call in calls] == ["local"]
