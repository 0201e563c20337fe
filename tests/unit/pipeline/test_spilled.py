"""Collections on disk keep what they are given: every location once, in order, and the first of each content."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.spilled import FirstOfEach, SortedObjects
from workers.object_store import StoredObject

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
