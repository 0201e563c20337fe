"""One run over every case file, with two OCR actors of which one is killed: each line of the index holds.

The toy model reads, so that what is checked is everything but the text: outcome, reason, pages, turns,
resolution, blankness, repair, memory and time limits.
"""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.run_process import (
    OCR_ACTOR,
    RASTER_CHILD,
    RunProcess,
    published_pages,
    wait_until,
    write_config,
)

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(3600)]

EMPTY_OBJECTS = 200
SECONDS = 3000.0  # generous: a busy machine takes long
MORE_SETTINGS = """
[raster]
seconds_per_page = 120.0
"""
THUMBNAIL_PIXELS = 100  # two cases are so small that nothing can stand on them
READ = {"ok", "ok_blank", "ok_repaired", "flagged"}


@dataclass(frozen=True, slots=True)
class CaseRun:
    """The finished run: rows by file name, the closing facts, what was said, and the largest rasterize child."""

    documents: dict[str, dict[str, Any]]
    pages: dict[str, list[dict[str, Any]]]
    facts: Mapping[str, Any]
    output: str
    largest_child_bytes: int


@pytest.fixture(scope="module")
def index(cases_dir: Path) -> dict[str, dict[str, Any]]:
    lines = (cases_dir / "index.jsonl").read_text(encoding="utf-8").splitlines()
    return {entry["file"]: entry for entry in map(json.loads, lines)}


@pytest.fixture(scope="module")
def case_run(cases_dir: Path, index: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory) -> CaseRun:
    folder = tmp_path_factory.mktemp("cases")
    source, target = folder / "archive", folder / "out"
    (source / "empty").mkdir(parents=True)
    for name in index:
        shutil.copy(cases_dir / name, source / name)
    for number in range(EMPTY_OBJECTS):
        (source / "empty" / f"object {number}.pdf").touch()
    config = write_config(folder / "run.toml", shard_pages=8, part_pages=64)
    text = config.read_text().replace("[shards]", "ocr_actors = 2\n[shards]")
    config.write_text(text + MORE_SETTINGS)
    run = RunProcess.start(str(source), str(target), config)
    largest = 0
    killed = False

    def look() -> bool:
        nonlocal largest, killed
        for pid in run.helpers(RASTER_CHILD):
            largest = max(largest, _peak_bytes(pid))
        if not killed and sum(1 for _ in target.glob("_work/staged/*")) >= 5:
            killed = run.kill_helper(OCR_ACTOR)
        return run.process.poll() is not None

    try:
        assert wait_until(look, SECONDS), run.output()
    finally:
        if run.process.poll() is None:
            run.kill()
    assert run.process.returncode == 3, run.output()
    assert killed
    assert set(published_pages(target).values()) == {1}
    documents = {Path(row["source_uri"]).name: row for row in pq.read_table(target / "documents").to_pylist()}
    pages: dict[str, list[dict[str, Any]]] = {name: [] for name in documents}
    for row in pq.read_table(target / "pages").to_pylist():
        pages[Path(row["source_uri"]).name].append(row)
    facts = json.loads((target / "_SUCCESS").read_text())
    return CaseRun(documents, pages, facts, run.output(), largest)


