"""A model given as an address is copied to a node once, whole or not at all, and only what is no code."""

import asyncio
import io
import json
import multiprocessing
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import parquet

from fastocr_core import DecodePolicy, EngineLimits, load
from fastocr_core.models.revisions import mini_folder, model_revision
from fastocr_core.vision import model_vision
from pipeline import flow
from pipeline.config import ConfigError, config_hash, resolve
from tests.support.dots_checkpoint import write_dots_checkpoint
from tests.support.made_archive import make_pdf
from tests.support.toy_job import toy_job
from tests.unit.pipeline.factory import manifest_page
from workers import model_copy
from workers.job import vision_of
from workers.layout import staged_key
from workers.model_copy import MARK, ModelSource
from workers.object_store import LocalStore
from workers.rasterize_shard import PageSource, shard_table
from workers.recognize import RecognizeShards
from workers.storage import StorageDamaged, StorageDenied, StorageError, StorageMissing, StorageSettings


@pytest.fixture
def original(tmp_path: Path) -> Path:
    folder = tmp_path / "storage" / "dots model"
    write_dots_checkpoint(folder)
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    (folder / "modeling.py").write_text("raise SystemExit('never run')")
    (folder / "pytorch_model.bin").write_bytes(b"never read")
    (folder / "deeper").mkdir()
    (folder / "deeper" / "more.json").write_text("{}")
    return folder


def source_of(folder: Path, cache: Path) -> ModelSource:
    uri = f"file://{str(folder).replace(' ', '%20')}"
    return ModelSource(uri, model_revision(str(folder)), StorageSettings(), str(cache))


def names(folder: str) -> list[str]:
    return sorted(file.name for file in Path(folder).iterdir() if file.name != MARK)


def test_only_weights_and_text_files_are_copied(original: Path, tmp_path: Path) -> None:
    copied = source_of(original, tmp_path / "cache").local()
    assert names(copied) == [
        "chat_template.jinja",
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "preprocessor_config.json",
        "tokenizer.json",
    ]
    for name in names(copied):
        assert Path(copied, name).read_bytes() == (original / name).read_bytes()


def test_the_copy_is_the_same_revision_and_loads(original: Path, tmp_path: Path) -> None:
    source = source_of(original, tmp_path / "cache")
    assert source.pinned() == source.revision == source.loaded_revision
    adapter = load(source.local(), revision=source.revision, device="cpu")
    assert adapter.name == "dots-ocr"
    assert adapter.vision == vision_of(source, "auto") == model_vision(str(original))


def test_how_a_model_sees_is_found_without_its_weights(original: Path, tmp_path: Path) -> None:
    described = source_of(original, tmp_path / "cache").described()
    assert not [name for name in names(described) if name.endswith(".safetensors")]
    assert model_vision(described) == model_vision(str(original))


def test_a_copy_is_used_again_and_made_anew_where_it_lost_a_file(original: Path, tmp_path: Path) -> None:
    source = source_of(original, tmp_path / "cache")
    copied = Path(source.local())
    before = (copied / MARK).stat().st_ino
    assert source.local() == str(copied)
    assert (copied / MARK).stat().st_ino == before
    (copied / "tokenizer.json").unlink()
    assert source.local() == str(copied)
    assert (copied / "tokenizer.json").is_file()
    os.truncate(copied / "model-00001-of-00002.safetensors", 10)
    shutil.rmtree(original)
    with pytest.raises(StorageMissing, match="no folder"):
        source.local()


def test_another_revision_is_another_copy(original: Path, tmp_path: Path) -> None:
    first = source_of(original, tmp_path / "cache")
    held = first.local()
    write_dots_checkpoint(original, seed=1)
    second = source_of(original, tmp_path / "cache")
    assert second.revision != first.revision
    assert second.local() != held
    assert load(held, device="cpu").revision == first.revision


def _copy_in_a_process(source: ModelSource, opened: str) -> None:
    pour = model_copy._pour

    def counted(reader: object, writer: object) -> None:
        with open(opened, "a") as file:
            file.write("x\n")
        pour(reader, writer)  # type: ignore[arg-type]

    model_copy._pour = counted
    source.local()


def test_processes_of_a_node_copy_once(original: Path, tmp_path: Path) -> None:
    source, opened = source_of(original, tmp_path / "cache"), tmp_path / "opened"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_copy_in_a_process, args=(source, str(opened))) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert opened.read_text().count("x") == 7


