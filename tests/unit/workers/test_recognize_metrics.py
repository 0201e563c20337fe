"""What an OCR actor writes down of its memory and its slots: rows of a real actor whose memory runs out once."""

import asyncio
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from PIL import Image, ImageDraw

from fastocr_core.vision import model_vision
from tests.support.toy_job import toy_job
from tests.unit.pipeline.factory import manifest_page
from workers.prepare import prepare_page
from workers.rasterize import RasterPage
from workers.rasterize_shard import WaitingPage, shard_table
from workers.recognize import RecognizeShards

PAGES, SLOTS = 7, 4


def _page(index: int) -> WaitingPage:
    image = Image.new("L", (320, 200), 255)
    ImageDraw.Draw(image).text((20, 20 + 9 * index), f"line {index} of words", fill=0, font_size=30)
    identity = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    raster = RasterPage(image, 320.0, 200.0, 0, 72, 72.0, True, "rendered", (), identity, False)
    return WaitingPage(
        manifest_page("a", index, PAGES), prepare_page(raster, model_vision("tiny")), None, 0.0
    )


@pytest.fixture
def actor(tmp_path: Path) -> RecognizeShards:
    return RecognizeShards(toy_job(tmp_path, max_batch=SLOTS))


def test_memory_that_ran_out_and_slots_that_were_filled_are_rows(
    actor: RecognizeShards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = actor._pages.engine
    attend, ran_out = engine.backend.attend, False

    def once(*arguments: Any) -> Any:
        nonlocal ran_out
        if not ran_out and len(arguments[-1].live) == SLOTS:
            ran_out = True
            raise MemoryError("no memory left")
        return attend(*arguments)

    monkeypatch.setattr(engine.backend, "attend", once)

    async def read() -> None:
        async for done in actor(shard_table(0, 0, [_page(index) for index in range(PAGES)])):
            assert (done["pages"], done["pages_failed"]) == ([PAGES], [0])

    asyncio.run(read())
    actor.close()
    (file,) = tmp_path.glob("metrics/*.parquet")
    rows = pq.read_table(file).to_pylist()
    sums = {
        name: sum(row["value"] for row in rows if row["name"] == name) for name in {r["name"] for r in rows}
    }
    assert ran_out
    assert (sums["out_of_memory"], sums["pages_restarted"], sums["pages"]) == (1, SLOTS, PAGES)
    assert 0 < sums["backlog_filled_seconds"] <= sums["backlog_seconds"]
    fills = [row["value"] for row in rows if row["name"] == "slot_fill"]
    assert fills[-1] == pytest.approx(sums["backlog_filled_seconds"] / sums["backlog_seconds"])
