"""One small run, interrupted as by Ctrl-C on a terminal, carried on, and reported; on a real Ray."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.made_archive import make_archive, make_broken
from tests.support.run_process import (
    FAIR_SHARE,
    RunProcess,
    descendants,
    is_alive,
    published_pages,
    wait_until,
    write_config,
)

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(1200)]

DOCUMENTS, PAGES = 4, 24
STOP_SECONDS = 10.0
BEGIN_SECONDS = 300.0
MEASURED = {
    "pages", "image_tokens", "output_tokens", "tokens_per_second", "busy_share", "queue_seconds", "slot_fill",
    "kv_bytes", "image_kv_read_share",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Story:
    """What the two sessions said and left."""

    target: Path
    stopped_output: str
    stopped_code: int
    stop_seconds: float
    leftovers: list[int]
    output: str
    code: int


def _start(source: Path, target: Path, config: Path) -> RunProcess:
    """Like a shell does: in a process group of its own, which Ctrl-C reaches whole."""
    log = config.with_suffix(".first.log")
    command = [sys.executable, "-m", "pipeline", "run", str(source), str(target), "--config", str(config)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--model", "tiny"], env={**os.environ, **FAIR_SHARE}, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    return RunProcess(process, log)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("interrupted")
    source, target = folder / "archive", folder / "out"
    make_archive(source, DOCUMENTS, PAGES)
    make_broken(source)
    config = write_config(folder / "run.toml", shard_pages=2, part_pages=8)
    run = _start(source, target, config)
    try:
        wait_until(
            lambda: any(target.glob("pages/*.parquet")) or run.process.poll() is not None, BEGIN_SECONDS
        )
        assert run.process.poll() is None, run.output()
        helpers = descendants(run.process.pid)
        begun = time.monotonic()
        os.killpg(run.process.pid, signal.SIGINT)
        code = run.wait(120)
        seconds = time.monotonic() - begun
        wait_until(lambda: not any(map(is_alive, helpers)), STOP_SECONDS)
        leftovers = [pid for pid in helpers if is_alive(pid)]
    finally:
        if run.process.poll() is None:
            run.kill()
    again = RunProcess.start(str(source), str(target), config, "--gpu-hour-price", "1.5")
    final_code = again.wait(BEGIN_SECONDS)
    return Story(target, run.output(), code, seconds, leftovers, again.output(), final_code)


def test_ctrl_c_ends_in_time_says_what_is_safe_and_leaves_no_process(story: Story) -> None:
    assert story.stopped_code == 1, story.stopped_output
    assert story.stop_seconds <= STOP_SECONDS
    assert story.leftovers == []
    assert "Traceback" not in story.stopped_output
    last = story.stopped_output.strip().splitlines()[-1]
    assert last.startswith("Stopped. Safe are at least ")
    assert last.endswith("Run the same command again to carry on.")


def test_the_same_command_carries_on_and_sums_up(story: Story) -> None:
    assert story.code == 3, story.output
    pages = published_pages(story.target)
    assert (len(pages), set(pages.values())) == (DOCUMENTS * PAGES, {1})
    assert "pages per OCR actor and day" in story.output
    assert "per million pages" in story.output
    safe = int(story.stopped_output.partition("Safe are at least ")[2].split()[0])
    assert 0 < safe < DOCUMENTS * PAGES
    assert f"{DOCUMENTS * PAGES} pages in the manifest" in story.output


def test_every_actor_wrote_what_is_to_be_measured(story: Story) -> None:
    rows = pq.read_table(story.target / "metrics").to_pylist()
    names = defaultdict(set)
    for row in rows:
        names[(row["stage"], row["actor"])].add(row["name"])
    readers = [found for (stage, _), found in names.items() if stage == "read"]
    assert readers
    assert max(readers, key=len) >= MEASURED
    assert any(
        found >= {"pages_drawn", "busy_share"} for (stage, _), found in names.items() if stage == "rasterize"
    )
    # a run that is interrupted loses the numbers of its last seconds; those of the run to the end are all there
    left = re.search(r"(\d+) left to read", story.output)
    assert left is not None
    assert sum(row["value"] for row in rows if row["name"] == "pages") >= int(left[1]) > 0


def test_the_report_of_the_run(story: Story, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    command = [sys.executable, "-m", "pipeline", "report", str(story.target), "-o", str(output)]
    subprocess.run([*command, "--gpu-hour-price", "1.5"], check=True, timeout=300)
    page = output.read_text(encoding="utf-8")
    for words in (
        "not_a_document",
        "empty_file",
        "OCR actors",
        "Rasterize actors",
        "<svg",
        "per million pages",
    ):
        assert words in page
    assert f">{DOCUMENTS * PAGES}<" in page
