"""Published tables that are not ours any more: whoever reads them says in a sentence which one, and never sums them up."""

import io
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.ledger import LedgerError, check_run
from pipeline.report import build_report
from pipeline.summary import summarise
from tests.unit.pipeline.hostile_target import hostile_target
from workers.layout import documents_key, part_key
from workers.manifest_reader import ManifestReader
from workers.object_store import LocalStore, StorageDamaged


def _rewritten(change: Callable[[pa.Table], pa.Table]) -> Callable[[bytes], bytes]:
    def damage(data: bytes) -> bytes:
        sink = io.BytesIO()
        pq.write_table(change(pq.ParquetFile(io.BytesIO(data)).read()), sink)
        return sink.getvalue()

    return damage


def _column(name: str, make: Callable[[int], pa.Array]) -> Callable[[bytes], bytes]:
    def change(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index(name)
        return table.set_column(place, name, make(table.num_rows))

    return _rewritten(change)


def _no_text(rows: int) -> pa.Array:
    broken = pa.array([b"\xff\xfe"] * rows, pa.binary())
    return pa.Array.from_buffers(pa.string(), rows, broken.buffers())


DAMAGE = {
    "a column name that is no UTF-8": lambda data: data.replace(b"source_uri", b"\xffource_uri"),
    "two columns of a name": _rewritten(lambda table: table.append_column("outcome", table["outcome"])),
    "outcomes that are numbers": _column("outcome", lambda rows: pa.array(range(rows))),
    "no outcomes": _column("outcome", lambda rows: pa.nulls(rows, pa.string())),
    "reasons that are no UTF-8": _column("reason", _no_text),
}
READERS: dict[str, Callable[[LocalStore], object]] = {
    "report": build_report,
    "verify": lambda store: check_run(store, ManifestReader(store)),
    "summary": summarise,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("key", [part_key(0), documents_key(0)])
@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_table_is_named(
    tmp_path: Path, reader: str, key: str, damage: Callable[[bytes], bytes]
) -> None:
    store = hostile_target(tmp_path)
    store.put(key, damage(store.get(key)))
    if reader != "report" and key == documents_key(0):
        _make_known(store)
    with pytest.raises((StorageDamaged, LedgerError), match=key):
        READERS[reader](store)


def _make_known(store: LocalStore) -> None:
    """The attacks stand in columns whose values the ledger knows; without them it comes as far as the documents."""
    table = pq.ParquetFile(io.BytesIO(store.get(part_key(0)))).read()
    place = table.schema.get_field_index("reason")
    known = ["model_error" if value else None for value in table["reason"].to_pylist()]
    sink = io.BytesIO()
    pq.write_table(table.set_column(place, table.schema.field(place), [pa.array(known, pa.string())]), sink)
    store.put(part_key(0), sink.getvalue())


def test_a_text_that_is_no_utf8_is_no_page_of_a_report(tmp_path: Path) -> None:
    store = hostile_target(tmp_path)
    store.put(part_key(0), _column("text", _no_text)(store.get(part_key(0))))
    with pytest.raises(StorageDamaged, match=r"pages/part-00000\.parquet is damaged"):
        build_report(store)
