"""What the pipeline costs beside reading, and how full it keeps the slots: `python -m pipeline.bench.overhead`.

A whole run (local Ray, rasterize actors, one OCR actor, ledger) over a made archive of scans with the paced
reader (`fastocr_core.bench.paced_model`), then the same prepared pages through the engine alone, in one process.
Both read at the same pace, so their ratio is what the pipeline adds. Prints a table and one JSON line last.
"""

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageDraw

from fastocr_core.bench.rhythm import Rhythm
from pipeline.bench.paced_shards import paced_shards
from pipeline.bench.stays import COLUMNS, mean_fill, stays_of
from pipeline.config import RunConfig, resolve
from pipeline.flow import execute
from pipeline.progress import Observer
from pipeline.report_metrics import READ, measured_run
from pipeline.stored import numbers_below, read_table
from workers.job import ReadJob
from workers.layout import PAGES_FOLDER, part_key
from workers.manifest_reader import ManifestReader
from workers.object_store import open_store
from workers.rasterize_shard import PageSource

if TYPE_CHECKING:
    from fastocr_core.vision import PreparedPage

SHEET = (1240, 1754)  # A4 at 150 dpi
SHEET_DPI = 150.0
LINES = 30


@dataclass(frozen=True, slots=True)
class Overhead:
    """One run beside the reader alone. `reading_seconds` is from the first page taken to the last page read,
    `alone_seconds` the same without a pipeline, `whole_seconds` from the command to its end.

    `slot_fill` is the actors' own measure, over the time in which they had more pages at hand than slots;
    `slot_fill_to_last` counts from the rows of the pages, until the last page of the run got its slot.
    """

    pages: int
    slow_pages: int
    shards: int
    slots: int
    slot_fill: float
    slot_fill_to_last: float
    busy_share: float
    reading_seconds: float
    alone_seconds: float
    whole_seconds: float
    before_seconds: float
    after_seconds: float

    @property
    def overhead(self) -> float:
        """Share of the reading time that the pipeline costs."""
        return 1.0 - self.alone_seconds / self.reading_seconds

    @property
    def overhead_whole(self) -> float:
        """The same with start-up (Ray, survey, loading, the first shard) and closing."""
        return 1.0 - self.alone_seconds / self.whole_seconds


def make_scans(folder: Path, documents: int, pages: int, seed: int = 0) -> None:
    """`documents` PDFs with `pages` scans in all: an A4 sheet at 150 dpi as JPEG on each page, no two alike."""
    words = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(documents):
        count = pages * (number + 1) // documents - pages * number // documents
        sheets = [_sheet(words) for _ in range(count)]
        if sheets:
            name = folder / f"book-{number:03d}.pdf"
            sheets[0].save(name, save_all=True, append_images=sheets[1:], resolution=SHEET_DPI)


def _sheet(words: random.Random) -> Image.Image:
    image = Image.new("L", SHEET, 255)
    draw = ImageDraw.Draw(image)
    for line in range(LINES):
        text = " ".join("".join(words.choices("etaoinshrdlu", k=words.randint(2, 9))) for _ in range(9))
        draw.text((120, 120 + 50 * line), text, fill=20, font_size=24)
    return image


def measure(folder: Path, flags: dict[str, Any], documents: int, pages: int, rhythm: Rhythm) -> Overhead:
    """Make an archive below `folder`, run over it, then read it alone."""
    source, target = folder / "scans", folder / "out"
    make_scans(source, documents, pages)
    places = {"source": str(source), "target": str(target), "model": "tiny", "decode.name": "dense"}
    config = resolve({**places, **flags}, environment={}).config
    began = time.time()
    execute(config, Observer(), paced_shards(rhythm))
    ended = time.time()
    return _compared(config, began, ended, rhythm)


def _compared(config: RunConfig, began: float, ended: float, rhythm: Rhythm) -> Overhead:
    store = open_store(config.target, config.storage)
    parts = sorted(numbers_below(store, PAGES_FOLDER, part_key))
    rows = [row for part in parts for row in read_table(store, part_key(part), COLUMNS).to_pylist()]
    stays = stays_of(rows)
    first, last = min(stay.taken for stay in stays), max(stay.left for stay in stays)
    last_taken = max(stay.taken for stay in stays)
    (actor,) = measured_run(store).of_stage(READ)
    counters = actor.counters
    prepared = list(_prepared(config))
    slots = config.cluster.max_batch
    return Overhead(
        pages=len(stays),
        slow_pages=sum(map(rhythm.is_slow, prepared)),
        shards=len(ManifestReader(store).shards),
        slots=slots,
        slot_fill=counters["backlog_filled_seconds"] / max(1e-9, counters["backlog_seconds"]),
        slot_fill_to_last=mean_fill(stays, slots, last_taken),
        busy_share=counters["busy_seconds"] / (last - first),
        reading_seconds=last - first,
        alone_seconds=_alone(config, prepared, rhythm),
        whole_seconds=ended - began,
        before_seconds=first - began,
        after_seconds=ended - last,
    )


