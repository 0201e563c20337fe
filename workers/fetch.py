"""Brings the bytes of one document into memory, as the version that was surveyed.

What is wrong with one document becomes a `FetchFailure` with a reason; a storage that is out, or that refuses the
credentials, is no document's fault and stays a `StorageError`.
"""

from collections.abc import Callable
from typing import TypeVar

from workers.ids import content_hash
from workers.object_store import (
    ObjectStore,
    StorageChanged,
    StorageDenied,
    StorageError,
    StorageMissing,
    StorageSettings,
    StoredObject,
    open_store,
    split_uri,
)
from workers.outcomes import Reason
from workers.storage_health import ObjectUnavailableError, StorageHealth

REASONS: dict[type[StorageError], Reason] = {
    StorageMissing: Reason.STORAGE_MISSING,
    StorageDenied: Reason.STORAGE_DENIED,
    StorageChanged: Reason.CHANGED_DURING_RUN,
    ObjectUnavailableError: Reason.STORAGE_ERROR,
}
Answer = TypeVar("Answer")


class FetchFailure(Exception):  # noqa: N818 - named for what happened
    """This document cannot be had; `reason` is from the closed list, `detail` one sentence."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


class DocumentFetcher:
    """Fetches documents by location, with one store per root. Not for several threads at once."""

    def __init__(self, settings: StorageSettings) -> None:
        self._settings = settings
        self._stores: dict[str, tuple[ObjectStore, StorageHealth]] = {}

    def fetch(self, uri: str, etag: str | None, expected_hash: str | None = None) -> bytes:
        """The document's bytes, as listed under `etag` or, where it is known, with the content `expected_hash`.

        The content decides over the version mark: a file that was touched or uploaded again is the same
        document. Raises `FetchFailure` or `StorageError`.
        """
        wanted = None if expected_hash else etag
        data = self._bytes(uri, lambda store, key: store.get(key, wanted))
        if expected_hash and content_hash(data) != expected_hash:
            raise FetchFailure(Reason.CHANGED_DURING_RUN, f"{uri} changed since it was surveyed.")
        return data

    def find(self, uri: str) -> StoredObject:
        """The object as a listing would name it. Raises `FetchFailure` or `StorageError`."""
        found = self._asked(uri, lambda store, key: store.find(key))
        if found is None:
            raise FetchFailure(Reason.STORAGE_MISSING, f"There is no such object: {uri}.")
        return found

    def head(self, uri: str, count: int) -> bytes:
        """The first bytes of the object. Raises `FetchFailure` or `StorageError`."""
        return self._bytes(uri, lambda store, key: store.first_bytes(key, count))

    def _bytes(self, uri: str, ask: Callable[[ObjectStore, str], bytes]) -> bytes:
        data = self._asked(uri, ask)
        _, health, key = self._place(uri)
        health.delivered(key)
        return data

    def _asked(self, uri: str, ask: Callable[[ObjectStore, str], Answer]) -> Answer:
        """The answer for one object; what concerns it alone becomes its `FetchFailure`."""
        store, health, key = self._place(uri)
        try:
            return health.asked(key, lambda: ask(store, key))
        except tuple(REASONS) as error:
            raise FetchFailure(REASONS[type(error)], str(error)) from error

    def _place(self, uri: str) -> tuple[ObjectStore, StorageHealth, str]:
        root, key = split_uri(uri)
        if root not in self._stores:
            store = open_store(root, self._settings)
            self._stores[root] = store, StorageHealth(store)
        return *self._stores[root], key


def fetch(uri: str, etag: str | None, settings: StorageSettings, expected_hash: str | None = None) -> bytes:
    """Fetch one document; see `DocumentFetcher.fetch`."""
    return DocumentFetcher(settings).fetch(uri, etag, expected_hash)
