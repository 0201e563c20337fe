"""The measurement of rasterizing: it measures what it says, in one line per file and a summary for scripts."""

import json
import sys
from pathlib import Path

import pytest

from fastocr_core.vision import model_vision
from workers import raster_bench
from workers.raster_bench import FileSpeed, speed_of


def test_every_part_of_the_way_is_measured(repository: Path) -> None:
    file = repository / "infra/examples/archive/irm-two-pages.pdf"
    speed = speed_of(file, model_vision("mini"), most_pages=1, repeats=1)
    assert speed is not None
    assert (speed.name, speed.pages, speed.how) == (file.name, 1, "rendered")
    assert speed.megapixels == pytest.approx(2.1, abs=0.1)
    assert min(speed.plain, speed.draw, speed.hand_over, speed.judge, speed.resize) > 0


def test_shares_are_rates_of_ours_over_the_plain_rate() -> None:
    speed = FileSpeed("a.pdf", 2, 1.0, "lifted", plain=9.0, draw=7.0, hand_over=3.0, judge=2.0, resize=50.0)
    assert (speed.drawing_share, speed.share) == (0.9, 0.75)


def test_the_command_leaves_out_what_cannot_be_drawn(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = repository / "infra/examples/archive"
    files = [str(archive / name) for name in ("broken-copy.pdf", "lighthouse-log.png")]
    monkeypatch.setattr(sys, "argv", ["raster_bench", *files, "--repeats", "1"])
    assert raster_bench.main() == 0
    *table, last = capsys.readouterr().out.splitlines()
    facts = json.loads(last)
    assert [file["name"] for file in facts["files"]] == ["lighthouse-log.png"]
    assert 0 < facts["with_judging"] < facts["drawing"]
    assert any(line.startswith("| lighthouse-log.png | 1 |") for line in table)
