"""Made manifests and staged shards for the tests of this folder."""

from collections.abc import Sequence

from pipeline.manifest import freeze
from pipeline.planner import PageLoad, ShardLimits, plan_shards
from workers.ids import content_hash, document_id, page_id
from workers.layout import staged_key
from workers.manifest_reader import ManifestReader
from workers.object_store import ObjectStore
from workers.outcomes import Reason
from workers.schema import (
    ManifestDocument,
    ManifestPage,
    ManifestShard,
    PageRow,
    rows_to_table,
    table_to_parquet,
)
from workers.surveyed import SurveyedBatch, batch_from_rows


def surveyed(name: str, pages: int, reason: Reason | None = None) -> SurveyedBatch:
    """One document as the survey leaves it."""
    identifier = document_id(name, "1")
    document = ManifestDocument(
        identifier, name, "1", 100, content_hash=content_hash(name.encode()), page_count=pages, reason=reason
    )
    return batch_from_rows([document], [manifest_page(name, index, pages) for index in range(pages)])


def manifest_page(
    name: str, page_index: int, pages: int, pixels: int = 1_000_000, tokens: int = 0
) -> ManifestPage:
    """One expected page."""
    identifier = document_id(name, "1")
    return ManifestPage(
        page_id=page_id(identifier, page_index),
        document_id=identifier,
        source_uri=name,
        source_etag="1",
        source_bytes=100,
        source_hash=None,
        format="pdf",
        page_index=page_index,
        page_count=pages,
        estimated_pixels=pixels,
        estimated_image_tokens=tokens,
    )


def planned(pages: Sequence[ManifestPage], ocr_actors: int, limits: ShardLimits) -> list[ManifestShard]:
    """The shards of these pages."""
    loads = (PageLoad(page.estimated_pixels, page.estimated_image_tokens) for page in pages)
    return list(plan_shards(loads, len(pages), ocr_actors, limits))


def frozen_manifest(
    store: ObjectStore, documents: Sequence[SurveyedBatch], limits: ShardLimits
) -> ManifestReader:
    """Freeze a manifest into a store, as a run with one OCR actor would."""
    freeze(store, documents, 1, limits)
    return ManifestReader(store)


def page_row(page: ManifestPage, outcome: str = "ok", text: str = "text") -> PageRow:
    """A finished page."""
    return PageRow(
        run_id="run",
        document_id=page.document_id,
        source_uri=page.source_uri,
        source_etag=page.source_etag,
        source_bytes=page.source_bytes,
        page_index=page.page_index,
        page_label=None,
        page_count=page.page_count,
        page_id=page.page_id,
        duplicate_of=None,
        outcome=outcome,
        text=text,
        image_tokens=10,
        output_tokens=5,
    )


def stage(store: ObjectStore, manifest: ManifestReader, shard_index: int, text: str = "text") -> None:
    """Stage a shard as an OCR actor does."""
    rows = [page_row(page, text=text) for page in manifest.shard_pages(shard_index)]
    store.put_if_absent(staged_key(shard_index), table_to_parquet(rows_to_table(rows)))
