"""A driver and its OCR actor that fall asleep in the middle, and wake when another driver has long finished."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.made_archive import make_archive
from tests.support.run_process import (
    OCR_ACTOR,
    RunProcess,
    descendants,
    is_alive,
    published_pages,
    wait_until,
    write_config,
)

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(1800)]

DOCUMENTS, PAGES = 4, 6
BEGIN_SECONDS = 600.0
LEFTOVER_SECONDS = 10.0


def test_who_wakes_late_finds_everything_done_and_changes_nothing(tmp_path: Path) -> None:
    source, target = tmp_path / "archive", tmp_path / "out"
    make_archive(source, DOCUMENTS, PAGES)
    config = write_config(tmp_path / "run.toml", shard_pages=2, part_pages=4)
    sleeper = RunProcess.start(str(source), str(target), config)
    asleep: list[int] = []
    try:
        staged = target / "_work" / "staged"
        wait_until(lambda: sleeper.process.poll() is not None or any(staged.glob("*")), BEGIN_SECONDS)
        asleep = [sleeper.process.pid, *sleeper.helpers(OCR_ACTOR)]
        for pid in asleep:
            os.kill(pid, signal.SIGSTOP)
        assert len(asleep) > 1, sleeper.output()
        assert not (target / "_SUCCESS").exists()
        other = RunProcess.start(str(source), str(target), config)
        assert other.wait(BEGIN_SECONDS) == 0, other.output()
        done = _contents(target)
        helpers = descendants(sleeper.process.pid)
        for pid in asleep:
            os.kill(pid, signal.SIGCONT)
        code = sleeper.wait(BEGIN_SECONDS)
    finally:
        for pid in asleep:
            if is_alive(pid):
                os.kill(pid, signal.SIGCONT)
        if sleeper.process.poll() is None:
            sleeper.kill()
    assert code == 0, sleeper.output()
    assert wait_until(lambda: not any(map(is_alive, helpers)), LEFTOVER_SECONDS)
    after = _contents(target)
    assert {key: data for key, data in after.items() if not key.startswith("metrics/")} == {
        key: data for key, data in done.items() if not key.startswith("metrics/")
    }
    pages = published_pages(target)
    assert (len(pages), set(pages.values())) == (DOCUMENTS * PAGES, {1})


def _contents(target: Path) -> dict[str, bytes]:
    return {str(file.relative_to(target)): file.read_bytes() for file in target.rglob("*") if file.is_file()}
