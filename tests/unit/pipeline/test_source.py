"""What SOURCE finds, in which order, and what it never touches."""

from pathlib import Path

import pytest

from pipeline.config import ConfigError
from pipeline.source import fixed_part, glob_pattern, list_source, refuse_nested
from workers.object_store import StorageMissing, StorageSettings

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
    found = [str(Path(stored.uri).relative_to(archive)) for stored in list_source(place, StorageSettings())]
    assert found == expected


def test_nothing_to_read_is_an_error(archive: Path) -> None:
    for source in (f"{archive}/none", f"{archive}/*.gif", f"{archive}/b/d/f"):
        with pytest.raises(StorageMissing):
            list_source(source, StorageSettings())


def test_names_that_are_not_utf8_are_listed_and_read(tmp_path: Path) -> None:
    (tmp_path / b"caf\xe9.pdf".decode("utf-8", "surrogateescape")).write_bytes(b"latin")
    (stored,) = list_source(str(tmp_path), StorageSettings())
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
