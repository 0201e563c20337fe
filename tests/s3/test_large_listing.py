"""Listings of thousands of objects and odd keys, on moto (which keeps every key as it is) and on the real server."""

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest
from moto import mock_aws
from PIL import Image

from fastocr_core.vision import model_vision
from pipeline.listing import freeze_listing, listed_batches
from pipeline.source import list_source
from workers import s3_client
from workers.object_store import ObjectStore, StorageSettings, open_store
from workers.rasterize import RasterLimits
from workers.survey import SurveyTask, inspected

pytestmark = pytest.mark.s3
OBJECTS = 2_500
ODD_KEYS = [
    "a b.pdf", "a+b.pdf", "a%20b.pdf", "a%2Bb.pdf", "a#b.pdf", "a?b&c=d.pdf", "ü/日本 語.pdf", "e\u0301.pdf", "\u00e9.pdf",
    "x/same name.pdf", "y/same name.pdf", "x//double.pdf", "./dot.pdf", "../up.pdf", "tail ", " lead", "quote'\"<&>.pdf",
    "back\\slash.pdf", "star*[1].pdf", "🙂.pdf", "a", "a/b", "a-b", "tab\there.pdf", "ends/with/slash/",
]  # fmt: skip


@pytest.fixture
def moto_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[StorageSettings]:
    """S3 as moto plays it, in this process."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setattr(s3_client, "_clients", {})  # those of other tests are not played
    with mock_aws():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="scans")
        yield StorageSettings(region="us-east-1")


def _picture(number: int) -> bytes:
    sink = io.BytesIO()
    Image.new("L", (20 + number, 20), 200).save(sink, "PNG")
    return sink.getvalue()


def test_odd_keys_are_listed_frozen_and_opened_as_they_are(moto_settings: StorageSettings) -> None:
    bucket = open_store("s3://scans", moto_settings)
    pictures = {f"s3://scans/in/{key}": _picture(number) for number, key in enumerate(ODD_KEYS)}
    for key in ODD_KEYS:
        bucket.put(f"in/{key}", pictures[f"s3://scans/in/{key}"])
    listing = list_source("s3://scans/in", moto_settings)
    assert [stored.uri for stored in listing.objects] == sorted(pictures)
    target = open_store("s3://scans/out", moto_settings)
    frozen = freeze_listing(target, listing.objects)
    (batch,) = listed_batches(target, frozen)
    assert [stored.uri for stored in batch.objects] == sorted(pictures)
    task = SurveyTask(RasterLimits(), model_vision("tiny"), moto_settings)
    found = inspected(batch.objects, task)
    rows = found.documents.to_pylist()
    assert {row["source_uri"]: row["bytes"] for row in rows} == {
        uri: len(data) for uri, data in pictures.items()
    }
    assert {row["reason"] for row in rows} == {None}
    assert len({row["content_hash"] for row in rows}) == len(ODD_KEYS)
    assert found.pages.column("source_uri").to_pylist() == sorted(pictures)


def test_odd_keys_named_by_a_list_in_the_bucket(moto_settings: StorageSettings) -> None:
    bucket = open_store("s3://scans", moto_settings)
    keys = [key for key in ODD_KEYS if "\n" not in key]
    for number, key in enumerate(keys):
        bucket.put(key, _picture(number))
    bucket.put("lists/all.txt", "\n".join(keys).encode())
    listing = list_source("s3://scans/lists/all.txt", moto_settings)
    assert [stored.uri for stored in listing.objects] == sorted(f"s3://scans/{key}" for key in keys)
    task = SurveyTask(RasterLimits(), model_vision("tiny"), moto_settings)
    rows = inspected(listing.objects, task).documents.to_pylist()
    assert [row["reason"] for row in rows] == [None] * len(keys)


def _fill(store: ObjectStore) -> list[str]:
    keys = [f"folder {number % 7}/{number:05d} +%41.pdf" for number in range(OBJECTS)]
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda key: store.put(key, b"x"), keys):
            pass
    return sorted(keys)


def test_every_one_of_2500_objects_is_listed_once_by_moto(moto_settings: StorageSettings) -> None:
    _listed_once("s3://scans", moto_settings)


@pytest.mark.slow
def test_every_one_of_2500_objects_is_listed_once_by_a_server(
    s3_bucket: str, s3_settings: StorageSettings
) -> None:
    _listed_once(s3_bucket, s3_settings)


def _listed_once(bucket: str, settings: StorageSettings) -> None:
    keys = _fill(open_store(f"{bucket}/scans", settings))
    heard: list[int] = []
    listing = list_source(f"{bucket}/scans", settings, heard.append)
    assert [stored.key for stored in listing.objects] == keys
    assert (listing.objects.repeated, heard) == (0, [1000, 2000])
    part = list_source(f"{bucket}/scans/folder 3/*.pdf", settings)
    assert [stored.key for stored in part.objects] == [
        key.removeprefix("folder 3/") for key in keys if key[7] == "3"
    ]
