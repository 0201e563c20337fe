"""The manifest holds every document and page once, in order, in pieces; what is damaged is one sentence."""

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import manifest
from pipeline.manifest import freeze, is_frozen, limited, marked
from pipeline.planner import ShardLimits
from tests.unit.pipeline.factory import frozen_manifest, surveyed
from workers import manifest_reader
from workers.layout import SURVEY_KEY, manifest_key
from workers.manifest_reader import ManifestReader
from workers.object_store import LocalStore, StorageDamaged
from workers.outcomes import Reason
from workers.schema import ManifestDocument, table_to_rows
from workers.surveyed import SurveyedBatch

page_counts = st.lists(st.integers(0, 9), max_size=30)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path / "target"))


def _documents(counts: Sequence[int]) -> list[SurveyedBatch]:
    reasons = [None if count else Reason.CORRUPT for count in counts]
    return [
        surveyed(f"{place:03d}", count, reason)
        for place, (count, reason) in enumerate(zip(counts, reasons, strict=True))
    ]


def _joined(documents: Sequence[SurveyedBatch], size: int) -> Iterator[SurveyedBatch]:
    """Batches of several documents."""
    for begin in range(0, len(documents), size):
        members = documents[begin : begin + size]
        yield SurveyedBatch(
            pa.concat_tables([member.documents for member in members]),
            pa.concat_tables([member.pages for member in members]),
        )


@settings(max_examples=25)
@given(page_counts, st.integers(1, 7))
def test_what_goes_in_comes_out_in_order_whatever_the_pieces(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], size: int
) -> None:
    store = LocalStore(str(tmp_path_factory.mktemp("target")))
    documents = _documents(counts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest, "ROW_GROUP_ROWS", 4)
        patch.setattr(manifest_reader, "ROW_GROUP_ROWS", 4)
        patch.setattr(manifest, "PIECE_ROWS", {"documents": 8, "pages": 12})
        freeze(store, _joined(documents, size), 1, ShardLimits(pages=5, part_pages=9))
        assert is_frozen(store)
        reader = ManifestReader(store)
        total = sum(counts)
        assert (reader.document_count, reader.page_count) == (len(counts), total)
        names = [document.source_uri for document in reader.documents()]
        assert names == [f"{place:03d}" for place in range(len(counts))]
        expected = [(f"{place:03d}", page) for place, count in enumerate(counts) for page in range(count)]
        found = [(page.source_uri, page.page_index) for page in reader.pages(0, total)]
        assert found == expected
        rows = [page for index in range(len(reader.shards)) for page in reader.shard_pages(index)]
        assert [(page.source_uri, page.page_index) for page in rows] == expected
        assert reader.shards[-1:] == list(reader.shards)[-1:]
        with pytest.raises(StorageDamaged, match=f"no 1 pages from row {total}"):
            reader.pages(total, 1)


@given(page_counts, st.integers(1, 7), st.integers(1, 60))
def test_a_limit_keeps_the_first_pages_and_says_where_a_document_is_cut(
    counts: list[int], size: int, limit: int
) -> None:
    kept: list[tuple[str, int]] = []
    for place, count in enumerate(counts):
        room = limit - sum(pages for _, pages in kept)
        if room <= 0:
            break
        kept.append((f"{place:03d}", min(count, room)))
    pages: list[str] = []
    documents: list[ManifestDocument] = []
    for batch in limited(_joined(_documents(counts), size), limit):
        documents += table_to_rows(batch.documents, ManifestDocument)
        pages += batch.pages.column("source_uri").to_pylist()
    assert [document.source_uri for document in documents] == [name for name, _ in kept]
    assert pages == [name for name, count in kept for _ in range(count)]
    for document, (_, count) in zip(documents, kept, strict=True):
        cut = f"limit: only the first {count} of {document.page_count} pages belong to this run"
        assert document.warnings == ((cut,) if count < document.page_count else ())


