"""Publishes: a part once all its shards are staged, and the closing marks of a complete run.

A part is a fixed set of pages under a fixed name, built in memory and put once, only if absent. Whoever
comes second, or wakes up late, finds the name taken and changes nothing.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from pipeline.ledger import check_documents, check_mark, document_tables
from pipeline.planner import Part, group_parts
from pipeline.resume import Progress
from pipeline.stored import read_table
from workers.layout import SUCCESS_KEY, WORK_FOLDER, part_key, staged_key
from workers.manifest_reader import ManifestReader
from workers.object_store import ObjectStore, StorageDamaged, StorageMissing
from workers.schema import PAGE_SCHEMA, DocumentRow, table_to_parquet

PAGE_ROW_GROUP_ROWS = 1024


class CommitError(Exception):
    """What is staged is not what the manifest expects; nothing was published."""


class Publisher:
    """Keeps count of staged shards and publishes each part as soon as it is complete."""

    def __init__(self, store: ObjectStore, manifest: ManifestReader, progress: Progress) -> None:
        self._store = store
        self._manifest = manifest
        self._staged = progress.staged_shards
        self._parts = {part.part_index: part for part in group_parts(manifest.shards)}
        self._published = set(progress.published_parts)
        self._missing: dict[int, set[int]] = {}  # of the parts that have been begun

    def shard_staged(self, shard_index: int) -> int | None:
        """Note one more staged shard; returns the number of the part this completed and published, if any."""
        part_index = self._manifest.shards[shard_index].part_index
        if part_index in self._published:
            return None
        part = self._parts[part_index]
        if part_index not in self._missing:
            self._missing[part_index] = {shard.shard_index for shard in part.shards} - self._staged
        self._missing[part_index].discard(shard_index)
        if self._missing[part_index]:
            return None
        self.publish(part)
        return part_index

    def publish(self, part: Part) -> bool:
        """Put the part unless it is there; False if it was. Its staged shards are then no longer needed."""
        key = part_key(part.part_index)
        try:
            data = build_part(self._store, part, self._expected_ids(part))
        except StorageMissing:
            if not self._store.exists(key):
                raise
            published = False  # another driver published it and cleared the staged shards away
        else:
            published = self._store.put_if_absent(key, data)
        self._published.add(part.part_index)
        self._missing.pop(part.part_index, None)
        for shard in part.shards:
            self._store.delete(staged_key(shard.shard_index))
        return published

    def _expected_ids(self, part: Part) -> list[str]:
        return [page.page_id for page in self._manifest.pages(part.first_row, part.page_count)]


def build_part(store: ObjectStore, part: Part, expected_ids: Sequence[str]) -> bytes:
    """The part as a Parquet file in memory, in the order of the manifest; raises `CommitError`."""
    table = pa.concat_tables([read_staged(store, shard.shard_index) for shard in part.shards])
    if table.column("page_id").to_pylist() != list(expected_ids):
        raise CommitError(
            f"The staged shards of part {part.part_index} do not hold the pages that the manifest expects; "
            f"delete {store.uri(staged_key(part.shards[0].shard_index))} and its siblings and run again."
        )
    return table_to_parquet(table, PAGE_ROW_GROUP_ROWS)


def read_staged(store: ObjectStore, shard_index: int) -> pa.Table:
    """Rows of one staged shard; raises `CommitError` if the object is not whole or has other columns."""
    key = staged_key(shard_index)
    try:
        table = read_table(store, key)
    except StorageDamaged as error:
        raise CommitError(f"The staged object {str(error).rstrip('.')}; delete it and run again.") from error
    if not table.schema.equals(PAGE_SCHEMA):
        raise CommitError(
            f"The staged object {store.uri(key)} was written by another version of the program; "
            "delete it and run again."
        )
    return table


def close(store: ObjectStore, documents: Iterable[DocumentRow], facts: dict[str, Any]) -> None:
    """Write the document table and `_SUCCESS`, then remove the work folder. Safe to repeat.

    What was there before is never taken for ours unseen: a document table that says something else raises
    `LedgerError`, before the mark or, if the mark itself is older, before the work is removed.
    """
    check_documents(store, _published(store, document_tables(documents)))
    store.put_if_absent(SUCCESS_KEY, json.dumps(facts, indent=2, sort_keys=True).encode())
    check_mark(store, facts)
    store.delete_below(WORK_FOLDER)


def _published(store: ObjectStore, tables: Iterable[tuple[str, pa.Table]]) -> Iterator[tuple[str, pa.Table]]:
    """Put each table unless it is there, then hand it on to be compared; one is in memory at a time."""
    for key, table in tables:
        store.put_if_absent(key, table_to_parquet(table))
        yield key, table
