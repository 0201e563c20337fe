"""Two collections that may outgrow memory: objects in sorted order, and the first of each content.

Both are tables of a private SQLite database that lives in its cache and, beyond that, in a nameless file on
disk, so that a listing of millions costs the driver a few megabytes.
"""

import sqlite3
import weakref
from collections.abc import Iterator

from workers.object_store import StoredObject


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


def _private_database(owner: object) -> sqlite3.Connection:
    """A database without a name, gone with its owner; nothing in it needs to survive a crash."""
    database = sqlite3.connect("", isolation_level=None)
    weakref.finalize(owner, database.close)
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("PRAGMA synchronous = OFF")
    return database


def _packed(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _unpacked(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
