"""Reads tables and marks back from a target. What is not whole is one sentence that names the object, never
an error of the library that met it.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from workers.layout import number_in
from workers.object_store import ObjectStore, StorageDamaged


def read_table(
    store: ObjectStore,
    key: str,
    columns: Sequence[str] | None = None,
    where: Mapping[str, str] | None = None,
    schema: pa.Schema | None = None,
) -> pa.Table:
    """A Parquet object, or some of its columns and the rows that hold the values `where` says; raises `StorageDamaged`
    if it is not whole, or its columns are not those of the `schema`.
    """
    where = where or {}
    with whole(store, key), store.open(key) as reader:
        file = pq.ParquetFile(reader)
        wanted = list(file.schema_arrow.names if columns is None else columns)
        needed = list(dict.fromkeys([*wanted, *where]))
        check_columns(file, needed)
        groups = [file.schema_arrow.empty_table().select(wanted)]
        for number in range(file.num_row_groups):
            rows = checked_rows(file, number, needed, schema)
            for name, value in where.items():
                rows = rows.filter(pc.equal(rows[name], value))
            groups.append(rows.select(wanted))
        return pa.concat_tables(groups)


@contextlib.contextmanager
def whole(store: ObjectStore, key: str) -> Iterator[None]:
    """Whatever a library says of a table that is not whole becomes one sentence that names the object."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise StorageDamaged(f"{store.uri(key)} is damaged ({_short(error)}).") from error


def check_columns(file: pq.ParquetFile, columns: Sequence[str]) -> None:
    """ValueError where a file lacks columns."""
    lacking = sorted(set(columns) - set(file.schema_arrow.names))
    if lacking:
        raise ValueError(f"it lacks the columns {', '.join(lacking)}")


def checked_rows(
    file: pq.ParquetFile, row_group: int, columns: Sequence[str], schema: pa.Schema | None
) -> pa.Table:
    """Columns of a row group. ValueError (or an error of pyarrow's) for bytes that are no values of their type, and for
    another type, or nothing, where the `schema` does not allow it.
    """
    rows = file.read_row_group(row_group, columns=list(columns))
    rows.validate(full=True)
    if schema is None:
        return rows
    for name in columns:
        field, column = schema.field(name), rows.column(name)
        if column.type != field.type:
            raise ValueError(f"its column {name} holds {column.type}, not {field.type}")
        if column.null_count and not field.nullable:
            raise ValueError(f"its column {name} has gaps")
    return rows


def read_facts(store: ObjectStore, key: str, needed: Sequence[str] = ()) -> dict[str, Any]:
    """A JSON object such as `_run.json` with the `needed` names in it; raises `StorageMissing` or `StorageDamaged`."""
    try:
        facts = json.loads(store.get(key))
    except ValueError as error:
        raise StorageDamaged(f"{store.uri(key)} is damaged ({error}).") from error
    if not isinstance(facts, dict):
        raise StorageDamaged(f"{store.uri(key)} is damaged (it holds no JSON object).")
    lacking = [name for name in needed if name not in facts]
    if lacking:
        raise StorageDamaged(f"{store.uri(key)} is damaged (it lacks {', '.join(lacking)}).")
    return facts


def numbers_below(store: ObjectStore, folder: str, key_of: Callable[[int], str]) -> frozenset[int]:
    """Numbers of the parts or shards in a folder of the target; objects with any other name are not ours."""
    found = (number_in(stored.key, key_of) for stored in store.list(folder))
    return frozenset(number for number in found if number is not None)


def _short(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
