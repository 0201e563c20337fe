"""Whole runs on a local Ray with the toy model."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.made_archive import make_archive, make_broken
from tests.support.run_process import RunProcess, published_pages, wait_until, write_config
from workers.schema import PAGE_SCHEMA

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(1200)]


def test_an_archive_becomes_parquet_and_shards_are_staged_while_others_are_read(tmp_path: Path) -> None:
    source, target = tmp_path / "archive", tmp_path / "out"
    make_archive(source, documents=4, pages=10)
    make_broken(source)
    config = write_config(tmp_path / "run.toml", shard_pages=2, part_pages=80)
    run = RunProcess.start(str(source), str(target), config)
    seen: list[tuple[int, int]] = []

    def look() -> bool:
        staged = sum(1 for _ in target.glob("_work/staged/*"))
        begun = sum(1 for _ in target.glob("_work/attempts/*"))
        if staged and begun:
            seen.append((staged, begun))
        return run.process.poll() is not None

    assert wait_until(look, 240), run.output()
    assert run.wait() == 3, run.output()
    assert any(staged < begun < 20 for staged, begun in seen), f"staged and begun of 20 shards: {seen}"
    assert _counts(published_pages(target)) == (40, 1)
    assert not (target / "_work").exists()
    tables = [pq.read_table(part) for part in sorted(target.glob("pages/*.parquet"))]
    assert all(table.schema.equals(PAGE_SCHEMA) for table in tables)
    keys = [(row["source_uri"], row["page_index"]) for table in tables for row in table.to_pylist()]
    assert keys == sorted(keys)
    documents = pq.read_table(target / "documents").to_pylist()
    assert [row["outcome"] for row in documents].count("quarantined") == 2
    assert {row["reason"] for row in documents} == {None, "empty_file", "not_a_document"}
    assert json.loads((target / "_SUCCESS").read_text())["shard_readings"] == 20
    metrics = pq.read_table(target / "metrics").to_pylist()
    assert sum(row["value"] for row in metrics if row["name"] == "pages") == 40
    assert "first lines read" in run.output()

    before = {file: file.stat().st_mtime_ns for file in target.rglob("*") if file.is_file()}
    again = RunProcess.start(str(source), str(target), config)
    assert again.wait() == 3
    assert {file: file.stat().st_mtime_ns for file in target.rglob("*") if file.is_file()} == before
    other = RunProcess.start(str(source), str(target), config, "--decode", "dense")
    assert other.wait() == 2
    assert "decode.kept_share, decode.name" in other.output()


def test_two_drivers_at_once_on_one_cpu_each_write_every_page_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # a cluster elsewhere is no business of a local run
    source, target = tmp_path / "archive", tmp_path / "out"
    make_archive(source, documents=2, pages=6)
    config = write_config(tmp_path / "run.toml", cpus=1, shard_pages=2, part_pages=4)
    runs = [RunProcess.start(str(source), str(target), config) for _ in range(2)]
    codes = [run.wait(400) for run in runs]
    assert codes == [0, 0], "\n".join(run.output() for run in runs)
    assert _counts(published_pages(target)) == (12, 1)


def _counts(pages: dict[tuple[str, int], int]) -> tuple[int, int]:
    return len(pages), max(pages.values(), default=0)
