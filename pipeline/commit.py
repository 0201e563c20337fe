"""Publishes: a part once all its shards are staged, and the closing marks of a complete run.

A part is a fixed set of pages under a fixed name, built in memory and put once, only if absent. Whoever
comes second, or wakes up late, finds the name taken and changes nothing.
"""

import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.planner import Part, group_parts
from pipeline.resume import Progress
from workers.layout import SUCCESS_KEY, WORK_FOLDER, documents_key, part_key, staged_key
from workers.manifest_reader import ManifestReader
from workers.object_store import ObjectStore, StorageMissing
from workers.schema import DocumentRow, rows_to_table, table_to_parquet

DOCUMENTS_PER_PART = 100_000
PAGE_ROW_GROUP_ROWS = 1024


class CommitError(Exception):
    """What is staged is not what the manifest expects; nothing was published."""


class Publisher:
    """Keeps count of staged shards and publishes each part as soon as it is complete."""

    def __init__(self, store: ObjectStore, manifest: ManifestReader, progress: Progress) -> None:
        self._store = store
        self._manifest = manifest
        self._parts = {part.part_index: part for part in group_parts(manifest.shards)}
        self._missing = {
            index: {shard.shard_index for shard in part.shards} - progress.staged_shards
            for index, part in self._parts.items()
            if index not in progress.published_parts
        }

    def shard_staged(self, shard_index: int) -> int | None:
        """Note one more staged shard; returns the number of the part this completed and published, if any."""
        part_index = self._manifest.shards[shard_index].part_index
        missing = self._missing.get(part_index)
        if missing is None:
            return None
        missing.discard(shard_index)
        if missing:
            return None
        self.publish(self._parts[part_index])
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
        self._missing.pop(part.part_index, None)
        for shard in part.shards:
            self._store.delete(staged_key(shard.shard_index))
        return published

    def _expected_ids(self, part: Part) -> list[str]:
        return [page.page_id for page in self._manifest.pages(part.first_row, part.page_count)]


def build_part(store: ObjectStore, part: Part, expected_ids: Sequence[str]) -> bytes:
    """The part as a Parquet file in memory, in the order of the manifest; raises `CommitError`."""
    tables = [
        read_staged(store.get(staged_key(shard.shard_index)), staged_key(shard.shard_index))
        for shard in part.shards
    ]
    table = pa.concat_tables(tables)
    if table.column("page_id").to_pylist() != list(expected_ids):
        raise CommitError(
            f"The staged shards of part {part.part_index} do not hold the pages that the manifest expects; "
            f"delete {store.uri(staged_key(part.shards[0].shard_index))} and its siblings and run again."
        )
    return table_to_parquet(table, PAGE_ROW_GROUP_ROWS)


def read_staged(data: bytes, key: str) -> pa.Table:
    """Rows of one staged shard; raises `CommitError` if the object is not whole."""
    try:
        return pq.read_table(io.BytesIO(data))
    except pa.ArrowInvalid as error:
        raise CommitError(
            f"The staged object {key} is damaged ({error}); delete it and run again."
        ) from error


def close(store: ObjectStore, documents: Iterable[DocumentRow], facts: dict[str, Any]) -> None:
    """Write the document table and `_SUCCESS`, then remove the work folder. Safe to repeat."""
    rows = list(documents)
    for number, first in enumerate(range(0, max(len(rows), 1), DOCUMENTS_PER_PART)):
        chunk = rows_to_table(rows[first : first + DOCUMENTS_PER_PART], DocumentRow)
        store.put_if_absent(documents_key(number), table_to_parquet(chunk))
    store.put_if_absent(SUCCESS_KEY, json.dumps(facts, indent=2, sort_keys=True).encode())
    store.delete_below(WORK_FOLDER)
