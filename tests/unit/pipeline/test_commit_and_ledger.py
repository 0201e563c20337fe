"""Parts are published whole, once, and only with the pages that the manifest expects; the ledger adds up."""

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.commit import CommitError, Publisher, close
from pipeline.ledger import LedgerError, check_run, counted_facts, document_rows
from pipeline.planner import ShardLimits, group_parts
from pipeline.resume import Progress, find_progress, remaining_work
from tests.unit.pipeline.factory import frozen_manifest, page_row, stage, surveyed
from workers.layout import SUCCESS_KEY, documents_key, part_key, staged_key
from workers.manifest_reader import ManifestReader
from workers.object_store import LocalStore
from workers.outcomes import Reason
from workers.schema import DocumentRow, rows_to_table, table_to_parquet

LIMITS = ShardLimits(pages=2, part_pages=4)
NOTHING = Progress(frozenset(), frozenset())


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path / "target"))


@pytest.fixture
def manifest(store: LocalStore) -> ManifestReader:
    documents = [surveyed("a.pdf", 5), surveyed("broken.pdf", 0, Reason.CORRUPT), surveyed("c.pdf", 4)]
    return frozen_manifest(store, documents, LIMITS)


def test_a_part_appears_when_its_last_shard_is_staged(store: LocalStore, manifest: ManifestReader) -> None:
    publisher = Publisher(store, manifest, NOTHING)
    first, second = group_parts(manifest.shards)[0].shards
    stage(store, manifest, second.shard_index)
    assert publisher.shard_staged(second.shard_index) is None
    assert not store.exists(part_key(0))
    stage(store, manifest, first.shard_index)
    assert publisher.shard_staged(first.shard_index) == 0
    table = pq.read_table(io.BytesIO(store.get(part_key(0))))
    assert table["page_id"].to_pylist() == [page.page_id for page in manifest.pages(0, 4)]
    assert find_progress(store) == Progress(frozenset({0}), frozenset())


def test_a_second_publisher_changes_nothing(store: LocalStore, manifest: ManifestReader) -> None:
    part = group_parts(manifest.shards)[0]
    late = Publisher(store, manifest, NOTHING)
    for shard in part.shards:
        stage(store, manifest, shard.shard_index, text="first")
    assert Publisher(store, manifest, NOTHING).publish(part)
    published = store.get(part_key(0))
    assert not late.publish(part)  # the staged shards are gone by now
    for shard in part.shards:
        stage(store, manifest, shard.shard_index, text="second")
    assert not late.publish(part)  # a writer that woke up late staged them again
    assert store.get(part_key(0)) == published


def test_wrong_pages_are_never_published(store: LocalStore, manifest: ManifestReader) -> None:
    part = group_parts(manifest.shards)[0]
    stage(store, manifest, part.shards[0].shard_index)
    wrong = [page_row(page) for page in manifest.pages(0, 2)]
    store.put(staged_key(part.shards[1].shard_index), table_to_parquet(rows_to_table(wrong)))
    with pytest.raises(CommitError, match="do not hold the pages"):
        Publisher(store, manifest, NOTHING).publish(part)
    assert not store.exists(part_key(0))


def test_a_complete_run_is_closed_and_counted(store: LocalStore, manifest: ManifestReader) -> None:
    _publish_all(store, manifest)
    tally = check_run(store, manifest)
    assert tally.outcomes == {"ok": 9}
    assert (tally.image_tokens, tally.output_tokens) == (90, 45)
    rows = list(document_rows(manifest, tally))
    assert [(row.source_uri, row.outcome, row.pages_ok) for row in rows] == [
        ("a.pdf", "complete", 5),
        ("broken.pdf", "quarantined", 0),
        ("c.pdf", "complete", 4),
    ]
    for _ in range(2):  # a driver killed between the marks repeats them
        close(store, rows, {"pages": tally.pages})
    assert json.loads(store.get(SUCCESS_KEY)) == {"pages": 9}
    assert pq.read_table(io.BytesIO(store.get(documents_key(0)))).num_rows == 3
    assert list(store.list("_work/")) == []
    assert not Path(store.root, "_work").exists()


def test_a_missing_part_or_page_fails_the_ledger(store: LocalStore, manifest: ManifestReader) -> None:
    _publish_all(store, manifest)
    last = group_parts(manifest.shards)[1]
    store.delete(part_key(last.part_index))
    with pytest.raises(
        LedgerError, match=r"The run is not complete: pages/part-\d+\.parquet is not published yet\."
    ):
        check_run(store, manifest)
    rows = [page_row(page) for page in manifest.pages(last.first_row, last.page_count)]
    store.put(part_key(last.part_index), table_to_parquet(rows_to_table([*rows[1:], rows[-1]])))
    with pytest.raises(LedgerError, match="lacks 1 pages of the manifest and holds 1 too many"):
        check_run(store, manifest)
    store.put(part_key(last.part_index), table_to_parquet(rows_to_table([])))
    with pytest.raises(LedgerError, match="lacks 4 pages of the manifest and holds 0 too many"):
        check_run(store, manifest)


