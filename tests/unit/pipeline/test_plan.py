"""A plan adds up, costs what the rate says, and writes nothing that was not asked for."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pipeline.cli import application
from pipeline.plan_sums import Plan, Rate
from pipeline.plan_words import plan_facts, plan_lines
from tests.support.made_archive import make_broken, make_pdf
from tests.unit.pipeline.factory import surveyed
from workers.outcomes import Reason

PAGES = {"a.pdf": 3, "b/a.pdf": 2, "c.pdf": 4}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Nine pages in three documents, a copy of the first, and two files that cannot be read."""
    folder = tmp_path / "archive"
    for name, pages in PAGES.items():
        make_pdf(folder / name, pages)
    (folder / "copy #.pdf").write_bytes((folder / "a.pdf").read_bytes())
    make_broken(folder)
    return folder


def _run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(application, ["plan", *map(str, arguments), "--model", "tiny"])
    assert result.exit_code == code, result.output
    return result.output


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def test_a_plan_of_real_documents_says_everything_and_writes_nothing(archive: Path, tmp_path: Path) -> None:
    before = _files(tmp_path)
    said = _run(archive, "--pages-per-second", 2, "--gpus", 3, "--price-per-hour", 1800)
    assert _files(tmp_path) == before
    for words in (
        "documents   6 (2 cannot be read)",
        "pages       12\n",
        "1 documents with 3 pages have the bytes of another and will be read again",
        "pdf       4 documents, 12 pages",
        "not read  1 documents: empty_file",
        "not read  1 documents: not_a_document",
        "2 s of reading on 3 devices at 2 pages/s each",
        "cost        3.00 for 0.00 device hours at 1,800.00",
    ):
        assert words in said


def test_a_plan_in_files(archive: Path, tmp_path: Path) -> None:
    for ending in ("json", "parquet"):
        _run(archive, "--skip-duplicates", "-o", tmp_path / f"plan.{ending}", "--rate", 0.5)
    facts = json.loads((tmp_path / "plan.json").read_text())
    assert (facts["documents"], facts["pages"], facts["pages_to_read"]) == (6, 12, 9)
    assert facts["unreadable"] == {"empty_file": 1, "not_a_document": 1}
    assert facts["device_hours"] == pytest.approx(18 / 3600)
    rows = pq.read_table(tmp_path / "plan.parquet").to_pylist()
    assert [Path(row["source_uri"]).name for row in rows] == [
        "a.pdf", "a.pdf", "c.pdf", "copy #.pdf", "empty.pdf", "notes.pdf",
    ]  # fmt: skip
    assert rows[3]["duplicate_of"] == rows[0]["document_id"]
    read = sum(row["image_tokens"] for row in rows if row["duplicate_of"] is None)
    assert read == facts["image_tokens"] > 0
    assert _files(tmp_path)[-2:] == [tmp_path / "plan.json", tmp_path / "plan.parquet"]


def test_a_limited_plan_stops_at_the_limit(archive: Path) -> None:
    said = _run(archive, "--limit", 4)
    assert "pages       4\n" in said
    assert "documents   2 (0 cannot be read)" in said


def test_a_list_is_planned_and_what_is_missing_is_counted(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("archive/copy #.pdf\narchive/gone.pdf\narchive/b/a.pdf\n")
    said = _run(tmp_path / "list.txt")
    assert "documents   3 (1 cannot be read)" in said
    assert "pages       5\n" in said
    assert "1 documents: storage_missing" in said


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["{}/nowhere"], 1, "There is no folder"),
        (["{}", "-o", "{}/plan.txt"], 2, "a plan is written as .json or .parquet"),
        (["{}", "-o", "{}/none/plan.json"], 2, "cannot be written"),
        (["{}", "--rate", "0"], 2, "give more than 0"),
        (["{}", "--price-per-hour", "-1"], 2, "gpu_hour_price must not be negative"),
        (["{}", "--mode", "gundam"], 2, "has no mode"),
    ],
)
def test_a_slip_is_one_sentence(archive: Path, arguments: Sequence[str], code: int, words: str) -> None:
    said = _run(*(argument.format(archive) for argument in arguments), code=code)
    assert words in said
    assert "Traceback" not in said


def test_the_source_may_stand_in_the_configuration(archive: Path, tmp_path: Path) -> None:
    file = tmp_path / "fastocr.toml"
    file.write_text(f"source = {str(archive)!r}\n", encoding="utf-8")
    assert "documents   6" in _run("--config", str(file), code=0)
    assert "There is no folder" in _run(str(archive / "nowhere"), "--config", str(file), code=1), (
        "the line wins"
    )
    assert "The setting 'source' is missing; give it as SOURCE, or in the configuration." in _run(code=2)


def test_the_bill_is_arithmetic() -> None:
    plan = Plan()
    for batch in (surveyed("a", 30), surveyed("b", 6), surveyed("c", 0, Reason.ENCRYPTED)):
        plan.add(batch, skip_duplicates=False)
    assert (plan.documents, plan.pages, plan.unreadable) == (3, 36, {"encrypted": 1})
    plan.image_tokens = 7200
    by_tokens = Rate(None, 2.0, assumed=True, devices=4, price=3.0)
    facts = plan_facts(plan, "s", "m", by_tokens)
    assert (facts["device_hours"], facts["hours"], facts["cost"]) == (1.0, 0.25, 3.0)
    words = "\n".join(plan_lines(plan, "s", "m", by_tokens))
    assert "tokens      at most 7,200 visual, 200 a page" in words
    assert "15 min of reading on 4 devices at 2 visual tokens/s each (a guess" in words
    by_pages = Rate(0.01, 2.0, assumed=False)
    assert plan_facts(plan, "s", "m", by_pages)["device_hours"] == 1.0
    assert "cost" not in "\n".join(plan_lines(plan, "s", "m", by_pages))
