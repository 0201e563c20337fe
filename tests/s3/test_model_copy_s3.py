"""A model folder in a bucket: its revision needs no download, its copy is checked against the listing."""

from pathlib import Path

import pytest

from fastocr_core import load
from pipeline import flow
from pipeline.config import resolve
from tests.support.dots_checkpoint import write_dots_checkpoint
from workers.job import vision_of
from workers.model_copy import ModelSource
from workers.object_store import StorageChanged, StorageMissing, StorageSettings, open_store
from workers.storage import StorageError

pytestmark = pytest.mark.s3


def upload(folder: Path, uri: str, settings: StorageSettings) -> None:
    store = open_store(uri, settings)
    for file in folder.iterdir():
        store.put(file.name, file.read_bytes())


def test_copied_once_and_pinned_to_what_was_listed(
    s3_bucket: str, s3_settings: StorageSettings, tmp_path: Path
) -> None:
    write_dots_checkpoint(tmp_path / "model")
    (tmp_path / "model" / "remote.py").write_text("raise SystemExit")
    uri = f"{s3_bucket}/models/dots"
    upload(tmp_path / "model", uri, s3_settings)
    flags = {
        "source": f"{s3_bucket}/scans",
        "target": f"{s3_bucket}/out",
        "model": f"{uri}/",
        "cluster.model_cache": str(tmp_path / "cache"),
        "storage.endpoint_url": s3_settings.endpoint_url,
        "storage.region": s3_settings.region,
        "storage.path_style": True,
    }
    config = flow._with_revision(resolve(flags, environment={}).config)
    source = flow._model_source(config)
    assert (source.model, source.revision) == (uri, source.pinned())
    assert vision_of(source, "tokens-9").max_image_tokens >= 9
    folder = Path(source.local())
    assert folder.name == "dots"
    assert not (folder / "remote.py").exists()
    assert load(str(folder), device="cpu").name == "dots-ocr"
    for file in (tmp_path / "model").glob("*.safetensors"):
        assert (folder / file.name).read_bytes() == file.read_bytes()

    store = open_store(uri, s3_settings)
    store.put("config.json", store.get("config.json") + b" ")
    assert source.local() == str(folder)  # what this node has is still what the run is pinned to
    assert source.pinned() != source.revision
    elsewhere = ModelSource(uri, source.revision, s3_settings, str(tmp_path / "other node"))
    with pytest.raises(StorageChanged, match="changed since the run began"):
        elsewhere.local()


def test_what_is_missing_is_one_sentence(
    s3_bucket: str, s3_settings: StorageSettings, tmp_path: Path
) -> None:
    def source(uri: str) -> ModelSource:
        return ModelSource(uri, None, s3_settings, str(tmp_path))

    with pytest.raises(StorageMissing, match=r"no weights \(\*\.safetensors\) in s3://"):
        source(f"{s3_bucket}/empty").pinned()
    with pytest.raises(StorageError, match="no such bucket"):
        source("s3://not-there-at-all/model").local()
