"""Shards on their way through the actors: what another driver has finished is not read again."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastocr_core.config import DecodePolicy, EngineLimits
from tests.unit.pipeline.factory import manifest_page
from workers.job import ReadJob
from workers.layout import ATTEMPTS_FOLDER, part_key, staged_key
from workers.object_store import ObjectStore, open_store
from workers.outcomes import Reason
from workers.rasterize import PageFailure, RasterLimits
from workers.rasterize_shard import WaitingPage, shard_table, waiting_shard
from workers.recognize import RecognizeShards, ShardDone
from workers.storage import StorageSettings

PAGES = [
    WaitingPage(manifest_page("d", index, 2), None, PageFailure(Reason.CORRUPT, "cycle"), 0.0)
    for index in range(2)
]


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path / "target"), StorageSettings())


@pytest.fixture
def actor(store: ObjectStore) -> Iterator[RecognizeShards]:
    job = ReadJob(
        run_id="run",
        target=store.root,
        model="tiny",
        model_revision=None,
        mode="auto",
        prompt=None,
        policy=DecodePolicy.dense(),
        engine=EngineLimits(),
        raster=RasterLimits(),
        storage=StorageSettings(),
        max_batch=2,
        threads=1,
    )
    actor = RecognizeShards(job)
    yield actor
    actor.close()


def _read(actor: RecognizeShards, shard_index: int, part_index: int) -> ShardDone:
    async def run() -> ShardDone:
        (row,) = [row async for row in actor(shard_table(shard_index, part_index, PAGES))]
        return ShardDone(**{name: values[0] for name, values in row.items()})  # type: ignore[arg-type]

    return asyncio.run(run())


def test_a_shard_is_read_and_staged_once(actor: RecognizeShards, store: ObjectStore) -> None:
    first, second = _read(actor, 4, 1), _read(actor, 4, 1)
    assert (first.read_now, first.pages, first.pages_failed) == (True, 2, 2)
    assert (second.read_now, second.pages) == (False, 0)
    assert store.exists(staged_key(4))
    assert len(list(store.list(ATTEMPTS_FOLDER))) == 1


def test_a_shard_whose_part_is_published_is_not_read_again(
    actor: RecognizeShards, store: ObjectStore
) -> None:
    store.put(part_key(1), b"published by a driver that was faster")
    assert not _read(actor, 4, 1).read_now
    assert not store.exists(staged_key(4))
    assert not list(store.list(ATTEMPTS_FOLDER))
    assert _read(actor, 9, 2).read_now


def test_a_shard_whose_part_is_published_meanwhile_leaves_nothing_staged(
    actor: RecognizeShards, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_page = actor._read_page

    async def publish_and_read(page: WaitingPage) -> object:
        store.put(part_key(1), b"published while this shard was being read")
        return await read_page(page)

    monkeypatch.setattr(actor, "_read_page", publish_and_read)
    assert _read(actor, 4, 1).read_now
    assert not store.exists(staged_key(4))


def test_a_shard_survives_the_way_between_the_actors() -> None:
    shard = waiting_shard(shard_table(3, 2, PAGES))
    assert (shard.shard_index, shard.part_index, shard.pages) == (3, 2, tuple(PAGES))
    assert waiting_shard(shard_table(3, 2, None)).pages is None
