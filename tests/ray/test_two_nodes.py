"""Kinds of nodes as infra/examples/cluster.toml asks for them, on this machine: one draws, another joins late and
reads; then the one that draws dies, and a new one takes over.
"""

import os
import signal
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.made_archive import make_archive
from tests.support.run_process import (
    OCR_ACTOR,
    RASTER_CHILD,
    RunProcess,
    descendants,
    is_alive,
    published_pages,
    wait_until,
)

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(1800)]

DOCUMENTS, PAGES = 6, 6
BEGIN_SECONDS = 600.0
LEFTOVER_SECONDS = 10.0
RASTER_ACTOR = b"RasterizeShards"
NODE_MEMORY = {"object_store_memory": 100_000_000, "include_dashboard": False}
CONFIG = """
[cluster]
ray_address = "{address}"
rasterize_resource = "{draws}"
ocr_resource = "{reads}"
rasterize_actors = 1
cpus_per_rasterize_actor = 1.0
ocr_actors = 1
ocr_threads = 1
gpus_per_ocr_actor = 0.0
cpus_per_ocr_actor = 1.0
max_batch = 4
[shards]
pages = 2
part_pages = 8
"""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head that does nothing itself; the drivers join it, this process does not."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    monkeypatch.setenv("RAY_BACKEND_LOG_LEVEL", "fatal")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, connect=False, head_node_args={"num_cpus": 0, **NODE_MEMORY})
    try:
        yield cluster
    finally:
        cluster.shutdown()


def _node(cluster: Any, resource: str) -> Any:
    return cluster.add_node(num_cpus=2, resources={resource: 1}, **NODE_MEMORY)


def _resources(repository: Path) -> tuple[str, str]:
    """What nodes that draw and nodes that read offer, by the example for operators."""
    settings = tomllib.loads((repository / "infra/examples/cluster.toml").read_text(encoding="utf-8"))
    return settings["cluster"]["rasterize_resource"], settings["cluster"]["ocr_resource"]


def _raylet(node: Any) -> int:
    (raylet,) = node.all_processes["raylet"]
    return int(raylet.process.pid)


def _below(node: Any, marker: bytes) -> list[int]:
    """The processes of a node that have this in their command line."""
    found = []
    for pid in descendants(_raylet(node)):
        try:
            if marker in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


def test_each_node_does_its_part_one_joins_late_and_a_lost_one_is_replaced(
    tmp_path: Path, cluster: Any, repository: Path
) -> None:
    source, target = tmp_path / "archive", tmp_path / "out"
    make_archive(source, DOCUMENTS, PAGES)
    draws, reads = _resources(repository)
    config = tmp_path / "run.toml"
    config.write_text(CONFIG.format(address=cluster.address, draws=draws, reads=reads))
    drawing = _node(cluster, draws)
    cluster.wait_for_nodes()
    run = RunProcess.start(str(source), str(target), config)
    frozen, staged = target / "_manifest" / "survey.json", target / "_work" / "staged"
    seen: set[tuple[str, bytes]] = set()
    try:
        wait_until(lambda: run.process.poll() is not None or frozen.exists(), BEGIN_SECONDS)
        assert run.process.poll() is None, run.output()
        nodes = {"head": cluster.head_node, "draws": drawing, "reads": _node(cluster, reads)}

        def reading() -> bool:
            for name, node in nodes.items():
                seen.update(
                    (name, marker)
                    for marker in (OCR_ACTOR, RASTER_ACTOR, RASTER_CHILD)
                    if _below(node, marker)
                )
            return run.process.poll() is not None or any(staged.glob("*"))

        wait_until(reading, BEGIN_SECONDS)
        assert run.process.poll() is None, run.output()
        assert seen == {("reads", OCR_ACTOR), ("draws", RASTER_ACTOR), ("draws", RASTER_CHILD)}
        doomed = [*_below(drawing, RASTER_ACTOR), *_below(drawing, RASTER_CHILD)]
        os.kill(_raylet(drawing), signal.SIGKILL)
        assert wait_until(lambda: not any(map(is_alive, doomed)), LEFTOVER_SECONDS)
        _node(cluster, draws)
        code = run.wait(BEGIN_SECONDS)
    finally:
        if run.process.poll() is None:
            run.kill()
    assert code == 0, run.output()
    pages = published_pages(target)
    assert (len(pages), set(pages.values())) == (DOCUMENTS * PAGES, {1})
