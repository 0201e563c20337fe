"""The OCR actor: prepared pages of a shard come in, its rows are staged, an acknowledgement goes out.

Several shards are in flight at once and all their pages share one engine, so that a slow page never idles the
batch. A shard is staged as soon as its last page is read, under a fixed name, and never read again after
that, nor after its part was published.
"""

import asyncio
import os
import platform
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from fastocr_core.confidence import thresholds
from workers.assemble import PageCost, Reader, assemble, duplicate_page_row, failed_page_row
from workers.gpu_probe import gpu_probe
from workers.job import ReadJob
from workers.layout import attempt_key, staged_key
from workers.metrics import MetricsRoller, Worker
from workers.object_store import open_store
from workers.outcomes import Outcome, Reason
from workers.page_queue import PageQueue
from workers.page_reader import PageReader
from workers.rasterize import PageFailure
from workers.rasterize_shard import PackedPage, WaitingShard, is_done, waiting_shard
from workers.ray_metrics import ray_metrics
from workers.reading_totals import ReadingTotals, page_measures
from workers.schema import PageRow, rows_to_table, table_to_parquet
from workers.self_test import check_reader

if TYPE_CHECKING:
    from fastocr_core.models.base import ModelAdapter


@dataclass(frozen=True, slots=True)
class ShardDone:
    """What the driver learns of a finished shard; small, since texts go to storage and not through Ray.

    `busy_seconds` and `alive_seconds` are running totals of the actor, for the busy share.
    """

    shard_index: int
    pages: int
    pages_failed: int
    pages_flagged: int
    pages_blank: int
    pages_repaired: int
    pages_duplicate: int
    image_tokens: int
    output_tokens: int
    read_now: bool
    actor: str
    busy_seconds: float
    alive_seconds: float


