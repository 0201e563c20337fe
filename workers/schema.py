"""All rows that are written to storage: one frozen dataclass and one Arrow schema per table.

A column is declared once, as an annotated field; schema, conversion and generated documentation follow.
Changes are additive: new columns are nullable and come last, and `SCHEMA_VERSION` grows.
"""

import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA_VERSION = 2


@dataclass(frozen=True, slots=True)
class Column:
    """Arrow type and meaning of one column."""

    arrow_type: pa.DataType
    description: str


BOX_TYPE = pa.struct([pa.field(name, pa.float32(), nullable=False) for name in ("x0", "y0", "x1", "y1")])
BLOCK_TYPE = pa.struct(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("bbox", BOX_TYPE),
        pa.field("text", pa.string(), nullable=False),
    ]
)
TEXT = pa.string()
TEXT_LIST = pa.list_(pa.field("element", pa.string(), nullable=False))
BLOCK_LIST = pa.list_(pa.field("element", BLOCK_TYPE, nullable=False))
TRANSFORM = pa.list_(pa.field("element", pa.float64(), nullable=False))
INSTANT = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class BoxPoints:
    """A box in page points (1/72 inch) of the page as shown, origin top left, y downwards."""

    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class PageBlock:
    """One block of a page: what it is, where it stands (None where the model gives no place), its text."""

    kind: str
    bbox: BoxPoints | None
    text: str


