"""Many passes over ten small files through one rasterize actor and one OCR actor, whose memory must stay level.

The actors are those of a run, called here as Ray calls them, in one process: whatever grows from pass to pass would
grow for as long as a run lasts. `make soak` makes 20 passes, `make test` 8.
"""

import argparse
import asyncio
import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from fastocr_core.config import DecodePolicy
from pipeline.manifest import freeze
from pipeline.planner import ShardLimits
from tests.soak.mutants import sound_documents
from tests.support.run_process import descendants
from tests.support.toy_job import toy_job
from workers.manifest_reader import ManifestReader
from workers.object_store import LocalStore
from workers.rasterize_shard import RasterizeShards
from workers.recognize import RecognizeShards
from workers.survey import SurveyTask, inspected

FILES = 10
MOST_GROWTH_BYTES = 8_000_000


@dataclass(frozen=True, slots=True)
class Level:
    """Resident memory of the actors' process and of the rasterize child after each pass, in bytes."""

    actors: list[int]
    child: list[int]
    pages: int

    @property
    def growth_bytes(self) -> int:
        """How much more the actors hold at the end than in the middle, warm-up apart; the least of three each."""
        middle = len(self.actors) // 2
        return min(self.actors[-3:]) - min(self.actors[middle - 2 : middle + 1])

    @property
    def child_growth_bytes(self) -> int:
        """The same for the child."""
        middle = len(self.child) // 2
        return min(self.child[-3:]) - min(self.child[middle - 2 : middle + 1])


def level(folder: Path, passes: int) -> Level:
    """Read ten files `passes` times over; one shard is one pass."""
    documents = sound_documents()[:FILES]
    for number in range(passes):
        place = folder / "archive" / f"pass-{number:03d}"
        place.mkdir(parents=True)
        for name, data in documents:
            (place / name).write_bytes(data)
    job = toy_job(folder / "target", policy=DecodePolicy.fastocr(), max_batch=4)
    store = LocalStore(job.target)
    listed = sorted(LocalStore(str(folder / "archive")).list(), key=lambda stored: stored.uri)
    survey = inspected(listed, SurveyTask(job.raster, job.vision, job.storage))
    freeze(store, [survey], 1, ShardLimits(pages=survey.pages.num_rows // passes))
    manifest = ManifestReader(store)
    rasterize, recognize = RasterizeShards(job), RecognizeShards(job)
    actors, child = [], []
    try:
        with asyncio.Runner() as runner:  # an actor lives in one loop
            for shard in manifest.shards:
                runner.run(_one_shard(rasterize, recognize, shard.shard_index))
                gc.collect()
                actors.append(_resident_bytes("self"))
                child.append(sum(_resident_bytes(str(pid)) for pid in descendants(os.getpid())))
    finally:
        recognize.close()
    return Level(actors, child, manifest.page_count)


async def _one_shard(rasterize: RasterizeShards, recognize: RecognizeShards, shard_index: int) -> None:
    pages = rasterize(pa.table({"shard_index": [shard_index]}))
    async for done in recognize(pages):
        assert done["read_now"] == [True]


def _resident_bytes(pid: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0  # ended while we looked
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), 0)


def _lines(result: Level) -> Iterator[str]:
    yield f"{len(result.actors)} passes, {result.pages} pages"
    for name, values, growth in (
        ("actors", result.actors, result.growth_bytes),
        ("rasterize child", result.child, result.child_growth_bytes),
    ):
        megabytes = " ".join(f"{value / 1e6:.0f}" for value in values)
        yield f"{name}: {megabytes} MB; grown by {growth / 1e6:.1f} MB in the second half"


def main() -> int:
    """Make the passes; exit code 1 if memory grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passes", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = level(Path(folder), arguments.passes)
    for line in _lines(result):
        print(line)
    return int(max(result.growth_bytes, result.child_growth_bytes) > MOST_GROWTH_BYTES)


if __name__ == "__main__":
    sys.exit(main())
