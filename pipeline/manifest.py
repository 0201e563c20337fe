"""The manifest: one row per document, per expected page and per shard, frozen before any page is read.

Documents and pages pass through batch by batch and are written in pieces, so that memory does not grow with
the archive. The tables of one survey are frozen together: the first driver to put `survey.json` decides.
"""

import io
import json
import uuid
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.planner import PageLoad, ShardLimits, plan_shards
from pipeline.spilled import FirstOfEach
from pipeline.stored import read_facts
from workers.layout import MANIFEST_FOLDER, SURVEY_KEY, manifest_key, survey_draft_key
from workers.manifest_reader import ROW_GROUP_ROWS, SURVEY_FACTS
from workers.object_store import ObjectStore
from workers.schema import (
    MANIFEST_DOCUMENT_SCHEMA,
    MANIFEST_PAGE_SCHEMA,
    MANIFEST_SHARD_SCHEMA,
    ManifestDocument,
    ManifestShard,
    rows_to_table,
    table_to_rows,
)
from workers.surveyed import SurveyedBatch

PIECE_ROWS = {"documents": 32 * ROW_GROUP_ROWS, "pages": 64 * ROW_GROUP_ROWS}
PIECED_SCHEMAS = {"documents": MANIFEST_DOCUMENT_SCHEMA, "pages": MANIFEST_PAGE_SCHEMA}
LOAD_COLUMNS = ["estimated_pixels", "estimated_image_tokens", "duplicate_of"]
SHARDS_AT_ONCE = 4096


def is_frozen(store: ObjectStore) -> bool:
    """Whether the survey of this target is decided and complete; mends a freeze that was interrupted."""
    if not store.exists(SURVEY_KEY):
        return False
    facts = read_facts(store, SURVEY_KEY, SURVEY_FACTS)
    wanted = [("shards", 0)]
    wanted += [(table, piece) for table, count in facts["pieces"].items() for piece in range(count)]
    there = {stored.key for stored in store.list(MANIFEST_FOLDER)}
    for table, piece in wanted:
        if manifest_key(table, piece) not in there:
            draft = store.get(survey_draft_key(facts["survey_id"], table, piece))
            store.put_if_absent(manifest_key(table, piece), draft)
    return True


def freeze(
    store: ObjectStore,
    batches: Iterable[SurveyedBatch],
    ocr_actors: int,
    limits: ShardLimits,
    *,
    skip_duplicates: bool = False,
) -> None:
    """Write documents and pages, plan the shards, and put `survey.json`; a survey that comes second is discarded."""
    survey_id = uuid.uuid4().hex
    documents = _PieceWriter(store, survey_id, "documents")
    pages = _PieceWriter(store, survey_id, "pages")
    for batch in marked(batches):
        documents.add(batch.documents)
        pages.add(batch.pages)
    documents.close()
    pages.close()
    loads = _loads(store, survey_id, pages.pieces, skip_duplicates=skip_duplicates)
    shards = _shard_table(plan_shards(loads, pages.rows, ocr_actors, limits))
    sink = io.BytesIO()
    pq.write_table(shards, sink, compression="zstd", store_schema=True)
    store.put(survey_draft_key(survey_id, "shards"), sink.getvalue())
    facts = {
        "survey_id": survey_id,
        "documents": documents.rows,
        "pages": pages.rows,
        "shards": shards.num_rows,
        "piece_rows": PIECE_ROWS,
        "pieces": {"documents": documents.pieces, "pages": pages.pieces},
    }
    store.put_if_absent(SURVEY_KEY, json.dumps(facts).encode())
    is_frozen(store)


def limited(batches: Iterable[SurveyedBatch], limit: int | None) -> Iterator[SurveyedBatch]:
    """Keep the first `limit` pages in order; a document cut short says so, later ones are left out."""
    if limit is None:
        yield from batches
        return
    room = limit
    for batch in batches:
        if batch.pages.num_rows < room:
            room -= batch.pages.num_rows
            yield batch
            continue
        yield _cut(batch, room)
        return


def _cut(batch: SurveyedBatch, room: int) -> SurveyedBatch:
    """The documents up to the one that holds the last page there is room for."""
    kept = 0
    for count in batch.page_counts():
        kept += 1
        if count >= room:
            break
        room -= count
    last = batch.documents.slice(kept - 1, 1)
    rows = table_to_rows(last, ManifestDocument)
    count = rows[0].page_count
    before = batch.page_counts()[: kept - 1]
    pages = batch.pages.slice(0, sum(before) + room)
    if count > room:
        note = f"limit: only the first {room} of {count} pages belong to this run"
        warnings = pa.array([[*rows[0].warnings, note]], MANIFEST_DOCUMENT_SCHEMA.field("warnings").type)
        place = MANIFEST_DOCUMENT_SCHEMA.get_field_index("warnings")
        last = last.set_column(place, MANIFEST_DOCUMENT_SCHEMA.field("warnings"), warnings)
    return SurveyedBatch(pa.concat_tables([batch.documents.slice(0, kept - 1), last]), pages)


