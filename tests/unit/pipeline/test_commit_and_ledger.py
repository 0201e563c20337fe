"""Parts are published whole, once, and only with the pages that the manifest expects; the ledger adds up."""

import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.commit import CommitError, Publisher, close
from pipeline.ledger import LedgerError, check_run, document_rows
from pipeline.planner import ShardLimits, group_parts
from pipeline.resume import Progress, find_progress, remaining_work
from tests.unit.pipeline.factory import frozen_manifest, page_row, stage, surveyed
from workers.layout import SUCCESS_KEY, documents_key, part_key, staged_key
from workers.manifest_reader import ManifestReader
from workers.object_store import LocalStore
from workers.outcomes import Reason
from workers.schema import rows_to_table, table_to_parquet

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
    store.put(staged_key(part.shards[1].shard_index), b"half a fi")
    with pytest.raises(CommitError, match="damaged"):
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
    with pytest.raises(LedgerError, match="was never published"):
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


def _publish_all(store: LocalStore, manifest: ManifestReader) -> None:
    for shard in manifest.shards:
        stage(store, manifest, shard.shard_index)
    progress = find_progress(store)
    work = remaining_work(manifest.shards, progress.published_parts, progress.staged_shards)
    assert work.shards_to_read == ()
    publisher = Publisher(store, manifest, progress)
    for part in work.parts_to_publish:
        assert publisher.publish(part)