@dataclass(frozen=True, slots=True)
class PageRow:
    """One page of a readable document: exactly one row per page of the manifest."""

    run_id: Annotated[str, Column(TEXT, "run that wrote the row")]
    document_id: Annotated[str, Column(TEXT, "hash of source_uri and source_etag")]
    source_uri: Annotated[str, Column(TEXT, "exact location of the document, never decoded")]
    source_etag: Annotated[str | None, Column(TEXT, "version mark of the document in its storage")]
    source_bytes: Annotated[int, Column(pa.int64(), "size of the document in bytes")]
    page_index: Annotated[int, Column(pa.int32(), "place of the page in the document, from 0")]
    page_label: Annotated[str | None, Column(TEXT, "label the document itself gives the page, such as 'iv'")]
    page_count: Annotated[int, Column(pa.int32(), "pages of the document")]
    page_id: Annotated[str, Column(TEXT, "document_id and page_index; unique within a run")]
    duplicate_of: Annotated[str | None, Column(TEXT, "document_id whose bytes are the same, if read there")]

    outcome: Annotated[
        str, Column(TEXT, "final state: ok, ok_blank, ok_repaired, flagged, failed or duplicate")
    ]
    reason: Annotated[str | None, Column(TEXT, "why the page failed or was flagged; closed list")] = None
    flags: Annotated[tuple[str, ...], Column(TEXT_LIST, "signs that the text needs care")] = ()
    warnings: Annotated[tuple[str, ...], Column(TEXT_LIST, "what was noticed on the way, in words")] = ()

    text: Annotated[str | None, Column(TEXT, "the text read; empty on a blank page, null if it failed")] = (
        None
    )
    format: Annotated[str | None, Column(TEXT, "format of the text: text or markdown")] = None
    blocks: Annotated[
        tuple[PageBlock, ...], Column(BLOCK_LIST, "blocks with kind, box in page points and text")
    ] = ()
    language: Annotated[str | None, Column(TEXT, "language, if the model says so")] = None

    page_width_points: Annotated[
        float | None,
        Column(pa.float64(), "width of the page as shown, in 1/72 inch; in pixels if dpi_used is null"),
    ] = None
    page_height_points: Annotated[
        float | None, Column(pa.float64(), "height of the page as shown; unit as page_width_points")
    ] = None
    rotate_key: Annotated[
        int | None, Column(pa.int16(), "clockwise turn the document asks for, degrees; already applied")
    ] = None
    turn_applied: Annotated[
        int | None,
        Column(pa.int16(), "further clockwise turn before reading, degrees; boxes are of the page before it"),
    ] = None
    dpi_asked: Annotated[int | None, Column(pa.int32(), "resolution the model asks for")] = None
    dpi_used: Annotated[
        float | None, Column(pa.float64(), "resolution of the image handed on; null if the source names none")
    ] = None
    image_width: Annotated[int | None, Column(pa.int32(), "width of the image handed on, pixels")] = None
    image_height: Annotated[int | None, Column(pa.int32(), "height of the image handed on, pixels")] = None
    how: Annotated[str | None, Column(TEXT, "rendered from the page, or the embedded image lifted")] = None
    mode: Annotated[str | None, Column(TEXT, "vision mode of the model")] = None
    tile_columns: Annotated[int | None, Column(pa.int16(), "tiles across")] = None
    tile_rows: Annotated[int | None, Column(pa.int16(), "tiles down")] = None
    transform: Annotated[
        tuple[float, ...] | None,
        Column(TRANSFORM, "a, b, c, d, e, f: view pixel (x, y) to page point (ax+by+c, dx+ey+f)"),
    ] = None

    model: Annotated[str | None, Column(TEXT, "model that read the page")] = None
    model_revision: Annotated[str | None, Column(TEXT, "revision of its weights")] = None
    prompt: Annotated[str | None, Column(TEXT, "prompt, if the model takes one")] = None
    policy: Annotated[str | None, Column(TEXT, "decode policy of the text in this row")] = None
    kept_share: Annotated[float | None, Column(pa.float64(), "share of image tokens kept per step")] = None
    image_tokens: Annotated[int | None, Column(pa.int32(), "image tokens of the page")] = None
    output_tokens: Annotated[int | None, Column(pa.int32(), "tokens written")] = None
    finish_reason: Annotated[str | None, Column(TEXT, "why reading ended: stop, length, loop or error")] = (
        None
    )
    mean_logprob: Annotated[float | None, Column(pa.float64(), "mean log-probability of the tokens")] = None
    min_logprob_window: Annotated[
        float | None, Column(pa.float64(), "lowest mean log-probability over 32 tokens in a row")
    ] = None
    image_kv_read_share: Annotated[
        float | None,
        Column(
            pa.float64(), "image cache rows read, as a share of a dense decode; counted after the warm-up"
        ),
    ] = None
    dense_retry: Annotated[bool | None, Column(pa.bool_(), "whether a dense second pass was made")] = None
    text_before_retry: Annotated[str | None, Column(TEXT, "text of the first pass, if there were two")] = None

    rasterize_seconds: Annotated[float | None, Column(pa.float64(), "from bytes to prepared page")] = None
    encode_seconds: Annotated[float | None, Column(pa.float64(), "vision encoder and prefill")] = None
    decode_seconds: Annotated[float | None, Column(pa.float64(), "from first to last token")] = None
    queue_seconds: Annotated[float | None, Column(pa.float64(), "waiting for a place in the batch")] = None
    gpu_seconds: Annotated[float | None, Column(pa.float64(), "share of the device's time")] = None

    node: Annotated[str | None, Column(TEXT, "machine that read the page")] = None
    gpu_id: Annotated[str | None, Column(TEXT, "device on that machine")] = None
    actor: Annotated[str | None, Column(TEXT, "worker that read the page")] = None
    source_hash: Annotated[str | None, Column(TEXT, "SHA-256 of the document's bytes")] = None
    finished_at: Annotated[datetime | None, Column(INSTANT, "when the row was completed, UTC")] = None

    retry_changed_text: Annotated[
        bool | None, Column(pa.bool_(), "whether the dense second pass changed the text; null without one")
    ] = None
    loop_share: Annotated[
        float | None, Column(pa.float64(), "share of the tokens that are one cycle, repeated up to the end")
    ] = None


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """One object of the source, whatever became of it."""

    document_id: Annotated[str, Column(TEXT, "hash of source_uri and etag")]
    source_uri: Annotated[str, Column(TEXT, "exact location of the document, never decoded")]
    etag: Annotated[str | None, Column(TEXT, "version mark of the document in its storage")]
    bytes: Annotated[int, Column(pa.int64(), "size in bytes")]
    content_hash: Annotated[str | None, Column(TEXT, "SHA-256 of the bytes; null if never read")]
    format: Annotated[str | None, Column(TEXT, "format by content: pdf, tiff, jpeg, ...")]
    pages: Annotated[int, Column(pa.int32(), "pages; 0 when quarantined")]
    pages_ok: Annotated[int, Column(pa.int32(), "pages that ended ok, ok_blank, ok_repaired or duplicate")]
    pages_flagged: Annotated[int, Column(pa.int32(), "pages whose text needs care")]
    pages_failed: Annotated[int, Column(pa.int32(), "pages without text")]
    outcome: Annotated[str, Column(TEXT, "complete, partial or quarantined")]
    reason: Annotated[str | None, Column(TEXT, "why quarantined; closed list")] = None
    repaired: Annotated[bool, Column(pa.bool_(), "whether the file had to be repaired to open")] = False
    warnings: Annotated[tuple[str, ...], Column(TEXT_LIST, "what was noticed on opening, in words")] = ()
    duplicate_of: Annotated[str | None, Column(TEXT, "document_id of the first with the same bytes")] = None


