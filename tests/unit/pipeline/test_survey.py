"""A survey that stops anywhere carries on with what is missing, and gives what it would have given."""

from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from PIL import Image

from fastocr_core.vision import model_vision
from pipeline import listing
from pipeline.listing import FrozenListing, find_listing, freeze_listing, listed_batches
from pipeline.progress import Observer
from pipeline.source import list_source
from pipeline.survey import Findings, Start, in_order, in_this_process, survey_listing
from tests.support.made_archive import make_pdf
from workers.layout import LISTING_KEY, survey_batch_key
from workers.object_store import LocalStore, StorageDamaged, StorageSettings, StoredObject
from workers.rasterize import RasterLimits
from workers.survey import Batch, SurveyTask

FILES = 7


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Seven documents in batches of two."""
    folder = tmp_path / "archive"
    folder.mkdir()
    for number in range(FILES):
        if number % 3:
            Image.new("L", (40 + number, 60), number * 20).save(folder / f"{number} #.pdf", "PNG")
        else:
            make_pdf(folder / f"{number} #.pdf", pages=2)
    monkeypatch.setattr(listing, "BATCH_DOCUMENTS", 2)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path / "target"))


def _frozen(archive: Path, store: LocalStore) -> FrozenListing:
    return freeze_listing(store, list_source(str(archive), StorageSettings()).objects)


def _start(store: LocalStore, frozen: FrozenListing) -> Start:
    vision = model_vision("tiny")
    return in_this_process(
        SurveyTask(RasterLimits(), vision, StorageSettings(), store.root, frozen.listing_id)
    )


def _pages(
    store: LocalStore, frozen: FrozenListing, batches: int | None = None, opened: list[int] | None = None
) -> list[tuple[str, int]]:
    """Location and number of every page found; only so many batches are waited for. Notes what is opened."""
    start = _start(store, frozen)

    def noted(batch: Batch) -> Findings:
        if opened is not None:
            opened.append(batch.batch_index)
        return start(batch)

    with closing(survey_listing(store, frozen, noted, 2, Observer())) as found:
        rows = [row for batch in islice(found, batches) for row in batch.pages.to_pylist()]
    return [(row["source_uri"], row["page_index"]) for row in rows]


def test_a_stopped_survey_opens_only_what_is_missing(
    archive: Path, store: LocalStore, tmp_path: Path
) -> None:
    frozen = _frozen(archive, store)
    assert (frozen.objects, frozen.batches) == (FILES, 4)
    elsewhere = LocalStore(str(tmp_path / "elsewhere"))
    expected = _pages(elsewhere, _frozen(archive, elsewhere))
    assert len(expected) == 3 * 2 + 4
    first = _pages(store, frozen, batches=2)
    done = [store.exists(survey_batch_key(frozen.listing_id, number)) for number in range(4)]
    assert done == [True, True, False, False]
    for name in (f"{number} #.pdf" for number in range(4)):
        (archive / name).unlink()  # whoever opened them again would find nothing
    again = find_listing(store)
    assert again == frozen
    opened: list[int] = []
    assert _pages(store, again, opened=opened) == expected
    assert opened == [2, 3]
    assert first == expected[: len(first)]


def test_the_listing_that_is_put_first_counts(archive: Path, store: LocalStore) -> None:
    frozen = _frozen(archive, store)
    (archive / "later.pdf").write_bytes(b"x")
    assert _frozen(archive, store) == frozen
    uris = [stored.uri for batch in listed_batches(store, frozen) for stored in batch.objects]
    assert uris == [f"{archive}/{number} #.pdf" for number in range(FILES)]


def test_pieces_of_a_long_listing_follow_each_other(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PIECE_OBJECTS", 100)
    monkeypatch.setattr(listing, "BATCH_BYTES", 50)
    objects = [StoredObject(f"s3://b/{n:04d} \udcff", f"{n:04d} \udcff", n % 23, "e") for n in range(450)]
    frozen = freeze_listing(store, objects)
    assert frozen.pieces > 3
    found = list(listed_batches(store, frozen))
    assert [batch.batch_index for batch in found] == list(range(frozen.batches))
    assert [stored for batch in found for stored in batch.objects] == objects
    assert all(sum(stored.bytes for stored in batch.objects) <= 50 for batch in found)


def test_damaged_findings_are_one_sentence(archive: Path, store: LocalStore) -> None:
    frozen = _frozen(archive, store)
    _pages(store, frozen, batches=2)
    for content in (b"", b"half a fi"):
        store.put(survey_batch_key(frozen.listing_id, 1), content)
        with pytest.raises(
            StorageDamaged, match=r"survey of batch 1, which begins with .*/2 #\.pdf, is damaged"
        ):
            _pages(store, frozen)
    store.put(LISTING_KEY, b"{}")
    with pytest.raises(StorageDamaged, match=LISTING_KEY):
        find_listing(store)


class _Counted:
    """Findings that count how many are under way, and what was called off."""

    under_way = 0
    most = 0
    cancelled: list[int]

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        type(self).under_way += 1
        type(self).most = max(self.most, self.under_way)

    def result(self) -> bytes:
        type(self).under_way -= 1
        return str(self._batch.batch_index).encode()

    def cancel(self) -> None:
        self.cancelled.append(self._batch.batch_index)


def test_only_a_few_batches_are_under_way_and_the_rest_is_called_off() -> None:
    _Counted.cancelled = []
    asked: list[int] = []

    def endless() -> Iterator[Batch]:
        for number in range(10_000):
            asked.append(number)
            yield Batch(number, ())

    with closing(in_order(endless(), _Counted, 3)) as found:
        taken = [(batch.batch_index, data) for batch, data in islice(found, 50)]
    assert taken == [(number, str(number).encode()) for number in range(50)]
    assert _Counted.most == 3
    assert len(asked) <= 53
    assert _Counted.cancelled == asked[-len(_Counted.cancelled) :]