@given(st.lists(st.integers(0, 4), max_size=20), st.integers(1, 5))
def test_the_first_with_the_same_bytes_is_noted_on_documents_and_pages(
    contents: list[int], size: int
) -> None:
    documents = []
    for place, content in enumerate(contents):
        batch = surveyed(f"{place:03d}", 2)
        columns = {"content_hash": f"{content:064x}", "bytes": content}  # content 0 is an empty file
        for name, value in columns.items():
            index = batch.documents.schema.get_field_index(name)
            field = batch.documents.schema.field(index)
            table = batch.documents.set_column(index, field, pa.array([value], field.type))
            batch = SurveyedBatch(table, batch.pages)
        documents.append(batch)
    names = {content: f"{contents.index(content):03d}" for content in contents}
    found = list(marked(_joined(documents, size)))
    uris = {row["document_id"]: row["source_uri"] for batch in found for row in batch.documents.to_pylist()}
    for batch in found:
        for row in (*batch.documents.to_pylist(), *batch.pages.to_pylist()):
            content = contents[int(row["source_uri"])]
            first = names[content] if content else row["source_uri"]
            noted = uris.get(row["duplicate_of"], row["source_uri"])
            assert noted == first


def test_skipped_duplicates_weigh_nothing_in_the_shards(store: LocalStore) -> None:
    copies = [_same_bytes(surveyed(name, 8)) for name in ("a", "b", "c")]
    freeze(store, copies, 1, ShardLimits(pages=24, pixel_bytes=8_000_000), skip_duplicates=True)
    assert sum(shard.estimated_pixels for shard in ManifestReader(store).shards) == 8_000_000


def _same_bytes(batch: SurveyedBatch) -> SurveyedBatch:
    index = batch.documents.schema.get_field_index("content_hash")
    field = batch.documents.schema.field(index)
    return SurveyedBatch(batch.documents.set_column(index, field, pa.array(["ab" * 32])), batch.pages)


def test_the_first_survey_counts_and_an_interrupted_freeze_is_mended(store: LocalStore) -> None:
    freeze(store, [surveyed("first", 3)], 1, ShardLimits())
    before = {stored.key: store.get(stored.key) for stored in store.list("_manifest/")}
    freeze(store, [surveyed("second", 5)], 1, ShardLimits())
    assert {stored.key: store.get(stored.key) for stored in store.list("_manifest/")} == before
    for key in (manifest_key("pages"), manifest_key("shards")):
        store.delete(key)
    assert is_frozen(store)
    assert {stored.key: store.get(stored.key) for stored in store.list("_manifest/")} == before


def _read_all(store: LocalStore) -> None:
    reader = ManifestReader(store)
    assert is_frozen(store)
    list(reader.documents())
    for index in range(len(reader.shards)):
        reader.shard_pages(index)


def _fewer_rows(data: bytes) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(data)).slice(1), sink)
    return sink.getvalue()


def _other_columns(data: bytes) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"number": [1] * pq.read_metadata(io.BytesIO(data)).num_rows}), sink)
    return sink.getvalue()


@pytest.mark.parametrize("table", ["documents", "pages", "shards"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-9],
        lambda data: data[: len(data) // 2],
        _fewer_rows,
        _other_columns,
    ],
)
def test_a_damaged_table_is_one_sentence_with_its_name(store: LocalStore, table: str, damage: object) -> None:
    frozen_manifest(store, _documents([3, 4]), ShardLimits(pages=2))
    _read_all(store)
    key = manifest_key(table)
    store.put(key, damage(store.get(key)))  # type: ignore[operator]
    with pytest.raises(StorageDamaged) as caught:
        _read_all(store)
    said = str(caught.value)
    assert said.startswith(f"{store.uri(key)} is damaged (")
    assert said.endswith(".")
    assert "\n" not in said


@pytest.mark.parametrize("content", [b"", b"[]", b'{"survey_id": "x"}', b"\xff\xfe"])
def test_a_damaged_survey_mark_is_one_sentence(store: LocalStore, content: bytes) -> None:
    frozen_manifest(store, _documents([3]), ShardLimits())
    store.put(SURVEY_KEY, content)
    for read in (_read_all, lambda store: ManifestReader(store).page_count):
        with pytest.raises(StorageDamaged, match=SURVEY_KEY):
            read(store)


def test_the_mark_of_the_survey_says_what_is_there(store: LocalStore) -> None:
    frozen_manifest(store, _documents([3, 0, 4]), ShardLimits(pages=2))
    facts = json.loads(store.get(SURVEY_KEY))
    assert (facts["documents"], facts["pages"], facts["shards"]) == (3, 7, 7)
