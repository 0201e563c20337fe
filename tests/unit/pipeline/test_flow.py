"""What happens before and after reading: a slip spoils no target, and a complete one is left in order."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline import flow
from pipeline.claim import claim_target
from pipeline.config import ClusterSettings, ConfigError, RunConfig, resolve
from pipeline.flow import execute, finish
from pipeline.planner import ShardLimits
from pipeline.progress import Observer
from tests.unit.pipeline.factory import frozen_manifest, stage, surveyed
from workers.layout import RUN_KEY, SUCCESS_KEY, staged_key
from workers.object_store import LocalStore, StorageMissing


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "scans"
    folder.mkdir()
    (folder / "a.pdf").write_bytes(b"x")
    return folder


def _config(source: Path | str, target: Path, **more: object) -> RunConfig:
    flags = {"source": str(source), "target": str(target), "model": "tiny", **more}
    return resolve(flags, environment={}).config


def _observer() -> tuple[Observer, io.StringIO]:
    said = io.StringIO()
    return Observer(said), said


def _complete(config: RunConfig) -> LocalStore:
    """A target whose only document is read, as a run leaves it."""
    store = LocalStore(config.target)
    claim_target(store, flow._with_revision(config))
    manifest = frozen_manifest(store, [surveyed(f"{config.source}/a.pdf", 2)], ShardLimits())
    for shard in manifest.shards:
        stage(store, manifest, shard.shard_index)
    finish(store, _observer()[0])
    return store


def test_a_mistyped_source_does_not_claim_the_target(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(StorageMissing):
        execute(_config(f"{source}s", target), _observer()[0])
    with pytest.raises(StorageMissing):
        execute(_config(f"{source}/*.tif", target), _observer()[0])
    assert not LocalStore(str(target)).exists(RUN_KEY)
    claim_target(LocalStore(str(target)), _config(source, target))


def test_a_prompt_for_a_model_that_takes_none_is_refused_before_the_target_is_claimed(
    source: Path, tmp_path: Path
) -> None:
    for model in ("tiny", "mini"):
        config = _config(source, tmp_path / "out", model=model, prompt="Read this.")
        with pytest.raises(ConfigError, match="takes no prompt"):
            execute(config, _observer()[0])
    assert not (tmp_path / "out").exists()


def test_a_complete_target_is_cleared_of_late_work_and_newcomers_are_reported(
    source: Path, tmp_path: Path
) -> None:
    config = _config(source, tmp_path / "out")
    store = _complete(config)
    store.put(staged_key(7), b"a driver that woke up late")
    (source / "b.pdf").write_bytes(b"y")
    observer, said = _observer()
    execute(config, observer)
    assert "The target is complete" in said.getvalue()
    assert f"1 objects appeared since the survey, the first is {source}/b.pdf" in said.getvalue()
    assert not Path(store.root, "_work").exists()
    assert store.exists(SUCCESS_KEY)


def test_a_complete_target_needs_its_source_no_more(source: Path, tmp_path: Path) -> None:
    config = _config(source, tmp_path / "out")
    _complete(config)
    (source / "a.pdf").unlink()
    observer, said = _observer()
    execute(config, observer)
    assert "cannot be told: There is nothing to read" in said.getvalue()


def test_links_and_pipes_are_mentioned_when_reading_begins(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "gone.pdf").symlink_to(source / "nowhere.pdf")

    @contextmanager
    def no_ray(settings: ClusterSettings) -> Iterator[None]:
        raise RuntimeError("far enough")
        yield

    monkeypatch.setattr(flow, "ray_session", no_ray)
    observer, said = _observer()
    with pytest.raises(RuntimeError, match="far enough"):
        execute(_config(source, tmp_path / "out"), observer)
    assert f"Left out: 1 links or special files that are no documents, the first is {source}/gone.pdf" in (
        said.getvalue()
    )
    assert "1 objects found" in said.getvalue()
