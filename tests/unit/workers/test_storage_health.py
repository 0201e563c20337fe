"""One object that cannot be had is a finding about a document; a storage that is out ends the run."""

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.unit.workers.test_survey_batch import FORMATS, TASK
from workers import fetch
from workers.fetch import DocumentFetcher, FetchFailure
from workers.object_store import (
    CredentialsRejected,
    LocalStore,
    StorageDenied,
    StorageError,
    StorageSettings,
    StorageUnreachable,
    StoredObject,
)
from workers.outcomes import Reason
from workers.storage_health import MOST_IN_A_ROW
from workers.survey import inspected


class FailingStore(LocalStore):
    """A folder in which some files cannot be read; `error` is raised for them, `asked` are the keys in order."""

    bad: Callable[[str], bool]
    error: StorageError
    asked: list[str]
    answers = True

    def get(self, key: str, etag: str | None = None) -> bytes:
        self._ask(key)
        return super().get(key, etag)

    def open(self, key: str) -> BinaryIO:
        self._ask(key)
        return super().open(key)

    def find(self, key: str) -> StoredObject | None:
        if not self.answers:
            raise StorageError("Nothing answers.")
        return super().find(key)

    def _ask(self, key: str) -> None:
        self.asked.append(key)
        if self.bad(key):
            raise self.error


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(MOST_IN_A_ROW + 5):
        (tmp_path / f"{number:02d}.png").write_bytes(FORMATS["png"][0])
    return tmp_path


@pytest.fixture
def store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FailingStore:
    store = FailingStore(str(folder))
    store.bad, store.asked = lambda key: key == "03.png", []
    store.error = StorageError(f"{folder}/03.png: Input/output error.")
    monkeypatch.setattr(fetch, "open_store", lambda root, settings: store)
    return store


def _reason(fetcher: DocumentFetcher, uri: str) -> Reason:
    with pytest.raises(FetchFailure) as failure:
        fetcher.fetch(uri, None)
    assert "Input/output error" in failure.value.detail
    return failure.value.reason


@pytest.mark.parametrize("before", [(), ("00.png",), ("02.png", "03.png")])
def test_one_bad_object_is_a_finding_after_a_second_try(
    folder: Path, store: FailingStore, before: tuple[str, ...]
) -> None:
    """Whether or not anything, or this very object, was delivered before."""
    fetcher, bad, store.bad = DocumentFetcher(StorageSettings()), store.bad, lambda key: False
    for name in before:
        fetcher.fetch(f"{folder}/{name}", None)
    store.bad, store.asked = bad, []
    assert _reason(fetcher, f"{folder}/03.png") == Reason.STORAGE_ERROR
    assert store.asked.count("03.png") == 2
    assert len(store.asked) == 4
    assert fetcher.fetch(f"{folder}/04.png", None)


def test_what_comes_the_second_time_is_no_failure(folder: Path, store: FailingStore) -> None:
    store.bad = lambda key: key == "03.png" and store.asked.count(key) == 1
    assert DocumentFetcher(StorageSettings()).fetch(f"{folder}/03.png", None) == FORMATS["png"][0]


def test_the_survey_quarantines_the_one_and_goes_on(folder: Path, store: FailingStore) -> None:
    listed = sorted(LocalStore(str(folder)).list(), key=lambda stored: stored.uri)
    rows = inspected(listed, TASK).documents.to_pylist()
    assert [row["reason"] for row in rows] == [None] * 3 + ["storage_error"] + [None] * (len(rows) - 4)
    assert rows[3]["warnings"] == [f"{folder}/03.png: Input/output error."]


def _nothing_is_delivered(store: FailingStore) -> None:
    store.bad = lambda key: True


def _nothing_answers(store: FailingStore) -> None:
    store.bad, store.answers = lambda key: True, False


@pytest.mark.parametrize("outage", [_nothing_is_delivered, _nothing_answers])
@pytest.mark.parametrize("before", [(), ("00.png", "01.png")])
def test_an_outage_is_no_documents_fault(
    folder: Path, store: FailingStore, outage: Callable[[FailingStore], None], before: tuple[str, ...]
) -> None:
    fetcher = DocumentFetcher(StorageSettings())
    for name in before:
        fetcher.fetch(f"{folder}/{name}", None)
    outage(store)
    for ask in (fetcher.fetch, lambda uri, _: fetcher.head(uri, 9)):
        with pytest.raises(StorageUnreachable) as error:
            ask(f"{folder}/03.png", None)
        assert re.fullmatch(
            rf"The storage of {folder} is out, .*Input/output error.*, what is staged is kept\.",
            str(error.value),
        )


def test_a_storage_that_holds_nothing_else_is_asked_for_what_is_not_there(
    folder: Path, store: FailingStore
) -> None:
    for file in folder.iterdir():
        if file.name != "03.png":
            file.unlink()
    assert _reason(DocumentFetcher(StorageSettings()), f"{folder}/03.png") == Reason.STORAGE_ERROR


def test_many_in_a_row_end_the_run_unless_something_comes_between(folder: Path, store: FailingStore) -> None:
    store.bad = lambda key: key > "01.png"
    fetcher = DocumentFetcher(StorageSettings())
    names = [f"{folder}/{number:02d}.png" for number in range(2, MOST_IN_A_ROW + 2)]
    for name in names[:-1]:
        assert _reason(fetcher, name) == _reason(fetcher, name) == Reason.STORAGE_ERROR  # counted once
    fetcher.fetch(f"{folder}/00.png", None)
    for name in names[:-1]:
        assert _reason(fetcher, name) == Reason.STORAGE_ERROR
    with pytest.raises(StorageUnreachable, match=f"{MOST_IN_A_ROW} objects of .* in a row could not be had"):
        fetcher.fetch(names[-1], None)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(StorageDenied("No."), FetchFailure), (CredentialsRejected("No."), CredentialsRejected)],
)
def test_answers_are_taken_at_once(
    folder: Path, store: FailingStore, answer: StorageError, expected: type[Exception]
) -> None:
    store.error = answer
    with pytest.raises(expected):
        DocumentFetcher(StorageSettings()).fetch(f"{folder}/03.png", None)
    assert store.asked == ["03.png"]


def test_a_disk_that_fails_while_the_first_bytes_are_read_is_one_sentence(tmp_path: Path) -> None:
    class Broken(LocalStore):
        def open(self, key: str) -> BinaryIO:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(StorageError, match=r"a\.pdf: Input/output error\."):
        Broken(str(tmp_path)).first_bytes("a.pdf", 1)
