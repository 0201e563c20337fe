"""Schema, identifiers, judgement and assembly of rows."""

import io
from dataclasses import fields, replace
from datetime import UTC, datetime

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from fastocr_core.output import Block, PageText
from fastocr_core.vision import ModelVision, PreparedPage, model_vision
from workers.assemble import PageCost, Reader, assemble, document_row, failed_page_row
from workers.assess import assess
from workers.blankness import BlankEvidence
from workers.ids import content_hash, document_id, page_id, part_name, run_id, shard_name
from workers.outcomes import Outcome, Reason
from workers.prepare import PagePackage, compose, map_box, prepare_page
from workers.raster_protocol import TRUNCATION_NOTE
from workers.rasterize import RasterPage
from workers.schema import (
    DOCUMENT_SCHEMA,
    MANIFEST_DOCUMENT_SCHEMA,
    MANIFEST_PAGE_SCHEMA,
    METRICS_SCHEMA,
    PAGE_SCHEMA,
    BoxPoints,
    DocumentRow,
    ManifestDocument,
    ManifestPage,
    PageRow,
    rows_to_table,
    table_to_parquet,
    table_to_rows,
)

EXPECTED = ManifestPage(
    "d-000003", "d", "s3://b/a b#%20.pdf", "etag", 9, "hash", "pdf", 3, 5, "iv", 595.0, 842.0
)
READER = Reader("run", "mini", "r1", None, "fastocr", 0.05, "node", None, "actor")
PREPARED = PreparedPage(
    views=(np.zeros((64, 32, 1), np.uint8),),
    grid_rows=2,
    grid_columns=1,
    image_tokens=2,
    mode="page",
    tile_columns=1,
    tile_rows=1,
    transform=(2.0, 0.0, 1.0, 0.0, 2.0, 3.0),
    source_width=64,
    source_height=128,
    scale=0.5,
    ink_share=0.1,
)
PACKAGE = PagePackage(
    prepared=PREPARED,
    blank=BlankEvidence(False, 9, 2, 24),
    image_to_page=(0.5, 0.0, 0.0, 0.0, 0.5, 0.0),
    view_to_page=(1.0, 0.0, 0.5, 0.0, 1.0, 1.5),
    page_width_points=32.0,
    page_height_points=64.0,
    rotate_key=90,
    turn_applied=0,
    dpi_asked=150,
    dpi_used=144.0,
    image_width=64,
    image_height=128,
    how="lifted",
    warnings=("a remark",),
    repaired=False,
)
NO_MARKS = BlankEvidence(True, 0, 0, 24)
TEXT = PageText(
    text="Hello",
    format="text",
    blocks=(Block("line", (2.0, 4.0, 10.0, 20.0), "Hello"), Block("line", None, "?")),
    tokens=(1, 2),
    logprobs=(-0.1, -0.1),
    finish_reason="stop",
    error=None,
    mean_logprob=-0.1,
    min_logprob_window=-0.1,
    image_tokens=2,
    output_tokens=2,
    image_kv_read_share=0.2,
    policy="fastocr",
    kept_share=0.05,
    queue_seconds=0.1,
    encode_seconds=0.2,
    decode_seconds=0.3,
)


@pytest.mark.parametrize(
    "schema", [PAGE_SCHEMA, DOCUMENT_SCHEMA, MANIFEST_DOCUMENT_SCHEMA, MANIFEST_PAGE_SCHEMA, METRICS_SCHEMA]
)
def test_every_column_is_described(schema: object) -> None:
    for field in schema:  # type: ignore[attr-defined]
        assert field.metadata[b"description"], field.name
    assert schema.metadata[b"fastocr.schema_version"]  # type: ignore[attr-defined]


def test_a_page_row_survives_parquet() -> None:
    row = assemble(EXPECTED, PACKAGE, TEXT, assess(TEXT, PACKAGE), READER, PageCost(rasterize_seconds=0.4))
    stored = pq.read_table(io.BytesIO(table_to_parquet(rows_to_table([row]))))
    assert stored.schema.equals(PAGE_SCHEMA, check_metadata=True)
    assert table_to_rows(stored, PageRow) == [row]
    assert set(row.__dataclass_fields__) == set(PAGE_SCHEMA.names)


def test_rows_of_all_kinds_share_one_schema() -> None:
    rows = [
        failed_page_row(EXPECTED, Reason.CORRUPT, "cycle", READER),
        assemble(EXPECTED, PACKAGE, None, None, READER),
        assemble(EXPECTED, PACKAGE, TEXT, assess(TEXT, PACKAGE), READER),
    ]
    table = rows_to_table(rows)
    assert table.schema.equals(PAGE_SCHEMA)
    assert table.column("outcome").to_pylist() == ["failed", "ok_blank", "ok"]
    assert table.column("text").to_pylist() == [None, "", "Hello"]
    assert rows_to_table([], DocumentRow).schema.equals(DOCUMENT_SCHEMA)