@dataclass(frozen=True, slots=True)
class ManifestDocument:
    """What the survey found out about one object; frozen before any page is read."""

    document_id: Annotated[str, Column(TEXT, "hash of source_uri and etag")]
    source_uri: Annotated[str, Column(TEXT, "exact location of the document, never decoded")]
    etag: Annotated[str | None, Column(TEXT, "version mark of the document in its storage")]
    bytes: Annotated[int, Column(pa.int64(), "size in bytes")]
    content_hash: Annotated[str | None, Column(TEXT, "SHA-256 of the bytes; null if never read")] = None
    format: Annotated[str | None, Column(TEXT, "format by content")] = None
    page_count: Annotated[int, Column(pa.int32(), "pages; 0 when quarantined")] = 0
    reason: Annotated[str | None, Column(TEXT, "why quarantined; null if readable")] = None
    repaired: Annotated[bool, Column(pa.bool_(), "whether the file had to be repaired to open")] = False
    warnings: Annotated[tuple[str, ...], Column(TEXT_LIST, "what was noticed on opening, in words")] = ()
    duplicate_of: Annotated[str | None, Column(TEXT, "document_id of the first with the same bytes")] = None


@dataclass(frozen=True, slots=True)
class ManifestPage:
    """One expected page. The closing check compares these rows with the published ones."""

    page_id: Annotated[str, Column(TEXT, "document_id and page_index")]
    document_id: Annotated[str, Column(TEXT, "document the page belongs to")]
    source_uri: Annotated[str, Column(TEXT, "exact location of the document")]
    source_etag: Annotated[str | None, Column(TEXT, "version mark of the document in its storage")]
    source_bytes: Annotated[int, Column(pa.int64(), "size of the document in bytes")]
    source_hash: Annotated[str | None, Column(TEXT, "SHA-256 of the document's bytes")]
    format: Annotated[str, Column(TEXT, "format by content")]
    page_index: Annotated[int, Column(pa.int32(), "place of the page in the document, from 0")]
    page_count: Annotated[int, Column(pa.int32(), "pages of the document")]
    page_label: Annotated[str | None, Column(TEXT, "label the document itself gives the page")] = None
    width_points: Annotated[float | None, Column(pa.float64(), "width as shown; null if not known")] = None
    height_points: Annotated[float | None, Column(pa.float64(), "height as shown; null if not known")] = None
    estimated_pixels: Annotated[int, Column(pa.int64(), "pixels of the image to expect")] = 0
    estimated_image_tokens: Annotated[int, Column(pa.int32(), "image tokens to expect")] = 0
    duplicate_of: Annotated[str | None, Column(TEXT, "document_id of the first with the same bytes")] = None


@dataclass(frozen=True, slots=True)
class ManifestShard:
    """A run of rows of the page manifest: unit of work and of resume."""

    shard_index: Annotated[int, Column(pa.int32(), "number of the shard, from 0")]
    part_index: Annotated[int, Column(pa.int32(), "part in which the shard is published")]
    first_row: Annotated[int, Column(pa.int64(), "first row of the page manifest, from 0")]
    page_count: Annotated[int, Column(pa.int32(), "rows of the page manifest")]
    estimated_pixels: Annotated[int, Column(pa.int64(), "pixels to expect")] = 0
    estimated_image_tokens: Annotated[int, Column(pa.int64(), "image tokens to expect")] = 0


