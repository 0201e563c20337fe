"""Tells one object that cannot be had from a storage that is out: the one is a row, the other ends the run.

A storage is held to be out if it no longer delivers what it delivered a moment ago, if it delivers nothing else of
what it lists, or if many objects in a row cannot be had.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import TypeVar

from workers.storage import (
    CredentialsRejected,
    ObjectStore,
    StorageChanged,
    StorageDenied,
    StorageError,
    StorageMissing,
    StorageUnreachable,
)

MOST_IN_A_ROW = 20
OTHERS_TRIED = 3
ANSWERS = (StorageMissing, StorageDenied, StorageChanged)
NOT_OF_ONE_OBJECT = (*ANSWERS, CredentialsRejected)
Answer = TypeVar("Answer")


class ObjectUnavailableError(StorageError):
    """The storage is well and does not deliver this one object."""


class StorageHealth:
    """What one worker knows of one store. Not for several threads at once."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._delivered: deque[str] = deque(maxlen=2)  # two, so that one of them is another than is asked for
        self._failing: set[str] = set()

    def asked(self, key: str, ask: Callable[[], Answer]) -> Answer:
        """What `ask` returns, which asks the store for the object of this key and may be called twice.

        Raises what it raises if that is an answer or concerns the credentials; of all else `StorageUnreachable` if the
        store is out, `ObjectUnavailableError` if it is not and the object could not be had the second time either.
        """
        try:
            return ask()
        except NOT_OF_ONE_OBJECT:
            raise
        except StorageError as error:
            self._require_others(key, error)
        return self._asked_again(key, ask)

    def delivered(self, key: str) -> None:
        """Note that the bytes of this object came."""
        self._failing.clear()
        if key not in self._delivered:
            self._delivered.append(key)

    def _asked_again(self, key: str, ask: Callable[[], Answer]) -> Answer:
        try:
            return ask()
        except NOT_OF_ONE_OBJECT:
            raise
        except StorageError as error:
            self._require_others(key, error)
            self._failing.add(key)
            if len(self._failing) >= MOST_IN_A_ROW:
                raise StorageUnreachable(
                    f"{MOST_IN_A_ROW} objects of {self._store.root} in a row could not be had ({_clause(error)}): run "
                    "the same command again when they can, or leave them out."
                ) from error
            raise ObjectUnavailableError(str(error)) from error

    def _require_others(self, key: str, error: StorageError) -> None:
        """Raise `StorageUnreachable` unless the store delivers something else, or at least answers."""
        try:
            if self._delivers_another(key):
                return
        except ANSWERS:
            return
        except CredentialsRejected:
            raise
        except StorageError:
            pass  # of the object that was asked for people know, of the probe they do not
        raise StorageUnreachable(
            f"The storage of {self._store.root} is out, nothing else can be had from it either ({_clause(error)}): "
            "run the same command again when it is back, what is staged is kept."
        ) from error

    def _delivers_another(self, key: str) -> bool:
        """Try what came before, else what is listed; raises what the store says to it."""
        known = next((other for other in self._delivered if other != key), None)
        if known is not None:
            try:
                self._store.first_bytes(known, 1)
                return True
            except ANSWERS:
                self._delivered.remove(known)  # gone meanwhile, which proves nothing
        tried = 0
        for other in islice((stored.key for stored in self._store.list() if stored.key != key), OTHERS_TRIED):
            tried += 1
            try:
                self._store.first_bytes(other, 1)
                return True
            except NOT_OF_ONE_OBJECT:
                raise
            except StorageError:
                continue
        return not tried  # it lists nothing else, so all that is known is that it answers


def _clause(error: StorageError) -> str:
    """The sentence of an error as a part of another."""
    return str(error).rstrip(".")
