"""Sources given as a list of locations: a text file, a CSV table or a Parquet table.

A single file counts as a list if it is called like one and holds no document. What an entry says is taken
as it is written: nothing is decoded, trimmed or expanded, since keys may hold blanks, `%` and `#`.
"""

import csv
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.config import ConfigError
from workers.object_store import ObjectStore, StorageDamaged, StoredObject, is_s3, split_uri
from workers.outcomes import Reason
from workers.sniff import sniff

TEXT_ENDINGS = (".txt", ".lst", ".list")
TABLE_ENDINGS = (".csv", ".tsv")
PARQUET_ENDINGS = (".parquet",)
HEAD_BYTES = 1024
BATCH_ROWS = 10_000
URI, BUCKET, KEY, VERSION = "uri", "bucket", "key", "version_id"
SIZE_NAMES = ("bytes", "size")
ETAG_NAMES = ("etag", "e_tag")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
MOST_FIELD_CHARACTERS = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a list: a location, or a key with or without its bucket; size and version mark if given."""

    place: int
    uri: str | None = None
    bucket: str | None = None
    key: str | None = None
    bytes: int | None = None
    etag: str | None = None


def is_list(store: ObjectStore, stored: StoredObject) -> bool:
    """Whether a single object names documents instead of being one."""
    if not stored.key.lower().endswith((*TEXT_ENDINGS, *TABLE_ENDINGS, *PARQUET_ENDINGS)) or not stored.bytes:
        return False
    with store.open(stored.key) as reader:
        return sniff(reader.read(HEAD_BYTES)) is Reason.NOT_A_DOCUMENT


def listed_objects(store: ObjectStore, stored: StoredObject) -> Iterator[StoredObject]:
    """The objects that a list names, in its order. Size and version are empty where the list does not say them.

    Relative paths start at the folder of the list, keys without a bucket at the list's own bucket. Raises
    `ConfigError` for an entry that names nothing, `StorageDamaged` for a list that cannot be read.
    """
    lower = stored.key.lower()
    if lower.endswith(PARQUET_ENDINGS):
        entries = _parquet_entries(store, stored)
    elif lower.endswith(TABLE_ENDINGS):
        entries = _table_entries(store, stored, "\t" if lower.endswith(".tsv") else ",")
    else:
        entries = _text_entries(store, stored)
    for entry in entries:
        uri = _location(entry, stored.uri)
        yield StoredObject(uri, split_uri(uri)[1], entry.bytes or 0, entry.etag or "")


def _text_entries(store: ObjectStore, stored: StoredObject) -> Iterator[Entry]:
    """A location a line; empty lines do not count, and there are no remarks: `#` may begin a name."""
    for place, line in enumerate(_lines(store, stored), 1):
        text = line.rstrip("\r\n")
        if text:
            yield Entry(place, uri=text)


def _table_entries(store: ObjectStore, stored: StoredObject, delimiter: str) -> Iterator[Entry]:
    csv.field_size_limit(MOST_FIELD_CHARACTERS)
    rows = csv.reader(_lines(store, stored), delimiter=delimiter, strict=True)
    try:
        header = [name.strip().lower() for name in next(rows, [])]
        _check_columns(header, stored)
        for row in rows:
            if row:
                if len(row) != len(header):
                    raise ConfigError(
                        f"{stored.uri}: line {rows.line_num} has {len(row)} fields, not {len(header)}."
                    )
                yield _entry(rows.line_num, dict(zip(header, row, strict=True)), stored)
    except csv.Error as error:
        raise ConfigError(f"{stored.uri}: line {rows.line_num} is no valid CSV ({error}).") from error


def _parquet_entries(store: ObjectStore, stored: StoredObject) -> Iterator[Entry]:
    try:
        with store.open(stored.key) as reader:
            file = pq.ParquetFile(reader)
            names = {name.lower(): name for name in file.schema_arrow.names}
            _check_columns(list(names), stored)
            wanted = [
                names[name] for name in (URI, BUCKET, KEY, VERSION, *SIZE_NAMES, *ETAG_NAMES) if name in names
            ]
            place = 0
            for batch in file.iter_batches(BATCH_ROWS, columns=wanted):
                for row in batch.to_pylist():
                    place += 1
                    yield _entry(place, {name.lower(): value for name, value in row.items()}, stored)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise StorageDamaged(f"{stored.uri} is no readable Parquet file ({error}).") from error


def _check_columns(names: list[str], stored: StoredObject) -> None:
    if URI not in names and KEY not in names:
        raise ConfigError(
            f"{stored.uri} has no column {URI!r} and no columns {BUCKET!r} and {KEY!r}, so it names no documents."
        )


def _entry(place: int, row: dict[str, object], stored: StoredObject) -> Entry:
    """One row of a table; other columns do not matter."""
    if row.get(VERSION) not in (None, "", "null"):
        raise ConfigError(
            f"{stored.uri}: entry {place} asks for a version of an object; only the present ones are read."
        )
    size = next((row[name] for name in SIZE_NAMES if row.get(name) not in (None, "")), None)
    try:
        size_bytes = None if size is None else int(str(size))
    except ValueError as error:
        raise ConfigError(f"{stored.uri}: entry {place} has the size {size!r}.") from error
    etag = next((str(row[name]) for name in ETAG_NAMES if row.get(name) not in (None, "")), None)
    return Entry(
        place,
        uri=_text(row.get(URI)),
        bucket=_text(row.get(BUCKET)),
        key=_text(row.get(KEY)),
        bytes=size_bytes,
        etag=None if etag is None else etag.strip('"'),
    )


def _text(value: object) -> str | None:
    return None if value in (None, "") else str(value)


def _location(entry: Entry, list_uri: str) -> str:
    """The full location that an entry means."""
    name = entry.uri if entry.uri is not None else entry.key
    if name is None or "\0" in name:
        raise ConfigError(f"{list_uri}: entry {entry.place} names no document.")
    if entry.uri is None and entry.bucket is not None:
        return f"s3://{entry.bucket}/{name}"
    if is_s3(name):
        bucket, _, key = name.removeprefix("s3://").partition("/")
        if not bucket or not key:
            raise ConfigError(f"{list_uri}: entry {entry.place} ({name}) is no object of a bucket.")
        return name
    if entry.uri is not None and _SCHEME.match(name):
        raise ConfigError(f"{list_uri}: entry {entry.place} ({name}) is no location that can be read.")
    root, _ = split_uri(list_uri)
    if is_s3(list_uri):
        return f"{root}/{name}"
    return os.path.abspath(os.path.join(root, name))


def _lines(store: ObjectStore, stored: StoredObject) -> Iterator[str]:
    """Lines with their ends, split at line feeds alone; a mark of byte order at the start is dropped."""
    with store.open(stored.key) as reader, io.TextIOWrapper(reader, "utf-8-sig", newline="\n") as text:
        try:
            yield from text
        except UnicodeDecodeError as error:
            raise StorageDamaged(f"{stored.uri} is not UTF-8 text ({error}).") from error