class RecognizeShards:
    """Called by Ray Data, several calls at a time, each with the pages of one shard."""

    def __init__(self, job: ReadJob) -> None:
        os.environ["OMP_NUM_THREADS"] = str(job.threads)  # before torch is imported, which reads it once
        self._job = job
        self._store = open_store(job.target, job.storage)
        place = job.model_source.local()
        model = self.load(job, place)
        self._pages = PageReader(model, job.policy, job.max_batch, job.engine, job.prompt, thresholds(place))
        engine = self._pages.engine
        self._queue = PageQueue(
            job.max_batch + job.engine.pages_ahead, lambda: engine.slots, engine.filled_seconds
        )
        if job.self_test and model.makes_sense:
            check_reader(self._pages.engine)
        self._actor = uuid.uuid4().hex[:12]
        self._started = time.monotonic()
        gpu_id = _gpu_id()
        self._reader = _reader(job, model, gpu_id, self._actor)
        self._totals = ReadingTotals()
        self._gpu = gpu_probe(gpu_id)
        worker = Worker(job.run_id, "read", platform.node(), gpu_id, self._actor)
        self._exported = ray_metrics(worker)
        export = self._exported.export if self._exported is not None else None
        self._metrics = MetricsRoller(self._store, worker, self._sample, export=export)
        self._in_flight = 0

    def load(self, job: ReadJob, place: str) -> "ModelAdapter":
        """The model of the run from its place on this node."""
        return _loaded(job, place)

    async def __call__(self, table: pa.Table) -> AsyncIterator[dict[str, list[object]]]:
        """Read and stage one shard, then yield one `ShardDone` as a row."""
        self._in_flight += 1
        try:
            done = await self._read_shard(table)
        finally:
            self._in_flight -= 1
        if not self._in_flight:
            await asyncio.to_thread(self._metrics.roll)  # nothing to do for now, perhaps for good
        yield {name: [value] for name, value in asdict(done).items()}

    def close(self) -> None:
        """Write the last measurements and end the engines' threads."""
        self._metrics.close()
        self._pages.close()

    async def _read_shard(self, table: pa.Table) -> ShardDone:
        shard = waiting_shard(table)
        shard_index = shard.shard_index
        if shard.pages is None or await self._is_done(shard):
            return self._done(shard_index, [], read_now=False)
        note = attempt_key(shard_index, uuid.uuid4().hex[:12])
        await asyncio.to_thread(self._store.put, note, b"")
        rows = await asyncio.gather(*(self._read_page(page) for page in shard.pages))
        data = await asyncio.to_thread(lambda: table_to_parquet(rows_to_table(rows)))
        if not await self._is_done(
            shard
        ):  # what is published must not be staged again: nobody would fetch it
            await asyncio.to_thread(self._store.put_if_absent, staged_key(shard_index), data)
        self._count(rows)
        return self._done(shard_index, rows, read_now=True)

    async def _is_done(self, shard: WaitingShard) -> bool:
        """Whether another driver read this shard while it waited here, perhaps long ago."""
        return await asyncio.to_thread(is_done, self._store, shard.shard_index, shard.part_index)

    async def _read_page(self, packed: PackedPage) -> PageRow:
        async with self._queue.place() as leave:
            return await self._unpacked_and_read(packed, leave)

    async def _unpacked_and_read(self, packed: PackedPage, leave: Callable[[], None]) -> PageRow:
        page = packed.unpacked()
        if self._job.skips(page.expected):
            return duplicate_page_row(page.expected, self._reader)
        cost = PageCost(rasterize_seconds=page.rasterize_seconds)
        if page.package is None:
            failure = page.failure or PageFailure(Reason.RENDER_ERROR, "no image was made of this page")
            return failed_page_row(page.expected, failure.reason, failure.detail, self._reader, cost)
        if page.package.is_blank_for_sure:
            return assemble(page.expected, page.package, None, None, self._reader, cost)
        reading = await self._pages.read(page.package, leave)
        return assemble(
            page.expected,
            reading.package,
            reading.page_text,
            reading.assessment,
            self._reader,
            cost,
            reading.passes,
        )

    def _count(self, rows: Sequence[PageRow]) -> None:
        self._totals.add(rows)
        if self._exported is not None:
            for row in rows:
                self._exported.observe(page_measures(row))

    def _sample(self) -> dict[str, float]:
        engine, backlog = self._pages.engine, self._queue.backlog()
        fill = backlog.slot_fill
        return {
            **self._totals.sample(),
            **(self._gpu.sample() if self._gpu is not None else {}),
            "busy_seconds": self._pages.busy_seconds,
            "decode_steps": engine.steps,
            "backlog_seconds": backlog.seconds,
            "backlog_filled_seconds": backlog.filled_seconds,
            **({"slot_fill": fill} if fill is not None else {}),
            "out_of_memory": self._pages.out_of_memory,
            "pages_restarted": self._pages.pages_restarted,
            "kv_bytes": engine.kv_bytes(),
        }

    def _done(self, shard_index: int, rows: Sequence[PageRow], *, read_now: bool) -> ShardDone:
        return ShardDone(
            shard_index=shard_index,
            pages=len(rows),
            pages_failed=sum(row.outcome == Outcome.FAILED for row in rows),
            pages_flagged=sum(row.outcome == Outcome.FLAGGED for row in rows),
            pages_blank=sum(row.outcome == Outcome.OK_BLANK for row in rows),
            pages_repaired=sum(row.outcome == Outcome.OK_REPAIRED for row in rows),
            pages_duplicate=sum(row.outcome == Outcome.DUPLICATE for row in rows),
            image_tokens=sum(row.image_tokens or 0 for row in rows),
            output_tokens=sum(row.output_tokens or 0 for row in rows),
            read_now=read_now,
            actor=self._actor,
            busy_seconds=self._pages.busy_seconds,
            alive_seconds=time.monotonic() - self._started,
        )


def _loaded(job: ReadJob, place: str) -> "ModelAdapter":
    """The model of the run from its place on this node."""
    from fastocr_core import load

    model = load(place, revision=job.model_source.loaded_revision, mode=job.mode)
    model.revision = job.model_revision or model.revision  # for a copy the one that the run is pinned to
    return model


def _gpu_id() -> str | None:
    """The device Ray gave this actor, if any."""
    import ray

    devices = ray.get_gpu_ids() if ray.is_initialized() else []
    return str(devices[0]) if devices else None


def _reader(job: ReadJob, model: "ModelAdapter", gpu_id: str | None, actor: str) -> Reader:
    return Reader(
        run_id=job.run_id,
        model=job.model,
        model_revision=model.revision,
        prompt=job.prompt,
        policy=job.policy.name,
        kept_share=job.policy.kept_share,
        node=platform.node(),
        gpu_id=gpu_id,
        actor=actor,
    )
