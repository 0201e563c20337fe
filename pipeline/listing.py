"""The listing of a source, frozen in the target before its documents are opened: which objects, in which order,
surveyed in which batches.

A survey that was stopped finds the same batches again and opens only those it has no findings of. Whoever
puts `listing.json` first decides, whatever another driver has listed meanwhile.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

from pipeline.stored import numbers_below, read_facts, read_table
from workers.layout import LISTING_KEY, listing_key, survey_batch_key
from workers.object_store import ObjectStore, StoredObject, split_uri
from workers.schema import table_to_parquet
from workers.survey import Batch

BATCH_DOCUMENTS = 32
BATCH_BYTES = 64_000_000
PIECE_OBJECTS = 50_000
LISTING_FACTS = ("listing_id", "objects", "batches", "pieces")
LISTING_SCHEMA = pa.schema(
    [
        pa.field("batch_index", pa.int32(), nullable=False),
        pa.field("uri", pa.binary(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("etag", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class FrozenListing:
    """A listing that counts: how many objects in how many batches, stored in how many pieces."""

    listing_id: str
    objects: int
    batches: int
    pieces: int


def batches(objects: Iterable[StoredObject]) -> Iterator[Batch]:
    """Cut a listing into batches, one per survey task: neither too many documents nor too many bytes."""
    batch: list[StoredObject] = []
    batch_index = total = 0
    for stored in objects:
        if batch and (len(batch) == BATCH_DOCUMENTS or total + stored.bytes > BATCH_BYTES):
            yield Batch(batch_index, tuple(batch))
            batch, total = [], 0
            batch_index += 1
        batch.append(stored)
        total += stored.bytes
    if batch:
        yield Batch(batch_index, tuple(batch))


def find_listing(store: ObjectStore) -> FrozenListing | None:
    """The listing that this target already has, if any."""
    if not store.exists(LISTING_KEY):
        return None
    facts = read_facts(store, LISTING_KEY, LISTING_FACTS)
    return FrozenListing(**{name: facts[name] for name in LISTING_FACTS})


def freeze_listing(store: ObjectStore, objects: Iterable[StoredObject]) -> FrozenListing:
    """Store a listing in pieces; returns the one that counts, which may be another driver's."""
    listing_id = uuid.uuid4().hex
    count = number = pieces = 0
    waiting: list[dict[str, object]] = []
    for batch in batches(objects):
        number += 1
        count += len(batch.objects)
        waiting += [_row(batch.batch_index, stored) for stored in batch.objects]
        if len(waiting) >= PIECE_OBJECTS:
            _put_piece(store, listing_id, pieces, waiting)
            waiting, pieces = [], pieces + 1
    if waiting:
        _put_piece(store, listing_id, pieces, waiting)
        pieces += 1
    facts = {"listing_id": listing_id, "objects": count, "batches": number, "pieces": pieces}
    store.put_if_absent(LISTING_KEY, json.dumps(facts).encode())
    decided = find_listing(store)
    assert decided is not None
    return decided


def listed_batches(store: ObjectStore, listing: FrozenListing) -> Iterator[Batch]:
    """The batches of a frozen listing in order, one piece in memory at a time."""
    for piece in range(listing.pieces):
        table = read_table(
            store, listing_key(listing.listing_id, piece), LISTING_SCHEMA.names, schema=LISTING_SCHEMA
        )
        for batch_index, rows in groupby(table.to_pylist(), key=itemgetter("batch_index")):
            yield Batch(batch_index, tuple(_stored(row) for row in rows))


def surveyed_batches(store: ObjectStore, listing: FrozenListing) -> frozenset[int]:
    """Numbers of the batches whose findings are stored."""
    key_of = partial(survey_batch_key, listing.listing_id)
    return numbers_below(store, key_of(0).rpartition("/")[0] + "/", key_of)


def _row(batch_index: int, stored: StoredObject) -> dict[str, object]:
    uri = stored.uri.encode("utf-8", "surrogateescape")
    return {"batch_index": batch_index, "uri": uri, "bytes": stored.bytes, "etag": stored.etag}


def _stored(row: Mapping[str, Any]) -> StoredObject:
    uri = row["uri"].decode("utf-8", "surrogateescape")
    return StoredObject(uri, split_uri(uri)[1], row["bytes"], row["etag"])


def _put_piece(store: ObjectStore, listing_id: str, piece: int, rows: list[dict[str, object]]) -> None:
    table = pa.Table.from_pylist(rows, schema=LISTING_SCHEMA)
    store.put(listing_key(listing_id, piece), table_to_parquet(table))