@dataclass(frozen=True, slots=True)
class MetricsRow:
    """One measured value of one worker over one window of time."""

    run_id: Annotated[str, Column(TEXT, "run the worker belongs to")]
    stage: Annotated[str, Column(TEXT, "survey, rasterize or read")]
    node: Annotated[str, Column(TEXT, "machine")]
    gpu_id: Annotated[str | None, Column(TEXT, "device on that machine")]
    actor: Annotated[str, Column(TEXT, "worker")]
    window_start: Annotated[datetime, Column(INSTANT, "start of the window, UTC")]
    window_seconds: Annotated[float, Column(pa.float64(), "length of the window")]
    name: Annotated[str, Column(TEXT, "name of the metric")]
    value: Annotated[float, Column(pa.float64(), "its value over the window")]


Row = PageRow | DocumentRow | ManifestDocument | ManifestPage | ManifestShard | MetricsRow
RowType = TypeVar("RowType", PageRow, DocumentRow, ManifestDocument, ManifestPage, ManifestShard, MetricsRow)


def arrow_schema(row_type: type[Row]) -> pa.Schema:
    """Build the Arrow schema of a row type: a field is nullable exactly if its annotation allows None."""
    hints = get_type_hints(row_type, include_extras=True)
    arrow_fields = []
    for field in fields(row_type):
        declared, column = get_args(hints[field.name])
        nullable = type(None) in get_args(declared)
        metadata = {"description": column.description}
        arrow_fields.append(pa.field(field.name, column.arrow_type, nullable=nullable, metadata=metadata))
    return pa.schema(
        arrow_fields,
        metadata={"fastocr.schema_version": str(SCHEMA_VERSION), "fastocr.table": row_type.__name__},
    )


PAGE_SCHEMA = arrow_schema(PageRow)
DOCUMENT_SCHEMA = arrow_schema(DocumentRow)
MANIFEST_DOCUMENT_SCHEMA = arrow_schema(ManifestDocument)
MANIFEST_PAGE_SCHEMA = arrow_schema(ManifestPage)
MANIFEST_SHARD_SCHEMA = arrow_schema(ManifestShard)
METRICS_SCHEMA = arrow_schema(MetricsRow)

_SCHEMAS: dict[type[Row], pa.Schema] = {
    PageRow: PAGE_SCHEMA,
    DocumentRow: DOCUMENT_SCHEMA,
    ManifestDocument: MANIFEST_DOCUMENT_SCHEMA,
    ManifestPage: MANIFEST_PAGE_SCHEMA,
    ManifestShard: MANIFEST_SHARD_SCHEMA,
    MetricsRow: METRICS_SCHEMA,
}


def rows_to_table(rows: Sequence[Row], row_type: type[Row] = PageRow) -> pa.Table:
    """Turn rows of one type into a table with that type's fixed schema; no rows give an empty table.

    `row_type` only matters when `rows` is empty.
    """
    schema = _SCHEMAS[type(rows[0]) if rows else row_type]
    records = [_storable(asdict(row)) for row in rows]
    return pa.Table.from_pylist(records, schema=schema)


def _storable(record: dict[str, Any]) -> dict[str, Any]:
    """Make every string valid UTF-8: keys and labels may carry bytes that are not (kept as \\udcXX)."""
    for name, value in record.items():
        if isinstance(value, str):
            record[name] = value.encode("utf-8", "backslashreplace").decode("utf-8")
        elif isinstance(value, tuple):
            record[name] = [
                _storable(item) if isinstance(item, dict) else _storable({"": item})[""] for item in value
            ]
    return record


def table_to_rows(table: pa.Table, row_type: type[RowType]) -> list[RowType]:
    """Turn a stored table back into rows: unknown columns are ignored, missing ones take their defaults."""
    names = [field.name for field in fields(row_type) if field.name in table.column_names]
    return [row_type(**_restored(record)) for record in table.select(names).to_pylist()]


def _restored(record: dict[str, Any]) -> dict[str, Any]:
    for name, value in record.items():
        if name == "blocks":
            record[name] = tuple(
                PageBlock(block["kind"], BoxPoints(**block["bbox"]) if block["bbox"] else None, block["text"])
                for block in value
            )
        elif isinstance(value, list):
            record[name] = tuple(value)
    return record


def table_to_parquet(table: pa.Table, row_group_rows: int = 512) -> bytes:
    """Write a table as one Parquet file in memory, zstd-compressed, the schema's metadata included."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", row_group_size=row_group_rows, store_schema=True)
    return sink.getvalue()
