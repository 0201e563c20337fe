"""A local run starts a Ray of its own, whatever the environment says; a cluster that is not there is said at once."""

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


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "127.0.0.1:99999", "no.such.host.invalid:6379", "[::1]:1"]
)
def test_a_cluster_that_does_not_answer_is_one_sentence(address: str) -> None:
    with (
        pytest.raises(local_ray.ClusterError, match="There is no Ray cluster at") as refused,
        local_ray.ray_session(ClusterSettings(ray_address=address)),
    ):
        pass
    assert "\n" not in str(refused.value)