def test_an_outcome_outside_the_list_fails_the_ledger(store: LocalStore, manifest: ManifestReader) -> None:
    _publish_all(store, manifest)
    part = group_parts(manifest.shards)[0]
    rows = [page_row(page, "done") for page in manifest.pages(part.first_row, part.page_count)]
    store.put(part_key(0), table_to_parquet(rows_to_table(rows)))
    with pytest.raises(LedgerError, match="'done' is no outcome"):
        check_run(store, manifest)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"reason": "bad_luck"}, "'bad_luck' is no reason"),
        ({"document_id": "0" * 32}, "is said to be of 00000000"),
    ],
)
def test_a_page_of_another_document_or_with_another_reason_fails_the_ledger(
    store: LocalStore, manifest: ManifestReader, wrong: dict[str, str], words: str
) -> None:
    _publish_all(store, manifest)
    part = group_parts(manifest.shards)[0]
    rows = [page_row(page) for page in manifest.pages(part.first_row, part.page_count)]
    rows[-1] = dataclasses.replace(rows[-1], **wrong)  # type: ignore[arg-type]
    store.put(part_key(0), table_to_parquet(rows_to_table(rows)))
    with pytest.raises(LedgerError, match=words):
        check_run(store, manifest)


@pytest.mark.parametrize(
    "damage",
    [lambda data: b"half a fi", lambda data: b"", lambda data: data[:-40], lambda data: _other_columns()],
)
def test_a_damaged_staged_object_is_named_and_never_published(
    store: LocalStore, manifest: ManifestReader, damage: Callable[[bytes], bytes]
) -> None:
    part = group_parts(manifest.shards)[0]
    for shard in part.shards:
        stage(store, manifest, shard.shard_index)
    key = staged_key(part.shards[1].shard_index)
    store.put(key, damage(store.get(key)))
    with pytest.raises(CommitError, match=f"{store.uri(key)}.*delete it and run again"):
        Publisher(store, manifest, NOTHING).publish(part)
    assert not store.exists(part_key(0))


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-40], lambda data: data[: len(data) // 2], lambda data: _other_columns()]
)
def test_a_damaged_published_part_fails_the_ledger_by_name(
    store: LocalStore, manifest: ManifestReader, damage: Callable[[bytes], bytes]
) -> None:
    _publish_all(store, manifest)
    store.put(part_key(1), damage(store.get(part_key(1))))
    with pytest.raises(LedgerError, match=f"{store.uri(part_key(1))} is damaged"):
        check_run(store, manifest)


@pytest.mark.parametrize(
    "name", ["part-00007.parquet", "copy of part-00000.parquet", "old/part-00000.PARQUET"]
)
def test_a_doubled_table_beside_the_parts_fails_the_ledger(
    store: LocalStore, manifest: ManifestReader, name: str
) -> None:
    _publish_all(store, manifest)
    store.put(f"pages/{name}", store.get(part_key(0)))
    with pytest.raises(LedgerError, match=f"{name} is no part of this run"):
        check_run(store, manifest)


def test_stray_files_that_are_no_tables_do_not_matter(store: LocalStore, manifest: ManifestReader) -> None:
    for key in ("pages/part-00000.crc", "pages/.DS_Store", "_work/staged/shard-x", "_work/staged/notes.txt"):
        store.put(key, b"stray")
    assert find_progress(store) == NOTHING
    _publish_all(store, manifest)
    assert check_run(store, manifest).pages == 9


def test_the_ledger_of_a_complete_run_covers_documents_and_the_mark(
    store: LocalStore, manifest: ManifestReader
) -> None:
    _publish_all(store, manifest)
    tally = check_run(store, manifest)
    rows = list(document_rows(manifest, tally))
    close(store, rows, counted_facts(manifest, tally))
    assert check_run(store, manifest).pages == 9
    good = store.get(documents_key(0))
    other = [*rows[:-1], dataclasses.replace(rows[-1], pages_ok=3)]
    for wrong in (other, rows[1:], [*rows, rows[0]]):
        store.put(documents_key(0), table_to_parquet(rows_to_table(wrong, DocumentRow)))
        with pytest.raises(LedgerError, match="documents/part-00000"):
            check_run(store, manifest)
    store.delete(documents_key(0))
    with pytest.raises(LedgerError, match="never published"):
        check_run(store, manifest)
    store.put(documents_key(0), good)
    store.put("documents/more.parquet", good)
    with pytest.raises(LedgerError, match=r"more\.parquet is no part of this run"):
        check_run(store, manifest)
    store.delete("documents/more.parquet")
    store.put(SUCCESS_KEY, json.dumps({**counted_facts(manifest, tally), "pages": 8}).encode())
    with pytest.raises(LedgerError, match="says pages 8, counted were 9"):
        check_run(store, manifest)


def test_documents_of_an_older_run_are_not_adopted_on_closing(
    store: LocalStore, manifest: ManifestReader
) -> None:
    _publish_all(store, manifest)
    tally = check_run(store, manifest)
    rows = list(document_rows(manifest, tally))
    store.put(documents_key(0), table_to_parquet(rows_to_table(rows[:1], DocumentRow)))
    with pytest.raises(LedgerError, match="does not say of every document"):
        close(store, rows, counted_facts(manifest, tally))
    assert not store.exists(SUCCESS_KEY)


def _other_columns() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"number": [1, 2]}), sink)
    return sink.getvalue()


def _publish_all(store: LocalStore, manifest: ManifestReader) -> None:
    for shard in manifest.shards:
        stage(store, manifest, shard.shard_index)
    progress = find_progress(store)
    work = remaining_work(manifest.shards, progress.published_parts, progress.staged_shards)
    assert work.shards_to_read == ()
    publisher = Publisher(store, manifest, progress)
    for part in work.parts_to_publish:
        assert publisher.publish(part)
