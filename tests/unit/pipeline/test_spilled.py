"""Collections on disk keep what they are given: every location once, in order, the first of each content, and what
became of the pages of each document.
"""

import gc
import sys
from collections.abc import Callable
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.spilled import CountsByDocument, FirstOfEach, SortedObjects
from workers.object_store import StoredObject
from workers.outcomes import Outcome

# Lone surrogates of names that are not UTF-8 included, as the operating system hands them out.
names = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("\udc80\udcff")), max_size=6
)


@given(st.lists(st.tuples(names, st.integers(0, 2**40), names.filter(str.isprintable))))
def test_every_location_once_and_in_order_of_its_bytes(entries: list[tuple[str, int, str]]) -> None:
    objects = SortedObjects()
    first: dict[str, StoredObject] = {}
    for name, size, etag in entries:
        stored = StoredObject(f"s3://b/{name}", name, size, etag)
        first.setdefault(stored.uri, stored)
        objects.add(stored)
    expected = sorted(first.values(), key=lambda stored: stored.uri.encode("utf-8", "surrogateescape"))
    for _ in range(2):
        assert list(objects) == expected
    assert (len(objects), objects.repeated) == (len(first), len(entries) - len(first))


@given(st.lists(st.integers(0, 9)))
def test_the_first_document_of_each_content_is_remembered(contents: list[int]) -> None:
    seen = FirstOfEach()
    first: dict[int, str] = {}
    for place, content in enumerate(contents):
        document = f"{place:032x}"
        first.setdefault(content, document)
        assert seen.first(f"{content:064x}", document) == first[content]


@given(st.lists(st.lists(st.sampled_from(Outcome), min_size=1)))
def test_pages_are_counted_for_their_documents_in_order(documents: list[list[Outcome]]) -> None:
    counts = CountsByDocument()
    for place, outcomes in enumerate(documents):
        for outcome in outcomes:
            counts.add(f"{place:032x}", outcome)
    for _ in range(2):
        found = [(name, dict(each)) for name, each in counts]
        assert found == [
            (f"{place:032x}", {outcome: outcomes.count(outcome) for outcome in Outcome})
            for place, outcomes in enumerate(documents)
        ]


@pytest.mark.parametrize("name", ["", "document 1", "ab", "f" * 34])
def test_what_is_no_name_of_a_document_is_not_counted(name: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says; the ledger says which name it was
        CountsByDocument().add(name, Outcome.OK)


@pytest.mark.parametrize("collection", [SortedObjects, FirstOfEach, CountsByDocument])
def test_a_collection_may_be_cleared_away_by_another_thread(
    collection: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a ring of references it lives until a garbage collection, which runs in the thread that asks for memory."""
    gc.collect()  # what other tests left is not looked at
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)

    def leave_behind() -> None:
        ring: list[object] = [collection()]
        ring.append(ring)

    gc.disable()
    try:
        maker = Thread(target=leave_behind)
        maker.start()
        maker.join()
        gc.collect()
    finally:
        gc.enable()
    assert not raised
