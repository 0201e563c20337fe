"""The rasterize actor: a shard number comes in, the prepared pages of that shard go out, failures among them.

CPU only. A document is fetched once and stays open for as long as consecutive pages come from it.
"""

import pickle
import platform
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from fastocr_core.vision import ModelVision
from workers.fetch import DocumentFetcher, FetchFailure
from workers.job import ReadJob
from workers.layout import part_key, staged_key
from workers.manifest_reader import ManifestReader
from workers.metrics import MetricsRoller, Worker
from workers.object_store import ObjectStore, open_store
from workers.outcomes import Reason
from workers.prepare import PagePackage, prepare_page
from workers.rasterize import DocumentFailure, PageFailure, Rasterizer
from workers.ray_metrics import ray_metrics
from workers.schema import ManifestPage
from workers.sniff import Format

SHARD_TABLE = pa.schema(
    [
        pa.field("shard_index", pa.int32(), nullable=False),
        pa.field("part_index", pa.int32(), nullable=False),
        pa.field("page", pa.large_binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class WaitingPage:
    """One expected page on its way to the model: prepared, failed before it got there, or (neither) not to be
    read at all.
    """

    expected: ManifestPage
    package: PagePackage | None
    failure: PageFailure | None
    rasterize_seconds: float


class RasterizeShards:
    """Called by Ray Data with tables of shard numbers; one killable child per actor."""

    def __init__(self, job: ReadJob) -> None:
        self._store = open_store(job.target, job.storage)
        self._manifest = ManifestReader(self._store)
        self._pages = PageSource(job)
        self._pages_drawn = 0
        self._busy_seconds = 0.0
        worker = Worker(job.run_id, "rasterize", platform.node(), None, uuid.uuid4().hex[:12])
        exported = ray_metrics(worker)
        export = exported.export if exported is not None else None
        self._metrics = MetricsRoller(self._store, worker, self._sample, export=export)

    def __call__(self, shard_numbers: pa.Table) -> pa.Table:
        """All pages of these shards, pickled, as rows of `SHARD_TABLE`."""
        tables = [self._shard(int(number)) for number in shard_numbers.column("shard_index").to_pylist()]
        self._metrics.roll_soon()
        return pa.concat_tables(tables)

    def _sample(self) -> dict[str, float]:
        return {"pages_drawn": self._pages_drawn, "busy_seconds": self._busy_seconds}

    def _taken(self, expected: ManifestPage) -> WaitingPage:
        page = self._pages.take(expected)
        self._pages_drawn += 1
        self._busy_seconds += page.rasterize_seconds
        return page

    def _shard(self, shard_index: int) -> pa.Table:
        part_index = self._manifest.shards[shard_index].part_index
        if is_done(self._store, shard_index, part_index):
            return shard_table(shard_index, part_index, None)
        expected = self._manifest.shard_pages(shard_index)
        return shard_table(shard_index, part_index, [self._taken(page) for page in expected])


class PageSource:
    """Prepared pages by their manifest rows; keeps the current document open between calls."""

    def __init__(self, job: ReadJob) -> None:
        self._job = job
        self._vision: ModelVision = job.vision
        self._fetcher = DocumentFetcher(job.storage)
        self._rasterizer = Rasterizer(job.raster)
        self._open_document: str | None = None
        self._document_failure: PageFailure | None = None

    def take(self, expected: ManifestPage) -> WaitingPage:
        """Fetch, draw and prepare one page; whatever is wrong with it is part of the answer."""
        if self._job.skips(expected):
            return WaitingPage(expected, None, None, 0.0)
        started = time.monotonic()
        result = self._prepared(expected)
        seconds = time.monotonic() - started
        if isinstance(result, PageFailure):
            return WaitingPage(expected, None, result, seconds)
        return WaitingPage(expected, result, None, seconds)

    def close(self) -> None:
        """End the child."""
        self._rasterizer.close()

    def _prepared(self, expected: ManifestPage) -> PagePackage | PageFailure:
        if self._open_document != expected.document_id:
            self._document_failure = self._open(expected)
            self._open_document = expected.document_id
        if self._document_failure is not None:
            return self._document_failure
        raster = self._rasterizer.page(expected.page_index, self._vision.wanted_dpi)
        if isinstance(raster, PageFailure):
            return raster
        try:
            return prepare_page(raster, self._vision)
        except (ValueError, OSError, MemoryError, ArithmeticError, IndexError) as error:
            return PageFailure(Reason.IMAGE_ERROR, f"preparing failed: {type(error).__name__}: {error}")

    def _open(self, expected: ManifestPage) -> PageFailure | None:
        try:
            data = self._fetcher.fetch(expected.source_uri, expected.source_etag, expected.source_hash)
            self._rasterizer.open(data, Format(expected.format))
        except (FetchFailure, DocumentFailure) as failure:
            return PageFailure(failure.reason, failure.detail)
        return None


def is_done(store: ObjectStore, shard_index: int, part_index: int) -> bool:
    """Whether a shard is staged or published, by whichever driver.

    In this order: a part is published before its staged shards are removed.
    """
    return store.exists(staged_key(shard_index)) or store.exists(part_key(part_index))


def shard_table(shard_index: int, part_index: int, pages: Iterable[WaitingPage] | None) -> pa.Table:
    """Pages as a table that Ray moves from the CPU to the OCR actor; None marks a shard already done."""
    payloads: list[bytes | None] = [None]
    if pages is not None:
        payloads = [pickle.dumps(page, protocol=pickle.HIGHEST_PROTOCOL) for page in pages]
    return pa.table(
        {
            "shard_index": [shard_index] * len(payloads),
            "part_index": [part_index] * len(payloads),
            "page": payloads,
        },
        schema=SHARD_TABLE,
    )


@dataclass(frozen=True, slots=True)
class PackedPage:
    """One page as it lies in Ray's object store: the memory of this process holds it once it is unpacked."""

    payload: pa.Buffer

    def unpacked(self) -> WaitingPage:
        """The page. Its payload comes from our own actor through Ray, never from a document or a storage."""
        page: WaitingPage = pickle.loads(self.payload)
        return page


@dataclass(frozen=True, slots=True)
class WaitingShard:
    """One shard as the OCR actor gets it; `pages` is None if it was done already."""

    shard_index: int
    part_index: int
    pages: tuple[PackedPage, ...] | None


def waiting_shard(table: pa.Table) -> WaitingShard:
    """Inverse of `shard_table`; pages stay where they are until each is unpacked."""
    (shard_index,) = set(table.column("shard_index").to_pylist())
    (part_index,) = set(table.column("part_index").to_pylist())
    payloads = table.column("page")
    pages = None
    if not payloads.null_count:
        pages = tuple(PackedPage(payload.as_buffer()) for payload in payloads)
    return WaitingShard(int(shard_index), int(part_index), pages)
