"""The S3 store against a real server: conditional puts, long listings, odd keys, ranges, errors."""

import dataclasses
import json
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.source import list_source
from pipeline.stored import read_table
from tests.support.s3_server import MOST_VOLUMES, S3Server
from workers.object_store import (
    CredentialsRejected,
    StorageChanged,
    StorageDamaged,
    StorageMissing,
    StorageSettings,
    StorageUnreachable,
    honours_put_if_absent,
    open_store,
)

pytestmark = pytest.mark.s3

ODD_KEYS = [
    "a b/with space.pdf",
    "plus+sign.pdf",
    "percent%41.pdf",
    "hash#1.pdf",
    "question?x=1.pdf",
    "ärchiv/Übung — №1.pdf",
    "日本/新聞.tif",
    "a/same.pdf",
    "b/same.pdf",
    "quote'\"&<>.pdf",
]


def test_the_test_server_has_a_volume_for_every_bucket_whatever_the_disk(s3_server: S3Server) -> None:
    """It counted gigabytes of free disk before, and on a small machine the last tests could store nothing."""
    master = s3_server.ports[2]
    with urllib.request.urlopen(f"http://127.0.0.1:{master}/dir/status", timeout=10) as answer:
        assert json.load(answer)["Topology"]["Max"] >= MOST_VOLUMES


def test_put_if_absent_has_exactly_one_winner(s3_bucket: str, s3_settings: StorageSettings) -> None:
    store = open_store(f"{s3_bucket}/out", s3_settings)
    for round_number in range(3):
        start = threading.Barrier(6)

        def put(writer: int, key: str = f"part-{round_number}", start: threading.Barrier = start) -> bool:
            start.wait()
            return store.put_if_absent(key, f"writer {writer}".encode())

        with ThreadPoolExecutor(6) as writers:
            won = list(writers.map(put, range(6)))
        assert sum(won) == 1
        assert store.get(f"part-{round_number}") == f"writer {won.index(True)}".encode()


def test_the_probe_finds_that_the_server_refuses_the_second_writer(
    s3_bucket: str, s3_settings: StorageSettings
) -> None:
    store = open_store(s3_bucket, s3_settings)
    assert honours_put_if_absent(store)
    assert list(store.list()) == []


def test_a_listing_of_more_than_a_thousand_keys_is_complete(
    s3_bucket: str, s3_settings: StorageSettings
) -> None:
    store = open_store(f"{s3_bucket}/many", s3_settings)
    keys = [f"{number % 7}/object-{number:05d}" for number in range(1_250)]
    with ThreadPoolExecutor(8) as writers:
        list(writers.map(lambda key: store.put(key, b"x"), keys))
    assert sorted(stored.key for stored in store.list()) == sorted(keys)
    assert sum(1 for _ in store.list("3/")) == sum(1 for key in keys if key.startswith("3/"))


def test_odd_keys_come_back_exactly(s3_bucket: str, s3_settings: StorageSettings) -> None:
    store = open_store(f"{s3_bucket}/odd keys", s3_settings)
    for key in ODD_KEYS:
        store.put(key, key.encode())
    listed = {stored.key: stored for stored in store.list()}
    assert sorted(listed) == sorted(ODD_KEYS)
    for key in ODD_KEYS:
        assert store.get(key, listed[key].etag) == key.encode()
        assert listed[key].uri == f"{s3_bucket}/odd keys/{key}"
        assert listed[key].bytes == len(key.encode())


def test_a_prefix_is_a_folder(s3_bucket: str, s3_settings: StorageSettings) -> None:
    bucket = open_store(s3_bucket, s3_settings)
    bucket.put("scans/1", b"")
    bucket.put("scans-old/2", b"")
    assert [stored.key for stored in open_store(f"{s3_bucket}/scans", s3_settings).list()] == ["1"]


def test_an_object_that_changed_is_not_the_one_that_was_listed(
    s3_bucket: str, s3_settings: StorageSettings
) -> None:
    store = open_store(s3_bucket, s3_settings)
    store.put("document", b"first")
    (listed,) = store.list()
    store.put("document", b"second")
    with pytest.raises(StorageChanged, match="changed since it was listed"):
        store.get("document", listed.etag)


