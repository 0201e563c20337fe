"""What SOURCE finds, in which order, and what it never touches."""

import os
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config import ConfigError
from pipeline.source import (
    COUNT_EVERY,
    fixed_part,
    glob_pattern,
    list_source,
    listing_notes,
    newcomers,
    refuse_nested,
)
from workers import s3_client
from workers.object_store import StorageMissing, StorageSettings, StoredObject

FILES = ["a.pdf", "b.PDF", "b/c.pdf", "b/d/e.tif", "b/odd [1]*.pdf", "ü #+%41 .png"]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    for name in FILES:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    return tmp_path


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", sorted(FILES)),
        ("a.pdf", ["a.pdf"]),
        ("*.pdf", ["a.pdf"]),
        ("**/*.pdf", ["a.pdf", "b/c.pdf", "b/odd [1]*.pdf"]),
        ("b/?.pdf", ["b/c.pdf"]),
        ("[ab].[pP]*", ["a.pdf", "b.PDF"]),
        ("b/odd [1]*.pdf", ["b/odd [1]*.pdf"]),
        ("b", ["b/c.pdf", "b/d/e.tif", "b/odd [1]*.pdf"]),
    ],
)
def test_files_folders_and_globs(archive: Path, source: str, expected: list[str]) -> None:
    place = f"{archive}/{source}".rstrip("/")
    found = [
        str(Path(stored.uri).relative_to(archive)) for stored in list_source(place, StorageSettings()).objects
    ]
    assert found == expected


def test_nothing_to_read_is_an_error(archive: Path) -> None:
    for source in (f"{archive}/none", f"{archive}/*.gif", f"{archive}/b/d/f"):
        with pytest.raises(StorageMissing):
            list_source(source, StorageSettings())


def test_names_that_are_not_utf8_are_listed_and_read(tmp_path: Path) -> None:
    (tmp_path / b"caf\xe9.pdf".decode("utf-8", "surrogateescape")).write_bytes(b"latin")
    (stored,) = list_source(str(tmp_path), StorageSettings()).objects
    assert stored.uri == f"{tmp_path}/caf%E9.pdf"
    from workers.fetch import fetch

    assert fetch(stored.uri, stored.etag, StorageSettings()) == b"latin"


def test_globs_over_s3_keys() -> None:
    pattern = glob_pattern("s3://bucket/y*/**/p?[!0-9].pdf")
    assert pattern.fullmatch("s3://bucket/y1/p1a.pdf")
    assert pattern.fullmatch("s3://bucket/y1/x/z/p1a.pdf")
    assert not pattern.fullmatch("s3://bucket/y1/p11.pdf")
    assert not pattern.fullmatch("s3://bucket/x1/p1a.pdf")
    assert fixed_part("s3://bucket/a/y*/b") == "s3://bucket/a"


def test_a_target_inside_its_source_is_refused(archive: Path) -> None:
    with pytest.raises(ConfigError, match="lies inside the source"):
        refuse_nested(str(archive), f"{archive}/out")
    refuse_nested(str(archive), f"{archive}-out")
    refuse_nested(f"{archive}/a.pdf", f"{archive}/out")
    refuse_nested("s3://bucket/in", str(archive))


@pytest.mark.parametrize("pattern", ["**", "*/*", "**/*.parquet", "out/*", "o*/pages/*", "**/*"])
def test_a_glob_that_would_take_what_the_run_writes_is_refused(archive: Path, pattern: str) -> None:
    with pytest.raises(ConfigError, match="choose a target beside it"):
        refuse_nested(f"{archive}/{pattern}", f"{archive}/out")


@pytest.mark.parametrize("pattern", ["*.pdf", "**/*.pdf", "*", "b/*", "[ab]*/*.tif"])
def test_a_glob_that_takes_nothing_of_the_target_may_lie_above_it(archive: Path, pattern: str) -> None:
    refuse_nested(f"{archive}/{pattern}", f"{archive}/out")


def test_a_folder_named_like_a_pattern_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "scans[1]").mkdir()
    refuse_nested(f"{tmp_path}/scans[1]", f"{tmp_path}/out")
    with pytest.raises(ConfigError):
        refuse_nested(f"{tmp_path}/scans[1]", f"{tmp_path}/scans[1]/out")


def test_links_do_not_hide_that_the_target_lies_inside_its_source(archive: Path, tmp_path: Path) -> None:
    link = tmp_path.with_name(f"{tmp_path.name}-link")
    link.symlink_to(archive)
    for source, target in (
        (str(link), f"{archive}/out"),
        (str(archive), f"{link}/out"),
        (f"{link}/**", f"{archive}/out"),
        (f"{archive}/*/*", f"{link}/out"),
    ):
        with pytest.raises(ConfigError):
            refuse_nested(source, target)


