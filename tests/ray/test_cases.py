"""One run over every case file, with two OCR actors of which one is killed: each line of the index holds.

The toy model reads, so that what is checked is everything but the text (for that see test_case_phrases.py): outcome,
reason, pages, turns, resolution, blankness, repair, memory and time limits, size and hash of what was read.
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
    RASTER_ACTOR,
    RASTER_CHILD,
    RunProcess,
    published_pages,
    wait_until,
    write_config,
)
from workers.second_pass import NO_BETTER

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(3600)]

EMPTY_OBJECTS = 200
SECONDS = 3000.0  # generous: a busy machine takes long
# Generous as well; what the index allows a file is compared with what its rows say, and tests/unit/workers/test_cases.py
# lets the child be killed at just that.
MORE_SETTINGS = """
[raster]
seconds_per_page = 120.0
"""
# What the index expects of a file, and where it is proved: of texts as much as the embedded reader can read. A key that
# is not here is one that nobody looks at.
PROVED_HERE = {
    "blank_pages", "max_chars", "max_peak_rss_mb", "max_seconds", "must_not", "must_record", "page_1", "page_2",
    "page_order", "pdf_rotate_key", "per_page_view", "rotation_correction", "rows", "text",
}  # fmt: skip
PROVED_IN = {
    "max_growth": "tests/soak/long_document.py",
    **dict.fromkeys(
        ("every_page_must_contain", "must_contain", "must_contain_loose", "must_not_contain", "order",
         "page_1_contains", "page_text"),
        "tests/parity/test_case_phrases.py",
    ),
}  # fmt: skip
FACTS = {"language", "members", "no_text_layer", "note", "pymupdf"}  # of the file, nothing to be proved
THUMBNAIL_PIXELS = 100  # two cases are so small that nothing can stand on them
READ = {"ok", "ok_blank", "ok_repaired", "flagged"}


@dataclass(frozen=True, slots=True)
class CaseRun:
    """The finished run: rows by file name, the closing facts, what was said, and the most memory that a rasterize child
    and a rasterize actor ever held.
    """

    documents: dict[str, dict[str, Any]]
    pages: dict[str, list[dict[str, Any]]]
    facts: Mapping[str, Any]
    output: str
    largest_bytes: Mapping[bytes, int]


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
    largest = dict.fromkeys((RASTER_CHILD, RASTER_ACTOR), 0)
    killed = False

    def look() -> bool:
        nonlocal killed
        for marker in largest:
            largest[marker] = max([largest[marker], *map(_peak_bytes, run.helpers(marker))])
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


def test_nothing_that_the_index_expects_is_passed_over(
    index: Mapping[str, dict[str, Any]], repository: Path
) -> None:
    expected = {key for line in index.values() for key in line["expect"]}
    assert expected <= PROVED_HERE | PROVED_IN.keys() | FACTS
    assert [place for place in set(PROVED_IN.values()) if not (repository / place).is_file()] == []


def _check_line(line: dict[str, Any], document: dict[str, Any], pages: list[dict[str, Any]]) -> None:
    status, expect, verified = line["status"], line["expect"], line["verified"]
    assert document["bytes"] == line["bytes"], "size"
    if line["bytes"]:  # what is empty is not fetched
        assert document["content_hash"] == line["sha256"], "hash"
    assert document["repaired"] == verified.get("repaired", False), "repair"
    if verified.get("needs_pass"):
        assert document["reason"] == "encrypted", "locked"
    reasons = re.findall(r"quarantine\((\w+)\)", status)
    if document["outcome"] == "quarantined":
        assert document["reason"] in reasons, "quarantined for another reason"
        assert not pages, "a quarantined document has page rows"
        return
    assert re.search(r"\b(ok|partial)\b", status), "should have been quarantined"
    assert document["pages"] == len(pages) == line["pages"] == expect.get("rows", len(pages)), (
        "number of pages"
    )
    assert [row["page_index"] for row in pages] == list(range(len(pages))), "order of pages"
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
            assert row["output_tokens"] is None, f"page {number} was shown to the model"
        if "max_seconds" in expect:
            assert row["rasterize_seconds"] <= expect["max_seconds"], f"time limit of page {number}"
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
    """Each process by itself keeps the lowest limit of all; together the limit of the larger files."""
    limits = [
        line["expect"]["max_peak_rss_mb"] for line in index.values() if "max_peak_rss_mb" in line["expect"]
    ]
    child, actor = (case_run.largest_bytes[marker] for marker in (RASTER_CHILD, RASTER_ACTOR))
    assert 50e6 < child <= min(limits) * 1e6
    assert 50e6 < actor <= min(limits) * 1e6
    assert child + actor <= max(limits) * 1e6


def test_second_readings_are_counted_in_the_summary(case_run: CaseRun) -> None:
    rows = [row for pages in case_run.pages.values() for row in pages]
    again = [row for row in rows if row["dense_retry"]]
    assert again, "some pages exceed the toy's limit, which asks for a dense reading"
    for row in again:
        stood = NO_BETTER in row["warnings"]
        assert row["policy"] == ("fastocr" if stood else "dense")
        assert (row["text"] != row["text_before_retry"]) == row["retry_changed_text"]
    changed = sum(row["retry_changed_text"] for row in again)
    assert (case_run.facts["second_passes"], case_run.facts["texts_changed"]) == (len(again), changed)
    assert f"read again  {len(again)} pages" in case_run.output