def marked(batches: Iterable[SurveyedBatch]) -> Iterator[SurveyedBatch]:
    """Note for each document, and each of its pages, the first document before it with the same bytes.

    Empty files are not told to be copies of each other.
    """
    seen = FirstOfEach()
    for batch in batches:
        columns = batch.documents.select(["document_id", "content_hash", "bytes"]).to_pydict()
        first_of: dict[str, str] = {}
        for identifier, digest, size in zip(*columns.values(), strict=True):
            first = seen.first(digest, identifier) if digest and size else identifier
            if first != identifier:
                first_of[identifier] = first
        if not first_of:
            yield batch
            continue
        yield SurveyedBatch(_with_first(batch.documents, first_of), _with_first(batch.pages, first_of))


def _with_first(table: pa.Table, first_of: dict[str, str]) -> pa.Table:
    place = table.schema.get_field_index("duplicate_of")
    first = [first_of.get(identifier) for identifier in table.column("document_id").to_pylist()]
    return table.set_column(place, table.schema.field(place), pa.array(first, pa.string()))


def page_loads(pages: pa.Table, *, skip_duplicates: bool) -> Iterator[PageLoad]:
    """What each page is expected to cost; nothing for the ones that will not be read."""
    columns = [pages.column(name).to_pylist() for name in LOAD_COLUMNS]
    for pixels, tokens, first in zip(*columns, strict=True):
        yield PageLoad(0, 0) if skip_duplicates and first is not None else PageLoad(pixels, tokens)


def _loads(store: ObjectStore, survey_id: str, pieces: int, *, skip_duplicates: bool) -> Iterator[PageLoad]:
    """The loads of all pages, read back from what was just written: a few columns, a row group at a time."""
    for piece in range(pieces):
        with store.open(survey_draft_key(survey_id, "pages", piece)) as reader:
            file = pq.ParquetFile(reader)
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=LOAD_COLUMNS)
                yield from page_loads(table, skip_duplicates=skip_duplicates)


def _shard_table(shards: Iterable[ManifestShard]) -> pa.Table:
    tables = [MANIFEST_SHARD_SCHEMA.empty_table()]
    rows: list[ManifestShard] = []
    for shard in shards:
        rows.append(shard)
        if len(rows) == SHARDS_AT_ONCE:
            tables.append(rows_to_table(rows, ManifestShard))
            rows = []
    tables.append(rows_to_table(rows, ManifestShard))
    return pa.concat_tables(tables)


class _PieceWriter:
    """Writes one table of the manifest in pieces of equal length, in full row groups; holds one row group of rows
    and one piece of compressed bytes.
    """

    def __init__(self, store: ObjectStore, survey_id: str, table: str) -> None:
        self._store = store
        self._survey_id = survey_id
        self._table = table
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._piece_rows = 0
        self._open_piece()
        self.rows = 0
        self.pieces = 0

    def add(self, table: pa.Table) -> None:
        """Take some rows."""
        self.rows += table.num_rows
        while table.num_rows:
            taken = table.slice(0, ROW_GROUP_ROWS - self._waiting_rows)
            self._waiting.append(taken)
            self._waiting_rows += taken.num_rows
            table = table.slice(taken.num_rows)
            if self._waiting_rows == ROW_GROUP_ROWS:
                self._write_group()

    def close(self) -> None:
        """Write what is left. There is at least one piece, be it empty."""
        if self._waiting_rows:
            self._write_group()
        if self._piece_rows or not self.pieces:
            self._put_piece()
        self._writer.close()

    def _write_group(self) -> None:
        if self._piece_rows == PIECE_ROWS[self._table]:
            self._put_piece()
            self._open_piece()
        self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=ROW_GROUP_ROWS)
        self._piece_rows += self._waiting_rows
        self._waiting, self._waiting_rows = [], 0

    def _open_piece(self) -> None:
        self._sink = io.BytesIO()
        self._writer = pq.ParquetWriter(self._sink, PIECED_SCHEMAS[self._table], compression="zstd")
        self._piece_rows = 0

    def _put_piece(self) -> None:
        self._writer.close()
        key = survey_draft_key(self._survey_id, self._table, self.pieces)
        self._store.put(key, self._sink.getvalue())
        self.pieces += 1