def _prepared(config: RunConfig) -> "Iterator[PreparedPage]":
    """The pages of the run in its order, prepared as its rasterize actors did."""
    manifest = ManifestReader(open_store(config.target, config.storage))
    source = PageSource(_job(config))
    try:
        for shard in manifest.shards:
            for expected in manifest.shard_pages(shard.shard_index):
                package = source.take(expected).package
                if package is not None:
                    yield package.prepared
    finally:
        source.close()


def _job(config: RunConfig) -> ReadJob:
    return ReadJob(
        run_id="alone",
        target=config.target,
        model=config.model,
        model_revision=None,
        mode=config.mode,
        prompt=None,
        policy=config.decode,
        engine=config.engine,
        raster=config.raster,
        storage=config.storage,
        max_batch=config.cluster.max_batch,
        threads=1,
    )


def _alone(config: RunConfig, pages: "Sequence[PreparedPage]", rhythm: Rhythm) -> float:
    """Seconds that the reader needs for these pages with nothing around it. All are in its queue from the start:
    `Engine.read` gives results in order and so would wait for a slow page with slots empty.
    """
    from fastocr_core import Engine
    from fastocr_core.bench.paced_model import PacedAdapter

    with Engine(PacedAdapter(rhythm), config.decode, config.cluster.max_batch, config.engine) as engine:
        began = time.monotonic()
        results = [future.result() for future in [engine.submit(page) for page in pages]]
        seconds = time.monotonic() - began
    errors = [result.error for result in results if result.error]
    if errors:
        raise RuntimeError(f"a page failed: {errors[0]}")
    return seconds


def table(found: Overhead) -> Iterator[str]:
    """What people read."""
    yield (
        f"{found.pages} pages, {found.slow_pages} of them slow, in {found.shards} shards; "
        f"{found.slots} slots of one OCR actor"
    )
    yield f"slots filled while pages wait, by the actor's metrics   {found.slot_fill:7.1%}"
    yield f"slots filled until the last page got its own, by rows   {found.slot_fill_to_last:7.1%}"
    yield f"reader busy between first and last page                 {found.busy_share:7.1%}"
    yield f"reading, first page taken to last page read             {found.reading_seconds:7.1f} s"
    yield f"the same pages by the reader alone                      {found.alone_seconds:7.1f} s"
    yield f"pipeline overhead while reading                         {found.overhead:7.1%}"
    yield f"before the first page: Ray, survey, loading, drawing    {found.before_seconds:7.1f} s"
    yield f"after the last page: staging, publishing, ledger, Ray   {found.after_seconds:7.1f} s"
    yield f"overhead with both                                      {found.overhead_whole:7.1%}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.bench.overhead", description=__doc__)
    parser.add_argument("--pages", type=int, default=128)
    parser.add_argument("--documents", type=int, default=8)
    parser.add_argument("--slots", type=int, default=8, help="pages decoded at once")
    parser.add_argument("--shard-pages", type=int, help="most pages of a shard; default: as in any run")
    parser.add_argument("--shards-in-flight", type=int, help="default: as in any run")
    parser.add_argument("--step-milliseconds", type=float, default=1000 * Rhythm().step_seconds)
    parser.add_argument("--cpus", type=int, default=2, help="CPUs of the local Ray")
    chosen = parser.parse_args(arguments)
    # Both readers shall compute on one thread, and have the same claim to a machine that does other things too:
    # Ray's workers would give way to everything. Both are read once, torch and Ray being imported later.
    os.environ.update(OMP_NUM_THREADS="1", RAY_worker_niceness="0")
    rhythm = Rhythm(step_seconds=chosen.step_milliseconds / 1000)
    flags = {
        "cluster.max_batch": chosen.slots,
        "cluster.shards_in_flight": chosen.shards_in_flight,
        "cluster.local_cpus": chosen.cpus,
        "cluster.ocr_threads": 1,
        "cluster.ocr_actors": 1,
        "shards.pages": chosen.shard_pages,
    }
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), flags, chosen.documents, chosen.pages, rhythm)
    for line in table(found):
        print(line)
    facts = {**asdict(found), "overhead": found.overhead, "overhead_whole": found.overhead_whole}
    print(json.dumps({name: round(value, 4) for name, value in facts.items()}))


if __name__ == "__main__":
    main()
