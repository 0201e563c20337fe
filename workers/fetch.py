"""Brings the bytes of one document into memory, as the version that was surveyed.

What is wrong with one document becomes a `FetchFailure` with a reason; a storage that does not answer at all
is no document's fault and stays a `StorageError`.
"""

from workers.object_store import (
    ObjectStore,
    StorageChanged,
    StorageDenied,
    StorageMissing,
    StorageSettings,
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

    def fetch(self, uri: str, etag: str | None) -> bytes:
        """The document's bytes; with `etag`, that version only. Raises `FetchFailure` or `StorageError`."""
        root, key = split_uri(uri)
        store = self._stores.setdefault(root, open_store(root, self._settings))
        try:
            return store.get(key, etag)
        except StorageMissing as error:
            raise FetchFailure(Reason.STORAGE_MISSING, str(error)) from error
        except StorageDenied as error:
            raise FetchFailure(Reason.STORAGE_DENIED, str(error)) from error
        except StorageChanged as error:
            raise FetchFailure(Reason.CHANGED_DURING_RUN, str(error)) from error


def fetch(uri: str, etag: str | None, settings: StorageSettings) -> bytes:
    """Fetch one document; see `DocumentFetcher.fetch`."""
    return DocumentFetcher(settings).fetch(uri, etag)