def test_keys_that_are_no_text_are_kept_readable() -> None:
    row = replace(failed_page_row(EXPECTED, Reason.CORRUPT, "x\udcff", READER), source_uri="file\udce9.pdf")
    (stored,) = table_to_rows(rows_to_table([row]), PageRow)
    assert stored.source_uri == "file\\udce9.pdf"
    assert stored.warnings == ("x\\udcff",)


def test_boxes_are_mapped_to_page_points() -> None:
    row = assemble(EXPECTED, PACKAGE, TEXT, assess(TEXT, PACKAGE), READER)
    assert row.blocks[0].bbox == BoxPoints(1.0, 2.0, 5.0, 10.0)
    assert row.blocks[1].bbox is None
    assert row.transform == PACKAGE.view_to_page
    assert (row.mode, row.tile_columns, row.dpi_used, row.how) == ("page", 1, 144.0, "lifted")
    assert row.finished_at is not None
    assert row.finished_at <= datetime.now(UTC)


def test_boxes_end_at_the_edges_of_the_page() -> None:
    blocks = (
        Block("line", (-3.0, -2.0, 65.4, 129.9), "all"),
        Block("line", (70.0, 10.0, 80.0, 140.0), "beyond"),
    )
    reading = replace(TEXT, blocks=blocks)
    row = assemble(EXPECTED, PACKAGE, reading, assess(reading, PACKAGE), READER)
    assert row.blocks[0].bbox == BoxPoints(0.0, 0.0, 32.0, 64.0)
    assert row.blocks[1].bbox == BoxPoints(32.0, 5.0, 32.0, 64.0)


def test_maps_compose_in_order() -> None:
    double, shift = (2.0, 0.0, 0.0, 0.0, 2.0, 0.0), (1.0, 0.0, 5.0, 0.0, 1.0, 7.0)
    assert map_box(compose(shift, double), (1, 1, 2, 3)) == (7, 9, 9, 13)
    quarter = (0.0, -1.0, 10.0, 1.0, 0.0, 0.0)
    assert map_box(quarter, (1, 2, 3, 5)) == (5, 1, 8, 3)


@pytest.mark.parametrize(
    ("changes", "package", "outcome", "reason", "flags", "dense"),
    [
        ({}, PACKAGE, Outcome.OK, None, (), False),
        ({"finish_reason": "loop"}, PACKAGE, Outcome.FLAGGED, Reason.LOOP, ("loop",), True),
        ({"finish_reason": "length"}, PACKAGE, Outcome.FLAGGED, Reason.TOKEN_LIMIT, ("truncated",), True),
        (
            {"finish_reason": "loop", "kept_share": 1.0},
            PACKAGE,
            Outcome.FLAGGED,
            Reason.LOOP,
            ("loop",),
            False,
        ),
        ({"finish_reason": "error"}, PACKAGE, Outcome.FAILED, Reason.MODEL_ERROR, (), False),
        ({"mean_logprob": -3.0}, PACKAGE, Outcome.FLAGGED, None, ("suspicious", "low_confidence"), True),
        ({"min_logprob_window": -3.0}, PACKAGE, Outcome.FLAGGED, None, ("suspicious", "unsteady"), True),
        ({"text": " "}, PACKAGE, Outcome.FLAGGED, None, ("no_text",), True),
        (
            {"text": ""},
            replace(PACKAGE, blank=NO_MARKS),
            Outcome.OK_BLANK,
            None,
            (),
            False,
        ),
        ({}, replace(PACKAGE, repaired=True), Outcome.OK_REPAIRED, None, ("repaired",), False),
        (
            {"text": ""},
            replace(PACKAGE, blank=NO_MARKS, repaired=True, warnings=(TRUNCATION_NOTE,)),
            Outcome.FLAGGED,
            Reason.TRUNCATED_FILE,
            ("no_text", "cut_short", "repaired"),
            True,
        ),
        (
            {"text": ""},
            replace(PACKAGE, blank=NO_MARKS, warnings=("library error: no image",)),
            Outcome.FLAGGED,
            None,
            ("no_text",),
            True,
        ),
        (
            {},
            replace(PACKAGE, repaired=True, warnings=(TRUNCATION_NOTE,)),
            Outcome.OK_REPAIRED,
            Reason.TRUNCATED_FILE,
            ("cut_short", "repaired"),
            False,
        ),
    ],
)
def test_judgement(
    changes: dict[str, object],
    package: PagePackage,
    outcome: Outcome,
    reason: Reason | None,
    flags: tuple[str, ...],
    dense: bool,
) -> None:
    verdict = assess(replace(TEXT, **changes), package)  # type: ignore[arg-type]
    assert (verdict.outcome, verdict.reason, verdict.flags) == (outcome, reason, flags)
    assert verdict.wants_dense_pass == dense