def test_a_file_that_comes_short_leaves_no_copy(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(original, tmp_path / "cache")
    monkeypatch.setattr(model_copy, "_pour", lambda reader, writer: writer.write(reader.read(100)))
    with pytest.raises(StorageDamaged, match="100 bytes instead of"):
        source.local()
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"] == []
    monkeypatch.undo()
    assert names(source.local())


def test_a_model_that_changes_while_it_is_copied_is_refused(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(original, tmp_path / "cache")
    pour = model_copy._pour

    def disturbed(reader: object, writer: object) -> None:
        pour(reader, writer)  # type: ignore[arg-type]
        (original / "config.json").write_text(json.dumps({"late": True}))

    monkeypatch.setattr(model_copy, "_pour", disturbed)
    with pytest.raises(StorageError, match=r"changed while it was copied|bytes instead of"):
        source.local()


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("file://", "names no folder"),
        ("file://host/model", "names no folder"),
        ("file:///no/such", "no folder|no weights"),
    ],
)
def test_addresses_that_lead_nowhere(uri: str, said: str, tmp_path: Path) -> None:
    with pytest.raises((ValueError, FileNotFoundError, StorageMissing), match=said):
        ModelSource(uri, "1", StorageSettings(), str(tmp_path)).local()


def test_a_folder_of_ours_that_others_may_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_copy.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = model_copy._own_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.raises(StorageDenied, match="model_cache"):
        model_copy._own_folder()


def test_names_and_folders_are_left_alone(original: Path) -> None:
    for model in ("mini", "tiny", str(original), "dots-ocr"):
        source = ModelSource(model, None, StorageSettings())
        assert source.local() == source.described() == model


def test_a_run_is_pinned_to_the_content_and_not_to_the_copy(original: Path, tmp_path: Path) -> None:
    def pinned(cache: str) -> str:
        flags = {
            "source": str(tmp_path),
            "target": str(tmp_path / "out"),
            "model": f"file://{str(original).replace(' ', '%20')}/",
            "cluster.model_cache": str(tmp_path / cache),
            "prompt": "Extract the text content from this image.",
        }
        config = flow._with_revision(resolve(flags, environment={}).config)
        assert not config.model.endswith("/")
        assert config.model_revision == model_revision(str(original))
        return config_hash(config)

    first = pinned("one")
    assert pinned("two") == first
    (original / "generation_config.json").write_text('{"eos_token_id": 256}')
    assert pinned("one") != first


def test_a_run_refuses_a_model_that_is_not_there_and_a_relative_cache(tmp_path: Path) -> None:
    flags = {"source": str(tmp_path), "target": str(tmp_path / "out"), "model": "file:///no/such/model"}
    with pytest.raises((ConfigError, StorageMissing), match="no/such/model"):
        flow._with_revision(resolve(flags, environment={}).config)
    with pytest.raises(ConfigError, match="model_cache must be an absolute path"):
        resolve({**flags, "cluster.model_cache": "cache"}, environment={})


def test_the_embedded_reader_from_an_address(tmp_path: Path) -> None:
    folder = tmp_path / "reader"
    shutil.copytree(mini_folder(), folder)
    source = source_of(folder, tmp_path / "cache")
    assert vision_of(source, "auto") == model_vision("mini")
    assert load(source.local(), revision=source.revision, device="cpu").name == "mini"
    assert LocalStore(str(folder)).exists("config.json")


def test_actors_read_with_a_copied_model_under_the_revision_of_the_run(
    original: Path, tmp_path: Path
) -> None:
    make_pdf(tmp_path / "a.pdf", pages=1)
    source = source_of(original, tmp_path / "cache")
    job = toy_job(
        tmp_path / "out",
        model=source.model,
        model_revision=source.revision,
        mode="tokens-30",
        prompt="Read.",
        policy=DecodePolicy.fastocr(floor=1, warmup_steps=2),
        engine=EngineLimits(max_output_tokens=5),
        model_cache=source.cache,
        self_test=False,  # weights that were never trained read nothing
    )
    expected = manifest_page(str(tmp_path / "a.pdf"), 0, 1)
    status = (tmp_path / "a.pdf").stat()
    expected = replace(expected, source_etag=f"{status.st_mtime_ns:x}-{status.st_size:x}")
    pages = PageSource(job)
    try:
        waiting = pages.take(expected)
    finally:
        pages.close()
    assert waiting.package is not None, waiting.failure
    actor = RecognizeShards(job)

    async def run() -> None:
        async for _ in actor(shard_table(0, 0, [waiting])):
            pass

    try:
        asyncio.run(run())
    finally:
        actor.close()
    staged = LocalStore(job.target).get(staged_key(0))
    (row,) = parquet.read_table(io.BytesIO(staged)).to_pylist()
    assert (row["model"], row["model_revision"], row["prompt"]) == (source.model, source.revision, "Read.")
    assert (row["output_tokens"], row["reason"]) == (5, "token_limit")
    assert 1 <= row["image_tokens"] <= 30
