"""Brings the bytes of one document into memory, as the version that was surveyed.

What is wrong with one document becomes a `FetchFailure` with a reason; a storage that does not answer at all
is no document's fault and stays a `StorageError`.
"""

import contextlib
from collections.abc import Iterator

from workers.ids import content_hash
from workers.object_store import (
    ObjectStore,
    StorageChanged,
    StorageDenied,
    StorageMissing,
    StorageSettings,
    StoredObject,
    open_store,
    split_uri,
)
from workers.outcomes import Reason


class FetchFailure(Exception):  # noqa: N818 - named for what happened
    """This document cannot be had; `reason` is from the closed list, `detail` one sentence."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


class DocumentFetcher:
    """Fetches documents by location, with one store per root."""

    def __init__(self, settings: StorageSettings) -> None:
        self._settings = settings
        self._stores: dict[str, ObjectStore] = {}

    def fetch(self, uri: str, etag: str | None, expected_hash: str | None = None) -> bytes:
        """The document's bytes, as listed under `etag` or, where it is known, with the content `expected_hash`.

        The content decides over the version mark: a file that was touched or uploaded again is the same
        document. Raises `FetchFailure` or `StorageError`.
        """
        store, key = self._place(uri)
        with _failures_of_one_document():
            data = store.get(key, None if expected_hash else etag)
        if expected_hash and content_hash(data) != expected_hash:
            raise FetchFailure(Reason.CHANGED_DURING_RUN, f"{uri} changed since it was surveyed.")
        return data

    def find(self, uri: str) -> StoredObject:
        """The object as a listing would name it. Raises `FetchFailure` or `StorageError`."""
        store, key = self._place(uri)
        with _failures_of_one_document():
            found = store.find(key)
        if found is None:
            raise FetchFailure(Reason.STORAGE_MISSING, f"There is no such object: {uri}.")
        return found

    def head(self, uri: str, count: int) -> bytes:
        """The first bytes of the object. Raises `FetchFailure` or `StorageError`."""
        store, key = self._place(uri)
        with _failures_of_one_document(), store.open(key) as reader:
            return reader.read(count)

    def _place(self, uri: str) -> tuple[ObjectStore, str]:
        root, key = split_uri(uri)
        return self._stores.setdefault(root, open_store(root, self._settings)), key


@contextlib.contextmanager
def _failures_of_one_document() -> Iterator[None]:
    """What concerns one object alone becomes its `FetchFailure`."""
    try:
        yield
    except StorageMissing as error:
        raise FetchFailure(Reason.STORAGE_MISSING, str(error)) from error
    except StorageDenied as error:
        raise FetchFailure(Reason.STORAGE_DENIED, str(error)) from error
    except StorageChanged as error:
        raise FetchFailure(Reason.CHANGED_DURING_RUN, str(error)) from error


def fetch(uri: str, etag: str | None, settings: StorageSettings, expected_hash: str | None = None) -> bytes:
    """Fetch one document; see `DocumentFetcher.fetch`."""
    return DocumentFetcher(settings).fetch(uri, etag, expected_hash)