def test_a_parquet_file_is_read_by_ranges(s3_bucket: str, s3_settings: StorageSettings) -> None:
    store = open_store(s3_bucket, s3_settings)
    table = pa.table({"number": list(range(10_000)), "text": ["x" * 50] * 10_000})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=1_000)
    store.put("table", sink.getvalue().to_pybytes())
    with store.open("table") as reader:
        file = pq.ParquetFile(reader)
        assert file.read_row_group(7, columns=["number"])["number"].to_pylist() == list(range(7_000, 8_000))


def test_errors_say_what_is_wrong(
    s3_bucket: str, s3_settings: StorageSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(s3_bucket, s3_settings)
    assert not store.exists("nothing")
    with pytest.raises(StorageMissing, match="no such object"):
        store.get("nothing")
    with pytest.raises(StorageMissing, match="no such bucket"):
        list(open_store("s3://no-such-bucket-here", s3_settings).list())
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    other = dataclasses.replace(s3_settings, read_timeout_seconds=59.0)  # a client of its own
    with pytest.raises(CredentialsRejected, match="secret key does not fit"):
        open_store(s3_bucket, other).get("nothing")
    nobody = StorageSettings(
        endpoint_url="http://127.0.0.1:9", region="us-east-1", max_attempts=1, connect_timeout_seconds=1.0
    )
    with pytest.raises(StorageUnreachable, match="cannot be reached"):
        open_store(s3_bucket, nobody).get("nothing")


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_closing_slash_names_the_folder_and_markers_of_folders_are_no_documents(
    s3_bucket: str, s3_settings: StorageSettings, slash: str
) -> None:
    bucket = open_store(s3_bucket, s3_settings)
    for marker in ("scans/", "scans/old/", "scans/old/deep/"):
        bucket.put(marker, b"")
    bucket.put("scans/one.pdf", b"x")
    bucket.put("scans/old/two.pdf", b"y")
    bucket.put("scans-old/three.pdf", b"z")
    expected = [f"{s3_bucket}/scans/old/two.pdf", f"{s3_bucket}/scans/one.pdf"]
    listing = list_source(f"{s3_bucket}/scans{slash}", s3_settings)
    assert [stored.uri for stored in listing.objects] == expected
    assert listing.left_out == ()
    everything = [stored.uri for stored in list_source(f"{s3_bucket}/**/*.pdf", s3_settings).objects]
    assert everything == sorted([*expected, f"{s3_bucket}/scans-old/three.pdf"])
    (single,) = list_source(f"{s3_bucket}/scans/one.pdf", s3_settings).objects
    assert single.uri == f"{s3_bucket}/scans/one.pdf"


def test_an_empty_object_alone_is_read_and_a_marker_alone_is_nothing(
    s3_bucket: str, s3_settings: StorageSettings
) -> None:
    bucket = open_store(s3_bucket, s3_settings)
    bucket.put("empty.pdf", b"")
    bucket.put("folder/", b"")
    (single,) = list_source(f"{s3_bucket}/empty.pdf", s3_settings).objects
    assert single.bytes == 0
    for source in (f"{s3_bucket}/folder", f"{s3_bucket}/folder/"):
        with pytest.raises(StorageMissing, match="nothing to read"):
            list_source(source, s3_settings)


def test_a_damaged_table_is_named(s3_bucket: str, s3_settings: StorageSettings) -> None:
    store = open_store(s3_bucket, s3_settings)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"number": list(range(10_000))}), sink)
    data = sink.getvalue().to_pybytes()
    store.put("table", data)
    assert read_table(store, "table", ["number"]).num_rows == 10_000
    for damaged in (b"", data[:-100], data[: len(data) // 2]):
        store.put("table", damaged)
        with pytest.raises(StorageDamaged, match=f"{s3_bucket}/table is damaged"):
            read_table(store, "table")