def _peak_bytes(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0


def test_nothing_is_missing_and_one_dead_actor_of_two_does_not_end_the_job(
    case_run: CaseRun, index: Mapping[str, dict[str, Any]]
) -> None:
    assert len(case_run.documents) == len(index) + EMPTY_OBJECTS
    assert sum(map(len, case_run.pages.values())) == case_run.facts["pages"]
    assert case_run.facts["pages"] >= 440
    empty = [row for name, row in case_run.documents.items() if name.startswith("object ")]
    assert [row["reason"] for row in empty] == ["empty_file"] * EMPTY_OBJECTS
    for name, rows in case_run.pages.items():
        assert [row["page_index"] for row in rows] == list(range(case_run.documents[name]["pages"])), name


def test_every_line_of_the_index_holds(case_run: CaseRun, index: Mapping[str, dict[str, Any]]) -> None:
    problems = []
    for name, line in index.items():
        document, pages = case_run.documents[name], case_run.pages[name]
        try:
            _check_line(line, document, pages)
        except AssertionError as failure:
            said = [(row["outcome"], row["reason"], row["flags"], row["warnings"]) for row in pages[:6]]
            problems.append(f"{name}: {failure} ({document['outcome']}, {document['reason']}; {said})")
    assert problems == [], "\n".join(problems)


def _check_line(line: dict[str, Any], document: dict[str, Any], pages: list[dict[str, Any]]) -> None:
    status, expect = line["status"], line["expect"]
    reasons = re.findall(r"quarantine\((\w+)\)", status)
    if document["outcome"] == "quarantined":
        assert document["reason"] in reasons, "quarantined for another reason"
        assert not pages, "a quarantined document has page rows"
        return
    assert re.search(r"\b(ok|partial)\b", status), "should have been quarantined"
    assert document["pages"] == len(pages) == line["pages"], "number of pages"
    partial = status == "partial"
    assert document["outcome"] == ("partial" if partial else "complete"), "outcome of the document"
    blanks = expect.get("blank_pages", [1] if "(blank)" in status else [])
    for number, row in enumerate(pages, 1):
        if partial and number == 2:
            assert (row["outcome"], row["reason"]) == ("failed", "corrupt"), "the bad page"
            continue
        assert row["outcome"] in READ, f"page {number} was not read"
        assert row["reason"] in (None, "token_limit", "loop", "truncated_file"), f"reason of page {number}"
        if max(row["image_width"], row["image_height"]) > THUMBNAIL_PIXELS:
            assert (row["outcome"] == "ok_blank") == (number in blanks), f"blankness of page {number}"
        if row["outcome"] == "ok_blank":
            assert row["text"] == "", f"invented text on page {number}"
        assert row["image_width"] * row["image_height"] <= 40e6, "pixel budget"
    _check_expectations(line, document, pages)


def _check_expectations(line: dict[str, Any], document: dict[str, Any], pages: list[dict[str, Any]]) -> None:
    expect, first = line["expect"], pages[0]
    turns = [0, 270, 180, 90] if "per_page_view" in expect else [expect.get("rotation_correction", 0)]
    assert [row["turn_applied"] for row in pages[: len(turns)]] == turns, "turns"
    assert all(row["turn_applied"] == 0 for row in pages[len(turns) :] if row["turn_applied"]), "turns"
    assert first["rotate_key"] == expect.get("pdf_rotate_key", 0), "rotate key"
    recorded = expect.get("must_record", "")
    if "dpi" in recorded:
        assert first["dpi_used"] > 0, "resolution"
        assert first["dpi_asked"] > 0, "resolution"
    if "repair" in recorded:
        assert document["repaired"], "repair"
        assert first["outcome"] == "ok_repaired" or "repaired" in first["flags"], "repair"
    if "warning" in line["status"]:
        assert first["warnings"], "a warning"


def test_memory_stays_within_the_limits_of_every_line(
    case_run: CaseRun, index: Mapping[str, dict[str, Any]]
) -> None:
    limits = [
        line["expect"]["max_peak_rss_mb"] for line in index.values() if "max_peak_rss_mb" in line["expect"]
    ]
    assert 50e6 < case_run.largest_child_bytes <= min(limits) * 1e6


def test_second_readings_are_counted_in_the_summary(case_run: CaseRun) -> None:
    rows = [row for pages in case_run.pages.values() for row in pages]
    again = [row for row in rows if row["dense_retry"]]
    assert again, "some pages exceed the toy's limit, which asks for a dense reading"
    for row in again:
        assert row["policy"] == "dense"
        assert (row["text"] != row["text_before_retry"]) == row["retry_changed_text"]
    changed = sum(row["retry_changed_text"] for row in again)
    assert (case_run.facts["second_passes"], case_run.facts["texts_changed"]) == (len(again), changed)
    assert f"read again  {len(again)} pages" in case_run.output
