"""Shards on their way through the actors: what another driver has finished is not read again."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from tests.support.toy_job import toy_job
from tests.unit.pipeline.factory import manifest_page
from workers.fetch import FetchFailure, fetch
from workers.ids import content_hash
from workers.layout import ATTEMPTS_FOLDER, part_key, staged_key
from workers.object_store import ObjectStore, open_store
from workers.outcomes import Reason
from workers.rasterize import PageFailure
from workers.rasterize_shard import PageSource, WaitingPage, shard_table, waiting_shard
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
    actor = RecognizeShards(toy_job(store.root, max_batch=2))
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


@pytest.mark.parametrize("with_hash", [True, False])
def test_a_file_that_was_touched_is_the_same_document_and_one_that_was_written_is_not(
    with_hash: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(b"the same bytes")
    (listed,) = open_store(str(tmp_path), StorageSettings()).list()
    expected = content_hash(b"the same bytes") if with_hash else None
    assert fetch(listed.uri, listed.etag, StorageSettings(), expected) == b"the same bytes"
    os.utime(path, (1, 1))
    if with_hash:
        assert fetch(listed.uri, listed.etag, StorageSettings(), expected) == b"the same bytes"
    path.write_bytes(b"other bytes...")
    os.utime(path, (1, 1))
    with pytest.raises(FetchFailure) as caught:
        fetch(listed.uri, listed.etag, StorageSettings(), expected)
    assert caught.value.reason is Reason.CHANGED_DURING_RUN


def test_pages_of_a_touched_file_are_drawn_and_of_a_changed_one_fail(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.new("L", (300, 400), 255).save(path)
    page = replace(
        manifest_page(str(path), 0, 1),
        source_etag="of another time",
        source_hash=content_hash(path.read_bytes()),
        format="png",
    )
    source = PageSource(toy_job(tmp_path, max_batch=2))
    try:
        assert source.take(page).package is not None
        changed = source.take(replace(page, document_id="another", source_hash=content_hash(b"")))
        assert changed.failure is not None
        assert changed.failure.reason is Reason.CHANGED_DURING_RUN
    finally:
        source.close()


def test_a_shard_survives_the_way_between_the_actors() -> None:
    shard = waiting_shard(shard_table(3, 2, PAGES))
    assert (shard.shard_index, shard.part_index) == (3, 2)
    assert shard.pages is not None
    assert [page.unpacked() for page in shard.pages] == PAGES
    assert waiting_shard(shard_table(3, 2, None)).pages is None