def test_a_source_inside_its_target_is_refused_where_the_run_writes(archive: Path) -> None:
    with pytest.raises(ConfigError):
        refuse_nested(f"{archive}/pages", str(archive))
    refuse_nested(f"{archive}/b", str(archive))
    with pytest.raises(ConfigError):
        refuse_nested("s3://bucket/in", "s3://bucket/in/out")
    with pytest.raises(ConfigError):
        refuse_nested("s3://bucket/in/**", "s3://bucket/in/out")
    refuse_nested("s3://bucket/in/*.pdf", "s3://bucket/in/out")
    refuse_nested("s3://bucket/in", "s3://bucket/in-out")


def test_what_can_be_no_document_is_left_out_and_counted(archive: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path.with_name(f"{tmp_path.name}-elsewhere")
    elsewhere.mkdir()
    (elsewhere / "z.pdf").write_bytes(b"x")
    (archive / "dangling.pdf").symlink_to(archive / "nowhere.pdf")
    (archive / "folder").symlink_to(elsewhere)
    (archive / "good.pdf").symlink_to(elsewhere / "z.pdf")
    os.mkfifo(archive / "pipe")
    listing = list_source(str(archive), StorageSettings())
    assert sorted(stored.key for stored in listing.objects) == sorted([*FILES, "good.pdf"])
    assert [Path(place).name for place in listing.left_out] == ["dangling.pdf", "folder", "pipe"]
    assert "3 links or special files" in " ".join(listing_notes(listing))
    for pattern, expected in (
        ("*.pdf", ["dangling.pdf"]),
        ("**/*.pdf", ["dangling.pdf", "folder"]),
        ("f*/*.pdf", []),
        ("[bf]*/*.pdf", ["folder"]),
    ):
        if pattern == "f*/*.pdf":
            with pytest.raises(StorageMissing, match="1 links or special files"):
                list_source(f"{archive}/{pattern}", StorageSettings())
            continue
        found = list_source(f"{archive}/{pattern}", StorageSettings()).left_out
        assert [Path(place).name for place in found] == expected
    assert not list(listing_notes(list_source(f"{archive}/b", StorageSettings())))


class _ListedBucket:
    """An S3 client that knows listings and heads, with keys that not every server can hold side by side."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self._sizes = sizes

    def list_objects_v2(self, Bucket: str, Prefix: str) -> dict[str, object]:  # noqa: N803 - boto3's names
        keys = [key for key in self._sizes if key.startswith(Prefix)]
        return {"Contents": [{"Key": key, "Size": self._sizes[key], "ETag": '"1"'} for key in keys]}

    def head_object(self, Bucket: str, Key: str) -> dict[str, object]:  # noqa: N803
        if Key not in self._sizes:
            raise ClientError({"Error": {"Code": "404"}}, "HeadObject")
        return {"ContentLength": self._sizes[Key], "ETag": '"1"'}


@pytest.mark.parametrize("slash", ["", "/"])
def test_markers_of_folders_are_no_documents(monkeypatch: pytest.MonkeyPatch, slash: str) -> None:
    sizes = {
        "scans": 0,
        "scans/": 0,
        "scans/a.pdf": 5,
        "scans/old/": 0,
        "scans/old/b.pdf": 0,
        "scans/odd/": 3,
    }
    monkeypatch.setattr(s3_client, "_client", lambda settings: _ListedBucket(sizes))
    found = [stored.key for stored in list_source(f"s3://bucket/scans{slash}", StorageSettings()).objects]
    assert found == ["a.pdf", "odd/", "old/b.pdf"]
    monkeypatch.setattr(s3_client, "_client", lambda settings: _ListedBucket({"scans": 0}))
    found = [stored.key for stored in list_source("s3://bucket/scans", StorageSettings()).objects]
    assert found == ["scans"]


def test_counts_are_heard_while_a_long_listing_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {f"scans/{number:05d}.pdf": 1 for number in range(2 * COUNT_EVERY + 7)}
    monkeypatch.setattr(s3_client, "_client", lambda settings: _ListedBucket(sizes))
    heard: list[int] = []
    listing = list_source("s3://bucket/scans", StorageSettings(), heard.append)
    assert heard == [COUNT_EVERY, 2 * COUNT_EVERY]
    assert len(listing.objects) == len(sizes)


locations = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4), unique=True)


@given(locations, st.data())
def test_newcomers_are_what_is_listed_and_not_known(names: list[str], data: st.DataObject) -> None:
    known = sorted(name for name in names if data.draw(st.booleans()))
    gone = data.draw(locations)
    listed = [StoredObject(name, name, 1, "1") for name in sorted(names)]
    new = [name for name in sorted(names) if name not in {*known, *gone}]
    found = newcomers(listed, sorted({*known, *gone}))
    assert found == (len(new), new[0] if new else None)