def test_a_second_pass_keeps_the_first_text() -> None:
    first = replace(TEXT, text="Hallo")
    row = assemble(EXPECTED, PACKAGE, TEXT, assess(TEXT, PACKAGE), READER, passes=(first, TEXT))
    assert (row.dense_retry, row.text_before_retry, row.text) == (True, "Hallo", "Hello")
    assert row.retry_changed_text
    assert row.decode_seconds == pytest.approx(2 * TEXT.decode_seconds)
    same = assemble(EXPECTED, PACKAGE, TEXT, assess(TEXT, PACKAGE), READER, passes=(TEXT, TEXT))
    once = assemble(EXPECTED, PACKAGE, TEXT, assess(TEXT, PACKAGE), READER)
    stood = assemble(EXPECTED, PACKAGE, first, assess(first, PACKAGE), READER, passes=(first, TEXT))
    assert (stood.dense_retry, stood.text_before_retry, stood.text) == (True, "Hallo", "Hallo")
    assert not stood.retry_changed_text
    assert (same.retry_changed_text, once.retry_changed_text, once.dense_retry) == (False, None, False)


def test_a_page_that_took_too_long_is_a_failure_of_its_own() -> None:
    late = replace(TEXT, finish_reason="error", error="TimeoutError: not finished within 2 s")
    row = assemble(EXPECTED, PACKAGE, late, assess(late, PACKAGE), READER)
    assert (row.outcome, row.reason, row.text) == ("failed", "model_timeout", None)


def test_a_failed_reading_has_no_text_but_an_explanation() -> None:
    broken = replace(TEXT, finish_reason="error", error="out of memory")
    row = assemble(EXPECTED, PACKAGE, broken, assess(broken, PACKAGE), READER)
    assert (row.outcome, row.reason, row.text, row.blocks) == ("failed", "model_error", None, ())
    assert "out of memory" in row.warnings


def test_documents_are_complete_partial_or_quarantined() -> None:
    read = ManifestDocument("d", "u", "e", 5, "h", "pdf", 3)
    refused = replace(read, page_count=0, reason="encrypted")
    assert document_row(read, {"ok": 1, "ok_blank": 1, "flagged": 1}).outcome == "complete"
    partial = document_row(read, {"ok": 2, "failed": 1})
    assert (partial.outcome, partial.pages, partial.pages_ok, partial.pages_failed) == ("partial", 3, 2, 1)
    limited = document_row(read, {"ok": 2})
    assert (limited.outcome, limited.pages, limited.pages_ok, limited.pages_failed) == ("partial", 3, 2, 0)
    assert document_row(read, {"duplicate": 3}).outcome == "complete"
    row = document_row(refused, {})
    assert (row.outcome, row.reason, row.pages) == ("quarantined", "encrypted", 0)
    assert {field.name for field in fields(DocumentRow)} == set(DOCUMENT_SCHEMA.names)


def test_identifiers_depend_on_what_they_name_and_nothing_else() -> None:
    first = document_id("s3://b/k", "e")
    assert first == document_id("s3://b/k", "e")
    assert (
        len(
            {first, document_id("s3://b/k", None), document_id("s3://b/ke", ""), document_id("s3://b/", "ke")}
        )
        == 4
    )
    assert page_id(first, 2) < page_id(first, 10)
    assert run_id("c", "s3://t/") == run_id("c", "s3://t") != run_id("d", "s3://t")
    assert (shard_name(7), part_name(7)) == ("shard-000007", "part-00007.parquet")
    assert content_hash(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize("model", ["mini", "tiny"])
def test_a_raster_page_becomes_a_package(model: str) -> None:
    image = Image.new("L", (800, 1100), 255)
    raster = RasterPage(
        image, 400.0, 550.0, 0, 150, 144.0, True, "rendered", (), (0.5, 0.0, 0.0, 0.0, 0.5, 0.0), False
    )
    vision: ModelVision = model_vision(model)
    package = prepare_page(raster, vision)
    assert package.blank.is_blank
    view = package.prepared.views[0]
    x0, y0, x1, y1 = map_box(package.view_to_page, (0, 0, view.shape[1], view.shape[0]))
    assert (x0, y0) == pytest.approx((0, 0), abs=30)
    assert x1 > 300
    assert y1 > 400
