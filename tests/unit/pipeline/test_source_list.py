"""Lists of documents as SOURCE: text, CSV and Parquet; entries are taken as they are written."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.config import ConfigError
from pipeline.source import list_source, listing_notes
from workers.object_store import StorageDamaged, StorageMissing, StorageSettings

ODD = [
    "a b.pdf",
    "a+b.pdf",
    "a%20b.pdf",
    "#1.pdf",
    "ü/é.pdf",
    "x/same.pdf",
    "y/same.pdf",
    " lead.pdf",
    "q\"'.pdf",
]


def _uris(source: Path) -> list[str]:
    return [stored.uri for stored in list_source(str(source), StorageSettings()).objects]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_text_list_names_files_beside_it_in_s3_and_anywhere(tmp_path: Path, end: str) -> None:
    file = tmp_path / "list.txt"
    entries = [*ODD, "", "s3://bucket/scans/a b#%41.pdf", "/archive/../archive/c.pdf", "../d.pdf"]
    file.write_bytes(b"\xef\xbb\xbf" + end.join(entries).encode())
    expected = [f"{tmp_path}/{name}" for name in ODD]
    expected += ["s3://bucket/scans/a b#%41.pdf", "/archive/c.pdf", f"{tmp_path.parent}/d.pdf"]
    assert _uris(file) == sorted(expected)


def test_a_csv_list_with_bucket_and_key(tmp_path: Path) -> None:
    file = tmp_path / "list.csv"
    lines = ["Key,note,Bucket,size,etag", '"a, ""b"" +%41.pdf",x,scans,17,"""abc"""', "plain.pdf,,scans,,"]
    file.write_text("\r\n".join(lines))
    objects = list(list_source(str(file), StorageSettings()).objects)
    assert [(stored.uri, stored.bytes, stored.etag) for stored in objects] == [
        ('s3://scans/a, "b" +%41.pdf', 17, "abc"),
        ("s3://scans/plain.pdf", 0, ""),
    ]


def test_a_parquet_list_as_an_inventory_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "list.parquet"
    table = {"bucket": ["scans"] * len(ODD), "key": ODD, "size": [5] * len(ODD), "e_tag": ["ab"] * len(ODD)}
    pq.write_table(pa.table({**table, "storage_class": ["STANDARD"] * len(ODD)}), file)
    objects = list(list_source(str(file), StorageSettings()).objects)
    assert [stored.key for stored in objects] == sorted(ODD)
    assert {(stored.bytes, stored.etag) for stored in objects} == {(5, "ab")}


def test_what_is_named_twice_is_read_once_and_said(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("a.pdf\nb.pdf\na.pdf\n./a.pdf\n")
    listing = list_source(str(file), StorageSettings())
    assert [stored.key for stored in listing.objects] == ["a.pdf", "b.pdf"]
    assert list(listing_notes(listing)) == [
        f"2 entries of {file} name an object that was named before; each is read once."
    ]


def test_a_document_called_like_a_list_is_a_document(tmp_path: Path) -> None:
    for name in ("scan.txt", "scan.csv", "scan.parquet"):
        (tmp_path / name).write_bytes(b"%PDF-1.7\n")
        assert _uris(tmp_path / name) == [f"{tmp_path}/{name}"]
    (tmp_path / "page.pdf").write_text("a.pdf\nb.pdf\n")
    assert _uris(tmp_path / "page.pdf") == [f"{tmp_path}/page.pdf"]
    assert len(_uris(tmp_path)) == 4  # in a folder nothing is a list


def _parquet_of(uri: bytes) -> bytes:
    """A table of one location, whatever its bytes."""
    text = pa.Array.from_buffers(pa.string(), 1, pa.array([uri], pa.binary()).buffers())
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"uri": text}), sink)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("name", "content", "error", "words"),
    [
        ("a.txt", b"ftp://host/a.pdf\n", ConfigError, r"entry 1 \(ftp://host/a.pdf\) is no location"),
        ("a.txt", b"a.pdf\ns3://bucket\n", ConfigError, "entry 2 .* is no object of a bucket"),
        ("a.txt", b"caf\xe9.pdf\n", StorageDamaged, "is not UTF-8 text"),
        ("a.txt", b"\n\n", StorageMissing, "names no documents"),
        ("a.csv", b"path,pages\na.pdf,1\n", ConfigError, "no column 'uri'"),
        ("a.csv", b"uri,size\na.pdf\n", ConfigError, "line 2 has 1 fields, not 2"),
        ("a.csv", b'uri\n"a.pdf\n', ConfigError, "is no valid CSV"),
        ("a.csv", b"uri,size\na.pdf,big\n", ConfigError, "has the size 'big'"),
        ("a.csv", b"uri\n,\n", ConfigError, "has 2 fields"),
        ("a.csv", b"bucket,key\nscans,\n", ConfigError, "entry 2 names no document"),
        ("a.csv", b"key,version_id\na.pdf,v7\n", ConfigError, "asks for a version"),
        ("a.parquet", b"PAR1 and no more", StorageDamaged, "no readable Parquet"),
        ("a.parquet", _parquet_of(b"caf\xe9.pdf"), StorageDamaged, "no readable Parquet"),
        (
            "a.parquet",
            _parquet_of(b"a.pdf").replace(b"uri", b"\xffri"),
            StorageDamaged,
            "no readable Parquet",
        ),
    ],
)
def test_a_list_that_cannot_be_followed_is_one_sentence(
    tmp_path: Path, name: str, content: bytes, error: type[Exception], words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=words):
        list_source(str(tmp_path / name), StorageSettings())
