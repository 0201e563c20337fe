"""Everything that a run has written, in a form that can be searched for what must not be in it."""

import io
from collections.abc import Iterator

import pyarrow.parquet as pq

from workers.object_store import ObjectStore

PARQUET_MARK = b"PAR1"


def everything_written(store: ObjectStore) -> Iterator[tuple[str, str]]:
    """Key and content of each object of a target; tables as their rows, schema and metadata, since their bytes
    are compressed.
    """
    for stored in store.list():
        data = store.get(stored.key)
        if data[:4] == PARQUET_MARK:
            table = pq.read_table(io.BytesIO(data))
            yield stored.key, f"{table.schema.to_string()}{table.schema.metadata}{table.to_pylist()}"
        else:
            yield stored.key, data.decode("utf-8", "replace")
