"""Looks up the pages of a shard in the frozen manifest, row group by row group.

Neither the driver nor an actor ever holds all pages of an archive: the page manifest is read where it is
needed, and the last row groups are kept, since shards come roughly in order.
"""

import functools
import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from workers.layout import manifest_key
from workers.object_store import ObjectStore
from workers.schema import ManifestDocument, ManifestPage, ManifestShard, table_to_rows

PAGE_ROW_GROUP_ROWS = 2048
KEPT_ROW_GROUPS = 2


class ManifestReader:
    """Read access to the frozen manifest of a target."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._row_group = functools.lru_cache(maxsize=KEPT_ROW_GROUPS)(self._read_row_group)

    @functools.cached_property
    def shards(self) -> Sequence[ManifestShard]:
        """All shards in order."""
        return table_to_rows(self._table("shards"), ManifestShard)

    def documents(self) -> Sequence[ManifestDocument]:
        """All documents in order, quarantined ones included."""
        return table_to_rows(self._table("documents"), ManifestDocument)

    @property
    def page_count(self) -> int:
        """Number of expected pages, from the footer alone."""
        return int(self._footer.num_rows)

    def pages(self, first_row: int, count: int) -> list[ManifestPage]:
        """The expected pages in these rows of the page manifest."""
        found: list[ManifestPage] = []
        group_start = 0
        for group in range(self._footer.num_row_groups):
            group_rows = self._footer.row_group(group).num_rows
            begin = max(first_row - group_start, 0)
            end = min(first_row + count - group_start, group_rows)
            if begin < end:
                found += table_to_rows(self._row_group(group).slice(begin, end - begin), ManifestPage)
            group_start += group_rows
        if len(found) != count:
            raise IndexError(f"the manifest has no {count} pages from row {first_row}")
        return found

    def shard_pages(self, shard_index: int) -> list[ManifestPage]:
        """The expected pages of one shard."""
        shard = self.shards[shard_index]
        return self.pages(shard.first_row, shard.page_count)

    @functools.cached_property
    def _footer(self) -> pq.FileMetaData:
        with self._store.open(manifest_key("pages")) as reader:
            return pq.ParquetFile(reader).metadata

    def _read_row_group(self, group: int) -> pa.Table:
        with self._store.open(manifest_key("pages")) as reader:
            return pq.ParquetFile(reader, metadata=self._footer).read_row_group(group)

    def _table(self, name: str) -> pa.Table:
        return pq.read_table(io.BytesIO(self._store.get(manifest_key(name))))
