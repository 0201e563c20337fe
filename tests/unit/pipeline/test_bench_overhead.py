"""The measurement of the pipeline's overhead, with its own run made without Ray and without waiting."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.bench import overhead
from pipeline.bench.stays import Stay, mean_fill, stays_of
from pipeline.claim import claim_target
from pipeline.config import RunConfig
from pipeline.flow import _with_revision, finish
from pipeline.manifest import freeze
from pipeline.progress import Observer
from workers.manifest_reader import ManifestReader
from workers.object_store import LocalStore
from workers.rasterize_shard import RasterizeShards
from workers.recognize import RecognizeShards
from workers.survey import SurveyTask, inspected


def _in_this_process(config: RunConfig, observer: Observer, reader: type[RecognizeShards]) -> None:
    """A run as `execute` makes it, actor calls and all, one shard after the other."""
    store = LocalStore(config.target)
    claim_target(store, _with_revision(config))
    job = overhead._job(config)
    listed = sorted(LocalStore(config.source).list(), key=lambda stored: stored.uri)
    survey = inspected(listed, SurveyTask(job.raster, job.vision, job.storage))
    freeze(store, [survey], 1, config.shards)
    rasterize, recognize = RasterizeShards(job), reader(job)

    async def read(shard_index: int) -> None:
        async for done in recognize(rasterize(pa.table({"shard_index": [shard_index]}))):
            observer.note(f"{done['pages'][0]} pages")

    with asyncio.Runner() as runner:  # an actor lives in one loop
        for shard in ManifestReader(store).shards:
            runner.run(read(shard.shard_index))
    recognize.close()
    rasterize._metrics.close()
    rasterize._pages.close()
    finish(store, observer)


def test_a_run_is_held_against_the_reader_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(overhead, "execute", _in_this_process)
    monkeypatch.setenv("RAY_worker_niceness", "0")  # set by the command, for itself alone
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    overhead.main(
        [
            "--pages",
            "12",
            "--documents",
            "3",
            "--slots",
            "2",
            "--shard-pages",
            "5",
            "--step-milliseconds",
            "0.1",
        ]
    )
    *lines, last = capsys.readouterr().out.splitlines()
    found: dict[str, Any] = json.loads(last)
    assert (found["pages"], found["shards"], found["slots"]) == (12, 4, 2)
    assert 0.3 < found["slot_fill"] <= 1.0
    assert 0.3 < found["slot_fill_to_last"] <= 1.0
    assert 0.0 < found["busy_share"] <= 1.05
    assert found["whole_seconds"] > found["reading_seconds"] > 0 < found["alone_seconds"]
    # one shard after the other: what lies between them is overhead
    assert found["overhead"] < found["overhead_whole"] < 1.0
    assert any("pipeline overhead while reading" in line for line in lines)


def test_times_of_pages_come_from_their_rows() -> None:
    left = datetime(2026, 11, 30, 1, 2, 3, tzinfo=UTC)
    row = {"finished_at": left, "encode_seconds": 2.0, "decode_seconds": 5.0}
    blank = {"finished_at": left, "encode_seconds": None, "decode_seconds": None}
    assert stays_of([row, blank]) == [Stay(left.timestamp() - 7.0, left.timestamp())]


@given(
    stays=st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda pair: Stay(min(pair), max(pair))),
        min_size=1,
    ),
    slots=st.integers(1, 5),
    until=st.integers(0, 25),
)
def test_mean_fill_is_the_mean_over_seconds(stays: list[Stay], slots: int, until: int) -> None:
    begin = int(min(stay.taken for stay in stays))
    held = [sum(stay.taken <= t < stay.left for stay in stays) for t in range(begin, until)]
    expected = sum(min(slots, count) for count in held) / (slots * len(held)) if held else 0.0
    assert mean_fill(stays, slots, until) == pytest.approx(expected)
