"""Public bug reports about tools like ours, one test each, named after the report.

Where a report needs a whole cluster or a storage, its large test is elsewhere; here stands its core.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from fastocr_core import DecodePolicy, Engine, EngineLimits, load
from fastocr_core.guards import LoopGuard
from fastocr_core.vision import model_vision
from pipeline.commit import Publisher
from pipeline.planner import ShardLimits
from pipeline.resume import find_progress, remaining_work
from tests.parity.random_model import RandomAdapter, page_of
from tests.support.fault_proxy import Fault, Kind, fault_proxy
from tests.support.s3_server import S3Server
from tests.unit.pipeline.factory import frozen_manifest, stage, surveyed
from tests.unit.workers.test_rows import EXPECTED, PACKAGE, READER
from workers.assemble import assemble, document_row, failed_page_row
from workers.assess import assess
from workers.fetch import fetch
from workers.ids import document_id
from workers.inspect_document import inspect
from workers.object_store import StorageDenied, open_store
from workers.outcomes import Outcome, Reason
from workers.page_reader import PageReader
from workers.prepare import PagePackage, prepare_page
from workers.rasterize import PageFailure, Rasterizer, RasterLimits, RasterPage
from workers.schema import ManifestDocument
from workers.storage import StorageSettings

TEN_FILES = (
    "ocrmypdf_ccitt.pdf", "ocrmypdf_truetype_font_nomapping.pdf", "pdfjs_helloworld-bad.pdf", "pil_g4-multi.tiff",
    "pypdf_r6-owner-password.pdf", "pil_total-pages-zero.tif", "tess_eurotext.tif", "pil_truncated_jpeg.jpg",
    "ocrmypdf_no_contents.pdf", "pdfjs_Pages-tree-refs.pdf",
)  # fmt: skip


def _page(
    rasterizer: Rasterizer, cases_dir: Path, name: str, page_index: int = 0, dpi: int = 150
) -> RasterPage:
    facts = inspect((cases_dir / name).read_bytes(), rasterizer.limits, dpi, rasterizer)
    assert facts.reason is None
    page = rasterizer.page(page_index, dpi)
    assert isinstance(page, RasterPage), page
    return page


def _package(page: RasterPage, model: str = "tiny") -> PagePackage:
    return prepare_page(page, model_vision(model))


def _resident_bytes(rasterizer: Rasterizer) -> int:
    return int(Path(f"/proc/{rasterizer.child_pid}/statm").read_text().split()[1]) * 4096


def test_every_report_of_the_list_has_a_test(cases_dir: Path) -> None:
    named = re.findall(r"\*\*[^*]*#(\d+)\*\*", (cases_dir / "BUGS.md").read_text("utf-8"))
    assert len(named) > 20
    tested = Path(__file__).read_text("utf-8")
    assert [number for number in named if not re.search(rf"def test_\w*_{number}_", tested)] == []


def test_deepseek_ocr_241_memory_does_not_depend_on_the_number_of_pages(cases_dir: Path) -> None:
    with Rasterizer(replace(RasterLimits(), recycle_after_pages=1000)) as fresh:
        _page(fresh, cases_dir, "unstructured_irm_400_pages.pdf", 0, 72)
        peaks = []
        for page_index in range(0, 400, 5):
            assert isinstance(fresh.page(page_index, 72), RasterPage)
            peaks.append(fresh.peak_bytes)
        assert fresh.children_started == 1
        assert peaks[-1] < peaks[19] + 20e6


@pytest.mark.slow
def test_mineru_3796_memory_is_level_over_ten_files_fed_twenty_times(cases_dir: Path) -> None:
    documents = [(cases_dir / name).read_bytes() for name in TEN_FILES]
    with Rasterizer(replace(RasterLimits(), recycle_after_pages=100_000)) as fresh:
        levels = []
        for _ in range(20):
            for data in documents:
                assert inspect(data, fresh.limits, 50, fresh).reason is None
                fresh.page(0, 50)
            levels.append(_resident_bytes(fresh))
        assert fresh.children_started == 1
        assert levels[-1] < max(levels[4:8]) + 10e6


def test_mineru_2371_one_unreadable_file_does_not_end_a_batch(
    cases_dir: Path, rasterizer: Rasterizer
) -> None:
    names = [
        "tess_eurotext.tif",
        "ocrmypdf_invalid.pdf",
        "pdfjs_helloworld-bad.pdf",
        "pdfjs_poppler-67295-0.pdf",
    ]
    names += ["pypdf_r6-owner-password.pdf"]
    found = [inspect((cases_dir / name).read_bytes(), rasterizer.limits, 72, rasterizer) for name in names]
    assert [facts.reason for facts in found] == [None, Reason.CORRUPT, None, Reason.CORRUPT, None]


def test_ocrmypdf_1576_one_bad_page_does_not_lose_the_good_one(
    cases_dir: Path, rasterizer: Rasterizer
) -> None:
    _page(rasterizer, cases_dir, "pdfjs_Pages-tree-refs.pdf")
    failure = rasterizer.page(1, 150)
    assert isinstance(failure, PageFailure)
    row = failed_page_row(EXPECTED, failure.reason, failure.detail, READER)
    assert (row.outcome, row.reason) == (Outcome.FAILED, Reason.CORRUPT)
    document = ManifestDocument("d", "u", "e", 5, "h", "pdf", 2)
    assert document_row(document, {Outcome.OK: 1, Outcome.FAILED: 1}).outcome == "partial"


def test_docling_1920_locked_corrupt_and_empty_are_told_apart(
    cases_dir: Path, rasterizer: Rasterizer
) -> None:
    names = ["pdfjs_print_protection.pdf", "ocrmypdf_invalid.pdf", "made_zero_byte.pdf"]
    reasons = [
        inspect((cases_dir / name).read_bytes(), rasterizer.limits, 72, rasterizer).reason for name in names
    ]
    assert reasons == [Reason.ENCRYPTED, Reason.CORRUPT, Reason.EMPTY_FILE]


def test_courtlistener_1035_two_hundred_empty_files_cost_nothing_and_are_all_named(cases_dir: Path) -> None:
    real = (cases_dir / "pdfjs_helloworld-bad.pdf").read_bytes()
    objects = ([b""] * 10 + [real]) * 20
    with Rasterizer() as fresh:
        reasons = Counter(inspect(data, fresh.limits, 72, fresh).reason for data in objects)
        assert fresh.children_started == 1
    assert reasons == {Reason.EMPTY_FILE: 200, None: 20}


@pytest.mark.parametrize("name", ["olmocr_blank_book_pg1.pdf", "ocrmypdf_no_contents.pdf"])
def test_olmocr_292_a_blank_leaf_gives_a_blank_row_and_is_never_read(
    name: str, cases_dir: Path, rasterizer: Rasterizer
) -> None:
    package = _package(_page(rasterizer, cases_dir, name))
    assert package.is_blank_for_sure
    row = assemble(EXPECTED, package, None, None, READER)
    assert (row.outcome, row.text, row.output_tokens) == (Outcome.OK_BLANK, "", None)


@pytest.mark.parametrize("page_index", range(3))
def test_ocrmypdf_12_a_page_with_one_small_word_is_not_blank(
    page_index: int, cases_dir: Path, rasterizer: Rasterizer
) -> None:
    page = _page(rasterizer, cases_dir, "pil_g4-multi.tiff", page_index)
    assert not _package(page).is_blank_for_sure


def _model_that_repeats_itself() -> RandomAdapter:
    model = RandomAdapter()
    model.max_output_tokens = 400
    steps = iter(range(10_000))

    def logits(hidden: torch.Tensor) -> torch.Tensor:
        scores = torch.zeros(*hidden.shape[:-1], 128)
        scores[..., 10 + next(steps) % 7] = 50.0
        return scores

    model.logits = logits  # type: ignore[method-assign]
    return model


def test_deepseek_ocr_151_and_deepseek_ocr_2_28_a_loop_is_stopped_flagged_and_kept() -> None:
    with Engine(_model_that_repeats_itself(), DecodePolicy.dense(), 1) as engine:
        attend = engine.backend.attend

        def standing_still(layer: int, query: Any, scaling: float, cache: Any, step: Any) -> torch.Tensor:
            step.gaze.update(dict.fromkeys(step.watched, 20.0))
            return attend(layer, query, scaling, cache, step)

        engine.backend.attend = standing_still  # type: ignore[method-assign]
        (reading,) = engine.read([page_of(60)])
    row = assemble(EXPECTED, PACKAGE, reading, assess(reading, PACKAGE), READER)
    assert (row.outcome, row.reason, row.flags[0]) == (Outcome.FLAGGED, Reason.LOOP, "loop")
    assert row.output_tokens is not None
    assert row.output_tokens < 150
    assert row.loop_share == 1.0
    assert row.text


def test_deepseek_ocr_160_true_repetition_is_kept_and_no_loop() -> None:
    line = [11, 12, 13, 14, 15]
    guard = LoopGuard()
    for number in range(365):
        for place, token in enumerate(line):
            gaze = number * 8.0 + place if guard.suspicious else None
            assert not guard.looping(token, gaze)


def test_deepseek_ocr_194_a_page_beyond_the_limit_is_flagged_and_shifts_nothing(
    cases_dir: Path, rasterizer: Rasterizer
) -> None:
    full = _package(_page(rasterizer, cases_dir, "olmocr_newspaper.pdf"))
    small = _package(_page(rasterizer, cases_dir, "pypdf_r6-owner-password.pdf"))
    reader = PageReader(load("tiny"), DecodePolicy.dense(), 2, EngineLimits(max_output_tokens=5))

    async def run() -> list[Any]:
        return list(await asyncio.gather(*map(reader.read, [small, full, small])))

    try:
        readings = asyncio.run(run())
    finally:
        reader.close()
    rows = [
        assemble(
            replace(EXPECTED, page_index=index),
            reading.package,
            reading.page_text,
            reading.assessment,
            READER,
        )
        for index, reading in enumerate(readings)
    ]
    assert [row.page_index for row in rows] == [0, 1, 2]
    assert (rows[1].outcome, rows[1].reason, rows[1].flags) == (
        Outcome.FLAGGED, Reason.TOKEN_LIMIT, ("truncated",)
    )  # fmt: skip
    assert rows[1].text
    assert rows[0].text == rows[2].text


def test_deepseek_ocr_247_and_ocrmypdf_454_turned_pages_are_read_upright(
    cases_dir: Path, rasterizer: Rasterizer
) -> None:
    packages = [
        _package(_page(rasterizer, cases_dir, "ocrmypdf_cardinal.pdf", index), "mini") for index in range(4)
    ]
    assert [package.turn_applied for package in packages] == [0, 270, 180, 90]
    sizes = {(package.image_width, package.image_height) for package in packages}
    assert sizes == {(2550, 3300)}
    upright, *others = (
        np.asarray(Image.fromarray(package.prepared.views[0][:, :, 0]).resize((60, 80)), np.int16)
        for package in packages
    )
    assert all(np.abs(upright - other).mean() < 6 for other in others)
    assert np.abs(upright - upright[::-1, ::-1]).mean() > 12


@pytest.mark.parametrize("name", ["ocrmypdf_poster.pdf", "ocrmypdf_hugemono.pdf"])
def test_liteparse_380_and_pymupdf_675_huge_page_boxes_are_clamped(name: str, cases_dir: Path) -> None:
    with Rasterizer() as fresh:
        page = _page(fresh, cases_dir, name)
        assert fresh.peak_bytes < 2500e6
    assert page.image.width * page.image.height <= RasterLimits().max_pixels
    row = assemble(EXPECTED, _package(page), None, None, READER)
    assert row.dpi_used is not None
    assert row.dpi_used < 100
    assert row.dpi_used == pytest.approx(page.image.width / page.page_width_points * 72, rel=0.01)


def test_ocrmypdf_1104_a_large_normal_scan_is_no_bomb(cases_dir: Path, rasterizer: Rasterizer) -> None:
    page = _page(rasterizer, cases_dir, "ocrmypdf_multipage.pdf", 1)
    assert page.image.size == (4500, 4500)
    assert isinstance(rasterizer.page(2, 150), RasterPage)


def test_aleph_20_every_frame_of_a_tiff_is_a_page(cases_dir: Path, rasterizer: Rasterizer) -> None:
    pages = [_page(rasterizer, cases_dir, "pil_total-pages-zero.tif", index) for index in range(3)]
    assert rasterizer.page(3, 150).__class__ is PageFailure
    assert len({page.image.tobytes() for page in pages}) == 3


def test_ray_18414_odd_keys_stay_exactly_as_they_are(tmp_path: Path) -> None:
    names = ["a b.pdf", "a+b.pdf", "a%20b.pdf", "a#b.pdf", "ä ö.pdf"]
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    stored = list(open_store(str(tmp_path), StorageSettings()).list())
    assert sorted(item.key for item in stored) == sorted(names)
    for item in stored:
        assert item.uri.endswith(item.key)
        assert fetch(item.uri, item.etag, StorageSettings()) == item.key.encode()
    assert len({document_id(item.uri, item.etag) for item in stored}) == len(names)


def test_ray_60983_dying_between_data_and_bookkeeping_doubles_no_page(tmp_path: Path) -> None:
    store = open_store(str(tmp_path), StorageSettings())
    manifest = frozen_manifest(store, [surveyed("s3://b/a.pdf", 6)], ShardLimits(pages=2, part_pages=4))
    for shard in manifest.shards:
        stage(store, manifest, shard.shard_index)
    progress = find_progress(store)
    parts = remaining_work(manifest.shards, frozenset(), progress.staged_shards).parts_to_publish
    Publisher(store, manifest, progress).publish(parts[0])
    for shard in parts[
        0
    ].shards:  # as if it had died before it cleared up, and a late reader came with other text
        stage(store, manifest, shard.shard_index, text="read again")
    late = Publisher(store, manifest, progress)
    assert [late.publish(part) for part in parts] == [False, True]
    pages = [
        (row["source_uri"], row["page_index"], row["text"])
        for file in sorted(tmp_path.glob("pages/*.parquet"))
        for row in pq.read_table(file).to_pylist()
    ]
    assert pages == [("s3://b/a.pdf", index, "text") for index in range(6)]


def test_marker_885_pages_of_a_long_file_that_were_read_stay_read(tmp_path: Path) -> None:
    store = open_store(str(tmp_path), StorageSettings())
    manifest = frozen_manifest(store, [surveyed("s3://b/long.pdf", 400)], ShardLimits(pages=32))
    total = len(manifest.shards)
    for shard_index in range(7):
        stage(store, manifest, shard_index)
    progress = find_progress(store)
    work = remaining_work(manifest.shards, progress.published_parts, progress.staged_shards)
    assert work.shards_to_read == tuple(range(7, total))


@pytest.mark.s3
def test_ray_36690_and_55055_throttling_is_waited_out_and_a_denial_is_named(
    s3_server: S3Server, s3_bucket: str, s3_settings: StorageSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.s3_client.FIRST_WAIT_SECONDS", 0.001)
    with fault_proxy(s3_server.endpoint_url) as proxy:
        store = open_store(f"{s3_bucket}/out", replace(s3_settings, endpoint_url=proxy.endpoint_url))
        store.put("page", b"text")
        proxy.faults[:] = [Fault("GET", "/page", Kind.ERROR, "SlowDown", times=2)]
        assert store.get("page") == b"text"
        proxy.faults[:] = [Fault("GET", "/page", Kind.ERROR, "AccessDenied")]
        assert store.get("page") == b"text"
        proxy.faults[:] = [Fault("GET", "/page", Kind.ERROR, "AccessDenied", times=None)]
        with pytest.raises(StorageDenied, match="out/page"):
            store.get("page")


def test_ray_52634_slow_pages_do_not_hold_the_batch() -> None:
    slots, long, short = 4, 60, 6
    model = RandomAdapter(stop_ids=frozenset({1}))
    lengths = {90: long, **dict.fromkeys(range(30, 39), short)}

    def logits(hidden: torch.Tensor) -> torch.Tensor:
        scores = torch.zeros(*hidden.shape[:-1], 128)
        for slot, sequence in engine._batch.running.items() if engine._batch else ():
            done = len(sequence.tokens) >= lengths[sequence.request.page.image_tokens]
            if len(scores) > 1:
                scores[slot, 1 if done else 5] = 50.0
        scores[..., 7] += 10.0
        return scores

    model.logits = logits  # type: ignore[method-assign]
    pages: Iterator[int] = iter([90, *range(30, 39)] * 3)
    with Engine(model, DecodePolicy.dense(), slots, EngineLimits(stop_loops=False)) as engine:
        futures = [engine.submit(page_of(tokens, tokens)) for tokens in pages]
        results = [future.result() for future in futures]
        steps, fill = engine.steps, engine.slot_fill()
    assert Counter(result.output_tokens for result in results) == {long: 3, short: 27}
    total = sum(result.output_tokens for result in results)
    assert steps <= total / slots + long  # a barrier would cost a long page per batch: 8 of them
    assert fill > 0.6
