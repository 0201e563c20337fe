"""Looks up pages, shards and documents in the frozen manifest, row group by row group.

Neither the driver nor an actor ever holds all pages of an archive: the page manifest is read where it is
needed, and the last row groups are kept, since shards come roughly in order. What is damaged is one sentence.
"""

import contextlib
import functools
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import pyarrow as pa
import pyarrow.parquet as pq

from workers.layout import SURVEY_KEY, manifest_key
from workers.object_store import ObjectStore, StorageDamaged
from workers.schema import ManifestDocument, ManifestPage, ManifestShard, table_to_rows

ROW_GROUP_ROWS = 2048
KEPT_ROW_GROUPS = 2
KEPT_FOOTERS = 4
SURVEY_FACTS = ("survey_id", "documents", "pages", "shards", "piece_rows", "pieces")


class ManifestReader:
    """Read access to the frozen manifest of a target. Every method raises `StorageDamaged` for what is not whole."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._row_group = functools.lru_cache(maxsize=KEPT_ROW_GROUPS)(self._read_row_group)
        self._footer = functools.lru_cache(maxsize=KEPT_FOOTERS)(self._read_footer)

    @functools.cached_property
    def shards(self) -> Sequence[ManifestShard]:
        """All shards in order; rows are made when they are asked for."""
        key = manifest_key("shards")
        with self._whole(key):
            table = pq.ParquetFile(io.BytesIO(self._store.get(key))).read()
            self._check_rows(key, table.num_rows, int(self._facts["shards"]))
            return _ShardRows.of(table)

    def documents(self) -> Iterator[ManifestDocument]:
        """All documents in order, quarantined ones included."""
        for piece in range(int(self._facts["pieces"]["documents"])):
            key = manifest_key("documents", piece)
            footer = self._footer("documents", piece)
            for group in range(footer.num_row_groups):
                with self._whole(key), self._store.open(key) as reader:
                    table = pq.ParquetFile(reader, metadata=footer).read_row_group(group)
                    rows = table_to_rows(table, ManifestDocument)
                yield from rows

    @property
    def page_count(self) -> int:
        """Number of expected pages."""
        return int(self._facts["pages"])

    @property
    def document_count(self) -> int:
        """Number of documents, quarantined ones included."""
        return int(self._facts["documents"])

    def pages(self, first_row: int, count: int) -> list[ManifestPage]:
        """The expected pages in these rows of the page manifest."""
        if first_row < 0 or first_row + count > self.page_count:
            raise StorageDamaged(
                f"{self._store.uri(manifest_key('pages'))} and its siblings are damaged "
                f"(there are no {count} pages from row {first_row})."
            )
        found: list[ManifestPage] = []
        while len(found) < count:
            piece, begin = divmod(first_row + len(found), int(self._facts["piece_rows"]["pages"]))
            group, begin = divmod(begin, ROW_GROUP_ROWS)
            key = manifest_key("pages", piece)
            with self._whole(key):
                rows = self._row_group(piece, group).slice(begin, count - len(found))
                if not rows.num_rows:
                    raise ValueError("it has too few rows")
                found += table_to_rows(rows, ManifestPage)
        return found

    def shard_pages(self, shard_index: int) -> list[ManifestPage]:
        """The expected pages of one shard."""
        shard = self.shards[shard_index]
        return self.pages(shard.first_row, shard.page_count)

    @functools.cached_property
    def _facts(self) -> dict[str, Any]:
        with self._whole(SURVEY_KEY):
            facts: dict[str, Any] = json.loads(self._store.get(SURVEY_KEY))
            if not isinstance(facts, dict) or not set(SURVEY_FACTS) <= facts.keys():
                raise ValueError(f"it does not say {', '.join(SURVEY_FACTS)}")
            return facts

    def _read_footer(self, table: str, piece: int) -> pq.FileMetaData:
        key = manifest_key(table, piece)
        with self._whole(key), self._store.open(key) as reader:
            footer = pq.ParquetFile(reader).metadata
            rows = int(self._facts["piece_rows"][table])
            total = int(self._facts[table])
            self._check_rows(key, footer.num_rows, min(rows, total - piece * rows))
            return footer

    def _read_row_group(self, piece: int, group: int) -> pa.Table:
        with self._store.open(manifest_key("pages", piece)) as reader:
            return pq.ParquetFile(reader, metadata=self._footer("pages", piece)).read_row_group(group)

    def _check_rows(self, key: str, found: int, expected: int) -> None:
        if found != expected:
            raise ValueError(f"it has {found} rows, not {expected}")

    @contextlib.contextmanager
    def _whole(self, key: str) -> Iterator[None]:
        """Whatever a library says of an object that is not whole becomes one sentence with its name.

        Errors of storage are sentences already; TypeError is how a row says that it lacks a column.
        """
        try:
            yield
        except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
            short = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            raise StorageDamaged(
                f"{self._store.uri(key)} is damaged ({short}); restore it, or run into another target."
            ) from error


class _ShardRows(Sequence[ManifestShard]):
    """Shards as rows made on demand: an archive of millions of pages has a hundred thousand of them. A slice is a
    view of the same columns.
    """

    def __init__(self, columns: Mapping[str, Any], places: range) -> None:
        self._columns = columns
        self._places = places

    @classmethod
    def of(cls, table: pa.Table) -> "_ShardRows":
        names = [name for name in ManifestShard.__slots__ if name in table.column_names]
        rows = cls({name: table.column(name).to_numpy() for name in names}, range(table.num_rows))
        if rows:
            rows[0]  # a table that lacks a column says so now
        return rows

    def __len__(self) -> int:
        return len(self._places)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    @overload
    def __getitem__(self, index: int) -> ManifestShard: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[ManifestShard]: ...

    def __getitem__(self, index: int | slice) -> ManifestShard | Sequence[ManifestShard]:
        if isinstance(index, slice):
            return _ShardRows(self._columns, self._places[index])
        place = self._places[index]  # raises the IndexError that ends an iteration
        return ManifestShard(**{name: int(column[place]) for name, column in self._columns.items()})
