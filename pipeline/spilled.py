"""Collections that may outgrow memory: objects in sorted order, the first of each content, counts by document.

The first two are tables of a private SQLite database that lives in its cache and, beyond that, in a nameless file
on disk, the counts a nameless file alone: millions of documents cost the driver a few megabytes.
"""

import sqlite3
import struct
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import IO

from workers.ids import IDENTIFIER_DIGITS
from workers.object_store import StoredObject
from workers.outcomes import Outcome

COUNTS = struct.Struct(f"<16s{len(Outcome)}I")  # the 128 bits of a document's id, its pages by outcome
COUNTS_AT_ONCE = 4096


class SortedObjects:
    """Objects in the order of their locations, each location once. May be iterated as often as one likes.

    Sorted as UTF-8 bytes, which is the order of code points: the order of Python's strings and of S3's keys.
    """

    def __init__(self) -> None:
        self._database = _private_database(self)
        self._database.execute(
            "CREATE TABLE objects (uri BLOB PRIMARY KEY, name TEXT, bytes INTEGER, etag TEXT) WITHOUT ROWID"
        )
        self._count = 0
        self.repeated = 0

    def add(self, stored: StoredObject) -> None:
        """Take one object; a location that is there already is counted as repeated and left as it is."""
        cursor = self._database.execute(
            "INSERT OR IGNORE INTO objects VALUES (?, ?, ?, ?)",
            (_packed(stored.uri), _packed(stored.key), stored.bytes, stored.etag),
        )
        self._count += cursor.rowcount
        self.repeated += 1 - cursor.rowcount

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[StoredObject]:
        for uri, key, size, etag in self._database.execute("SELECT * FROM objects ORDER BY uri"):
            yield StoredObject(_unpacked(uri), _unpacked(key), size, etag)


class FirstOfEach:
    """Remembers for each content the first document that had it."""

    def __init__(self) -> None:
        self._database = _private_database(self)
        self._database.execute("CREATE TABLE first (content BLOB PRIMARY KEY, document BLOB) WITHOUT ROWID")

    def first(self, content_hash: str, document_id: str) -> str:
        """The document first seen with this content: an earlier one, or this one. Both are hex digits."""
        content = bytes.fromhex(content_hash)
        found = self._database.execute("SELECT document FROM first WHERE content = ?", (content,)).fetchone()
        if found is not None:
            return bytes(found[0]).hex()
        self._database.execute("INSERT INTO first VALUES (?, ?)", (content, bytes.fromhex(document_id)))
        return document_id


class CountsByDocument:
    """Pages of each document by outcome, in the order in which the documents came; each comes in one piece.

    Of the document that came last counts are kept in memory, of all others 40 bytes each on disk.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as its owner
        weakref.finalize(self, self._file.close)
        self._document_id: str | None = None
        self._identifier = b""
        self._counts: Counter[str] = Counter()

    def add(self, document_id: str, outcome: str) -> None:
        """Count one page; a page of another document than the last closes the last. ValueError for a name that is
        no document's.
        """
        if document_id != self._document_id:
            self._write()
            self._identifier = bytes.fromhex(document_id)
            if 2 * len(self._identifier) != IDENTIFIER_DIGITS:
                raise ValueError(f"{document_id} does not have {IDENTIFIER_DIGITS} digits")
            self._document_id = document_id
        self._counts[outcome] += 1

    def __iter__(self) -> Iterator[tuple[str, Mapping[str, int]]]:
        """Ids and counts in order. To be iterated once all is counted, as often as one likes."""
        self._write()
        position = 0
        while True:
            self._file.seek(position)
            block = self._file.read(COUNTS.size * COUNTS_AT_ONCE)
            if not block:
                return
            position += len(block)
            for identifier, *counts in COUNTS.iter_unpack(block):
                yield identifier.hex(), dict(zip(Outcome, counts, strict=True))

    def _write(self) -> None:
        if self._document_id is None:
            return
        counts = [self._counts.get(outcome, 0) for outcome in Outcome]
        self._file.write(COUNTS.pack(self._identifier, *counts))
        self._document_id = None
        self._counts.clear()


def _private_database(owner: object) -> sqlite3.Connection:
    """A database without a name, gone with its owner; nothing in it needs to survive a crash.

    One thread uses it; which one the garbage collector runs in, when it comes to close it, nobody can say. SQLite
    takes calls from any thread (`sqlite3.threadsafety` 3), Python's check of the thread would leave it open.
    """
    database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    weakref.finalize(owner, database.close)
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("PRAGMA synchronous = OFF")
    return database


def _packed(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _unpacked(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
