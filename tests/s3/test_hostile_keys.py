"""Keys that look like paths out of here, on moto, which keeps every key as it is: they are names and nothing more."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import boto3
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto import mock_aws

from tests.support.made_archive import make_pdf
from tests.support.toy_job import toy_job
from workers import s3_client
from workers.model_copy import ModelSource
from workers.object_store import (
    LocalStore,
    StorageError,
    StorageMissing,
    StorageSettings,
    open_store,
)
from workers.rasterize_shard import PageSource
from workers.schema import ManifestDocument, ManifestPage, table_to_rows
from workers.survey import SurveyTask, inspected

pytestmark = pytest.mark.s3

KEYS = [
    "../../up.pdf",
    "in/../../../up.pdf",
    "/etc/absolute.pdf",
    "//double//.pdf",
    "~/home.pdf",
    "$(touch ran).pdf; touch ran `touch ran`",
    "line\nbreak\r.pdf",
    "escape\x1b[2J\x07.pdf",
    "file:///etc/passwd",
    "s3://other/bucket.pdf",
    "%2e%2e%2fencoded.pdf",
    "C:\\windows\\back.pdf",
    "-o ProxyCommand.pdf",
    ".pdf",
    "turned \u202efdp.exe",
]


@pytest.fixture
def moto_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[StorageSettings]:
    """S3 as moto plays it, in this process."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "moto")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "moto")
    monkeypatch.setattr(s3_client, "_clients", {})  # those of other tests are not played
    with mock_aws():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="scans")
        yield StorageSettings(region="us-east-1")


def test_documents_with_hostile_keys_are_read_and_touch_no_file(
    moto_settings: StorageSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_pdf(tmp_path / "made.pdf", 1)
    bucket = open_store("s3://scans", moto_settings)
    for key in KEYS:
        bucket.put(key, (tmp_path / "made.pdf").read_bytes())
    here = tmp_path / "deep" / "er" / "here"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    before = _names(tmp_path)
    job = toy_job(tmp_path / "deep" / "target", storage=moto_settings)
    listed = sorted(bucket.list(), key=lambda stored: stored.uri)
    found = inspected(listed, SurveyTask(job.raster, job.vision, job.storage))
    documents = table_to_rows(found.documents, ManifestDocument)
    assert sorted(document.source_uri for document in documents) == sorted(
        f"s3://scans/{key}" for key in KEYS
    )
    assert {document.reason for document in documents} == {None}
    source = PageSource(job)
    try:
        for page in table_to_rows(found.pages, ManifestPage):
            assert source.take(page).failure is None
    finally:
        source.close()
    assert _names(tmp_path) == before
    assert not os.path.exists("/etc/absolute.pdf")


def test_a_model_in_a_bucket_writes_into_its_own_folder_only(
    moto_settings: StorageSettings, tmp_path: Path
) -> None:
    bucket = open_store("s3://scans", moto_settings)
    for key in (
        "../up.json",
        "../../up.safetensors",
        "sub/../../up.json",
        "/abs.json",
        "config.json",
        "model.safetensors",
    ):
        bucket.put(f"model/{key}", b"{}")
    cache = tmp_path / "a" / "cache"
    folder = ModelSource("s3://scans/model", None, moto_settings, str(cache))._copy(weights=True)
    assert folder.is_relative_to(cache)
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert names == {"config.json", "model.safetensors"}
    outside = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_relative_to(cache)]
    assert outside == []


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(
        st.sampled_from(["..", ".", "", "a", "b c", "\n", "\0", "%2e%2e", "~", "é", "x" * 300]), max_size=5
    )
)
def test_no_key_of_a_folder_leads_out_of_it(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
) -> None:
    key = "/".join(parts)
    outer = tmp_path_factory.mktemp("outer")
    store = LocalStore(str(outer / "root"))
    try:
        placed = store.put_if_absent(key, b"data")
        assert store.get(key) == b"data"
        assert placed
    except StorageError:
        pass
    files = [path for path in outer.rglob("*") if path.is_file()]
    assert all(path.is_relative_to(outer / "root") for path in files)
    with pytest.raises(StorageError):
        store.get(f"../{key}")


def test_an_archived_object_is_denied_in_words(moto_settings: StorageSettings) -> None:
    client = boto3.client("s3", region_name="us-east-1")
    client.put_object(Bucket="scans", Key="cold.pdf", Body=b"%PDF", StorageClass="GLACIER")
    with pytest.raises(StorageError, match="restore it"):
        open_store("s3://scans", moto_settings).get("cold.pdf")
    with pytest.raises(StorageMissing):
        open_store("s3://scans", replace(moto_settings, requester_pays=True)).get("nothing.pdf")


def _names(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}
