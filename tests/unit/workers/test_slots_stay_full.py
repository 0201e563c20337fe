"""Slots refill from the next pages and the next shards while slow pages go on: counted in decode steps of the real
actor and the real engine, with no clock but the paced reader's own.

In every step the reader waits until what may be handed in has been handed in, so nothing depends on how fast this
machine is.
"""

import asyncio
import time
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image, ImageDraw

from fastocr_core.bench.paced_model import PacedAdapter
from fastocr_core.bench.rhythm import Rhythm
from fastocr_core.config import EngineLimits
from fastocr_core.slot_clock import SlotClock
from fastocr_core.vision import model_vision, prepare
from fastocr_core.vision.prepared import PreparedPage
from pipeline.cluster import LEAST_SHARDS_IN_FLIGHT, shards_in_flight
from pipeline.config import ClusterSettings
from tests.support.toy_job import toy_job
from tests.unit.pipeline.factory import manifest_page
from workers.job import ReadJob
from workers.prepare import PagePackage, prepare_page
from workers.rasterize import RasterPage
from workers.rasterize_shard import PackedPage, WaitingPage, shard_table
from workers.recognize import RecognizeShards

SLOTS, SHARDS, SHARD_PAGES = 8, 40, 4
PAGES = SHARDS * SHARD_PAGES
RHYTHM = Rhythm(step_seconds=1.0, encode_seconds_per_token=0.0, shortest=6, longest=10, slow_factor=10)
PATIENCE_SECONDS = 120.0


class _Paced(PacedAdapter):
    """Lets time pass by counting it, and looks at the slots in every step."""

    def __init__(self, story: "_Story") -> None:
        super().__init__(RHYTHM, story.wait)
        self._story = story

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        if len(hidden) == SLOTS:
            self._story.look()
        return super().logits(hidden)


class _Story:
    """Hands shards to the actor as Ray does, so many at once, and writes down what each step saw."""

    def __init__(self, folder: Path, in_flight: int) -> None:
        story = self

        class Actor(RecognizeShards):
            def load(self, job: ReadJob, place: str) -> PacedAdapter:
                return _Paced(story)

        self.now = 0.0
        self.filled: list[int] = []  # slots in use, for each step in which pages were queued
        self.most_unpacked = self._unpacked = 0
        self._in_flight = in_flight
        self._read: list[bool] = []  # of the pages in the order of submission
        self.actor = Actor(toy_job(folder, max_batch=SLOTS))
        self.engine = self.actor._pages.engine
        self.engine._slot_clock = SlotClock(lambda: self.now)
        self.actor._queue._now = lambda: self.now
        self._submit = self.engine.submit
        self.engine.submit = self._noted  # type: ignore[method-assign]

    def run(self, tables: list[pa.Table]) -> None:
        asyncio.run(self._hand_over(tables))
        self.actor.close()

    async def _hand_over(self, tables: list[pa.Table]) -> None:
        flights = asyncio.Semaphore(self._in_flight)

        async def one(table: pa.Table) -> None:
            async with flights:
                async for done in self.actor(table):
                    assert done["pages_failed"] == [0]

        await asyncio.gather(*map(one, tables))

    def _noted(self, page: Any, prompt: str | None = None) -> "Future[Any]":
        place = len(self._read)
        self._read.append(False)
        future = self._submit(page, prompt)

        def read(_: object) -> None:
            self._read[place] = True

        future.add_done_callback(read)
        return future

    def wait(self, seconds: float) -> None:
        """In the engine's thread: let others do all they can, then let time pass."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self._read) < self._may_be_submitted():
            assert time.monotonic() < deadline, "pages that may be handed to the engine are not"
            time.sleep(0.0005)
        self.now += seconds

    def look(self) -> None:
        batch = self.engine._batch
        assert batch is not None
        taken = sum(self._read) + batch.held
        if taken < PAGES:
            self.filled.append(len(batch.running))

    def _may_be_submitted(self) -> int:
        """Pages of the shards that may be in flight, as far as there is room for them in memory."""
        read = list(self._read)
        done = sum(
            all(read[first : first + SHARD_PAGES]) and len(read) >= first + SHARD_PAGES
            for first in range(0, PAGES, SHARD_PAGES)
        )
        begun = min(SHARDS, done + self._in_flight)
        return min(begun * SHARD_PAGES, sum(read) + SLOTS + EngineLimits().pages_ahead)

    @property
    def fill(self) -> float:
        return sum(self.filled) / (SLOTS * len(self.filled))


def _package() -> PagePackage:
    image = Image.new("L", (300, 200), 255)
    ImageDraw.Draw(image).text((20, 60), "words of a page", fill=0, font_size=30)
    identity = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    raster = RasterPage(image, 300.0, 200.0, 0, 72, 72.0, True, "rendered", (), identity, False)
    return prepare_page(raster, model_vision("tiny"))


def _noise(seed: int) -> PreparedPage:
    pixels = np.random.default_rng(seed).integers(0, 256, (64, 64), dtype=np.uint8)
    return prepare(Image.fromarray(pixels), model_vision("tiny"))


@pytest.fixture(scope="module")
def tables() -> list[pa.Table]:
    """Shards of few pages, one page in ten slow, spread by chance and the same every time."""
    package, seeds = _package(), iter(range(100 * PAGES))
    assert not package.is_blank_for_sure
    wanted = [place < PAGES // 10 for place in range(PAGES)]
    np.random.default_rng(7).shuffle(wanted)
    pages = []
    for index, slow in enumerate(wanted):
        prepared = next(page for page in map(_noise, seeds) if RHYTHM.is_slow(page) == slow)
        expected = manifest_page("a", index, PAGES)
        pages.append(WaitingPage(expected, replace(package, prepared=prepared), None, 0.0))
    return [
        shard_table(shard, 0, pages[shard * SHARD_PAGES : (shard + 1) * SHARD_PAGES])
        for shard in range(SHARDS)
    ]


def test_slots_stay_full_across_shards_while_slow_pages_go_on(tables: list[pa.Table], tmp_path: Path) -> None:
    in_flight = shards_in_flight(ClusterSettings(max_batch=SLOTS), PAGES, SHARDS)
    story = _Story(tmp_path, in_flight)
    story.run(tables)
    assert len(story.filled) > 150
    assert story.fill >= 0.95, story.fill
    backlog = story.actor._queue.backlog()
    # the actor's own measure, over its own time: while it had more pages than slots
    assert backlog.slot_fill == pytest.approx(story.fill, abs=0.03)
    assert backlog.seconds > 150


def test_too_few_shards_in_flight_would_empty_them(tables: list[pa.Table], tmp_path: Path) -> None:
    story = _Story(tmp_path, LEAST_SHARDS_IN_FLIGHT)
    story.run(tables)
    assert story.fill < 0.85, story.fill


def test_pages_of_shards_in_flight_are_unpacked_only_as_they_are_let_in(
    tables: list[pa.Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked: list[int] = []
    story = _Story(tmp_path, SHARDS)  # all at once
    take = PackedPage.unpacked

    def counted(page: PackedPage) -> WaitingPage:
        unpacked.append(len(unpacked) + 1 - sum(story._read))
        return take(page)

    monkeypatch.setattr(PackedPage, "unpacked", counted)
    story.run(tables)
    assert len(unpacked) == PAGES
    assert max(unpacked) == SLOTS + EngineLimits().pages_ahead
