"""A survey whose driver is killed carries on with the batches that are missing; copies are read once if asked for."""

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.made_archive import make_pdf
from tests.support.run_process import RunProcess, published_pages, wait_until, write_config

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(1200)]

DIFFERENT, COPIES = 20, 140
BEGIN_SECONDS = 300.0


def test_a_survey_killed_half_way_opens_only_what_is_missing(tmp_path: Path) -> None:
    source, target = tmp_path / "archive", tmp_path / "out"
    for number in range(DIFFERENT):
        make_pdf(source / f"book {number:03d}.pdf", pages=1)
    for number in range(COPIES):
        (source / f"copy {number:03d}.pdf").write_bytes((source / "book 000.pdf").read_bytes())
    config = write_config(tmp_path / "run.toml", cpus=1, shard_pages=32, part_pages=64)
    run = RunProcess.start(str(source), str(target), config, "--skip-duplicates")
    try:
        wait_until(lambda: _surveyed(target) >= 2 or run.process.poll() is not None, BEGIN_SECONDS)
        assert run.process.poll() is None, run.output()
    finally:
        run.kill()
    assert not (target / "_manifest" / "survey.json").exists()
    done = _surveyed(target)
    again = RunProcess.start(str(source), str(target), config, "--skip-duplicates")
    assert again.wait(BEGIN_SECONDS) == 0, again.output()
    assert "160 objects found" in again.output()
    said = again.output().partition("The survey carries on: ")[2].partition(" of 5 batches")[0]
    assert done <= int(said) < 5, again.output()  # tasks that outlived the driver for a moment may add one
    pages = published_pages(target)
    assert (len(pages), set(pages.values())) == (DIFFERENT + COPIES, {1})
    rows = pq.read_table(
        target / "pages", columns=["source_uri", "outcome", "duplicate_of", "text"]
    ).to_pylist()
    assert Counter(row["outcome"] for row in rows)["duplicate"] == COPIES
    for row in rows:
        is_copy = Path(row["source_uri"]).name.startswith("copy")
        assert (row["outcome"] == "duplicate", row["text"] is None) == (is_copy, is_copy)
    documents = pq.read_table(target / "documents").to_pylist()
    first = documents[0]["document_id"]
    assert {row["duplicate_of"] for row in documents[DIFFERENT:]} == {first}
    assert {row["outcome"] for row in documents} == {"complete"}


def _surveyed(target: Path) -> int:
    return sum(1 for _ in target.glob("_work/listing/*/batches/batch-*"))
