"""Two kinds of nodes, one of which joins late: pages are drawn on the one and read on the other, as the settings of
infra/examples/cluster.toml ask.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.made_archive import make_archive
from tests.support.run_process import FAIR_SHARE, RunProcess, published_pages, wait_until

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

CLUSTER = """
[cluster]
ray_address = "{address}"
rasterize_resource = "fastocr_rasterize"
ocr_resource = "fastocr_ocr"
ocr_actors = 1
ocr_threads = 1
gpus_per_ocr_actor = 0.0
cpus_per_ocr_actor = 1.0
rasterize_actors = 1
cpus_per_rasterize_actor = 1.0
max_batch = 4
[shards]
pages = 2
"""
WHERE_ACTORS_RAN = """
import json, sys, ray
from ray._private import state
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
offers = {node["NodeID"]: sorted(node["Resources"]) for node in ray.nodes()}
ran = [(actor["ActorClassName"], offers.get(actor["Address"]["NodeID"], [])) for actor in state.actors().values()]
print(json.dumps(ran))
"""


class _GrowingCluster:
    """A Ray of a head without CPUs; nodes are added to it."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "object_store_memory": 100_000_000, "include_dashboard": False},
        )
        self.address = str(self._cluster.address)

    def add(self, resource: str) -> None:
        self._cluster.add_node(num_cpus=2, object_store_memory=100_000_000, resources={resource: 1})

    def end(self) -> None:
        self._cluster.shutdown()


@pytest.fixture
def growing_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[_GrowingCluster]:
    for name, value in FAIR_SHARE.items():
        monkeypatch.setenv(name, value)
    cluster = _GrowingCluster()
    try:
        yield cluster
    finally:
        cluster.end()


def test_pages_are_drawn_on_one_node_and_read_on_another_that_joins_late(
    tmp_path: Path, growing_cluster: _GrowingCluster
) -> None:
    source, target = tmp_path / "archive", tmp_path / "out"
    make_archive(source, documents=2, pages=6)
    config = tmp_path / "run.toml"
    config.write_text(CLUSTER.format(address=growing_cluster.address), encoding="utf-8")
    growing_cluster.add("fastocr_rasterize")
    run = RunProcess.start(str(source), str(target), config)
    frozen = target / "_manifest" / "survey.json"
    assert wait_until(lambda: frozen.exists() or run.process.poll() is not None, 240), run.output()
    assert run.process.poll() is None, run.output()
    growing_cluster.add("fastocr_ocr")
    assert run.wait(400) == 0, run.output()
    assert sorted(published_pages(target).values()) == [1] * 12
    asked = [sys.executable, "-c", WHERE_ACTORS_RAN, growing_cluster.address]
    answer = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    ran = json.loads(answer.splitlines()[-1])
    drawing = [offers for name, offers in ran if "RasterizeShards" in name]
    reading = [offers for name, offers in ran if "RecognizeShards" in name]
    assert drawing, ran
    assert reading, ran
    assert all("fastocr_rasterize" in offers for offers in drawing), ran
    assert all("fastocr_ocr" in offers for offers in reading), ran
