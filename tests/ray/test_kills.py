"""Whatever is killed, a plain glob over the parts never shows a page twice, and in the end each once."""

import json
import random
import threading
from pathlib import Path

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
    write_config,
)

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(1200)]

DOCUMENTS, PAGES = 6, 10
SHARDS = 20
SHARDS_IN_FLIGHT = 4
LEFTOVER_SECONDS = 10.0
BEGIN_SECONDS = 300.0  # generous: a busy machine takes long to start a Ray


class ContinuousReader:
    """A user who reads the output all the time while it is written."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._stopped = threading.Event()
        self.problems: list[str] = []
        self.looks = 0
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._stopped.wait(0.2):
            doubled = [page for page, count in published_pages(self._target).items() if count > 1]
            self.looks += 1
            if doubled:
                self.problems.append(f"look {self.looks}: {doubled[:3]}")


def test_sixty_pages_survive_three_kills(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    chance = random.Random(seed)
    source, target = tmp_path / "archive", tmp_path / "out"
    make_archive(source, DOCUMENTS, PAGES)
    config = write_config(tmp_path / "run.toml", shard_pages=3, part_pages=9)
    victims = chance.sample(["driver", "OCR actor"], 2)
    moments = sorted(chance.sample(range(2, SHARDS - 6), 2))
    child_in_run = chance.choice([1, 2])
    print(f"seed {seed}: {victims} at {moments}, rasterize child in run {child_in_run}")
    reader = ContinuousReader(target)
    run = RunProcess.start(str(source), str(target), config)
    try:
        if child_in_run == 1:
            _kill_child(run, target)
        for victim, moment in zip(victims, moments, strict=True):
            _await_reading(run, target, moment)
            if victim == "OCR actor":
                assert wait_until(lambda run=run: run.kill_helper(OCR_ACTOR), BEGIN_SECONDS), run.output()
                continue
            _kill_driver(run)
            run = RunProcess.start(str(source), str(target), config)
            if child_in_run == 2:
                _kill_child(run, target)
        code = run.wait(BEGIN_SECONDS)
    finally:
        if run.process.poll() is None:
            run.kill()
        reader.stop()
    assert code == 0, run.output()
    assert reader.looks > 5
    assert reader.problems == []
    pages = published_pages(target)
    assert len(pages) == DOCUMENTS * PAGES
    assert set(pages.values()) == {1}
    readings = json.loads((target / "_SUCCESS").read_text())["shard_readings"]
    assert SHARDS <= readings <= SHARDS + 2 * SHARDS_IN_FLIGHT  # only driver and actor hold shards in flight


def _await_reading(run: RunProcess, target: Path, moment: int) -> None:
    wait_until(lambda: _readings(target) >= moment or run.process.poll() is not None, BEGIN_SECONDS)
    assert _readings(target) >= moment, run.output()


def _kill_driver(run: RunProcess) -> None:
    helpers = descendants(run.process.pid)
    run.kill()
    gone = wait_until(lambda: not any(map(is_alive, helpers)), LEFTOVER_SECONDS)
    left = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in helpers if is_alive(pid)}
    assert gone, f"processes outlived their driver: {left}"


def _kill_child(run: RunProcess, target: Path) -> None:
    """Right after the survey: drawing pages is quicker than reading them, and the child ends with its work."""
    surveyed = target / "_manifest" / "shards.parquet"
    wait_until(lambda: surveyed.exists() or run.process.poll() is not None, BEGIN_SECONDS)
    assert wait_until(lambda: run.kill_helper(RASTER_CHILD), BEGIN_SECONDS), run.output()


def _readings(target: Path) -> int:
    return sum(1 for _ in target.glob("_work/attempts/*"))
