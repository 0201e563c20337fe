"""Two Ray nodes on this machine: one draws, one reads; then the one that draws dies, and a new one takes over."""

import os
import signal
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
rasterize_resource = "draws"
ocr_resource = "reads"
rasterize_actors = 1
ocr_actors = 1
max_batch = 4
[shards]
pages = 2
part_pages = 8
"""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head that reads and a second node that draws; the drivers join it, this process does not."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    monkeypatch.setenv("RAY_BACKEND_LOG_LEVEL", "fatal")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 2, "resources": {"reads": 1}, **NODE_MEMORY}
    cluster = Cluster(initialize_head=True, connect=False, head_node_args=head)
    try:
        yield cluster
    finally:
        cluster.shutdown()


def _drawing_node(cluster: Any) -> Any:
    return cluster.add_node(num_cpus=1, resources={"draws": 1}, **NODE_MEMORY)


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


def test_each_node_does_its_part_and_a_lost_one_is_replaced(tmp_path: Path, cluster: Any) -> None:
    source, target = tmp_path / "archive", tmp_path / "out"
    make_archive(source, DOCUMENTS, PAGES)
    config = tmp_path / "run.toml"
    config.write_text(CONFIG.format(address=cluster.address))
    drawing = _drawing_node(cluster)
    cluster.wait_for_nodes()
    run = RunProcess.start(str(source), str(target), config)
    staged = target / "_work" / "staged"
    seen: set[tuple[str, bytes]] = set()

    def reading() -> bool:
        for name, node in (("head", cluster.head_node), ("second", drawing)):
            seen.update(
                (name, marker) for marker in (OCR_ACTOR, RASTER_ACTOR, RASTER_CHILD) if _below(node, marker)
            )
        return run.process.poll() is not None or any(staged.glob("*"))

    try:
        wait_until(reading, BEGIN_SECONDS)
        assert run.process.poll() is None, run.output()
        assert seen == {("head", OCR_ACTOR), ("second", RASTER_ACTOR), ("second", RASTER_CHILD)}
        doomed = [*_below(drawing, RASTER_ACTOR), *_below(drawing, RASTER_CHILD)]
        os.kill(_raylet(drawing), signal.SIGKILL)
        assert wait_until(lambda: not any(map(is_alive, doomed)), LEFTOVER_SECONDS)
        _drawing_node(cluster)
        code = run.wait(BEGIN_SECONDS)
    finally:
        if run.process.poll() is None:
            run.kill()
    assert code == 0, run.output()
    pages = published_pages(target)
    assert (len(pages), set(pages.values())) == (DOCUMENTS * PAGES, {1})
