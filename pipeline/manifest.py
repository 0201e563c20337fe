"""The survey: what is there, how many pages it has, and in which shards they will be read. Frozen, then
followed.

Each document is opened once, in a Ray task, before any page is read. The three tables belong to one survey
and are frozen together: the first driver to put `survey.json` decides, whoever else was surveying.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from fastocr_core.vision import ModelVision, count_image_tokens
from pipeline.planner import ShardLimits, plan_shards
from workers.fetch import DocumentFetcher, FetchFailure
from workers.ids import document_id, page_id
from workers.inspect_document import DocumentFacts, inspect
from workers.layout import MANIFEST_TABLES, SURVEY_KEY, manifest_key, survey_draft_key
from workers.manifest_reader import PAGE_ROW_GROUP_ROWS
from workers.object_store import ObjectStore, StorageSettings, StoredObject
from workers.rasterize import Rasterizer, RasterLimits
from workers.schema import (
    ManifestDocument,
    ManifestPage,
    ManifestShard,
    rows_to_table,
    table_to_parquet,
)

BATCH_DOCUMENTS = 32
BATCH_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class SurveyedDocument:
    """One object and its expected pages; none if it is quarantined."""

    document: ManifestDocument
    pages: tuple[ManifestPage, ...]


@dataclass(frozen=True, slots=True)
class SurveyTask:
    """What a survey task needs besides its documents; plain data, sent to the cluster once."""

    limits: RasterLimits
    vision: ModelVision
    storage: StorageSettings


def batches(objects: Sequence[StoredObject]) -> Iterator[list[StoredObject]]:
    """Cut a listing into batches, one per survey task: neither too many documents nor too many bytes."""
    batch: list[StoredObject] = []
    total = 0
    for stored in objects:
        if batch and (len(batch) == BATCH_DOCUMENTS or total + stored.bytes > BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(stored)
        total += stored.bytes
    if batch:
        yield batch


def survey_batch(objects: Iterable[StoredObject], task: SurveyTask) -> list[SurveyedDocument]:
    """Fetch and open each document once, in one killable child. Runs in a Ray task; failures are rows."""
    fetcher = DocumentFetcher(task.storage)
    with Rasterizer(task.limits) as rasterizer:
        return [_survey_document(stored, fetcher, rasterizer, task) for stored in objects]


def _survey_document(
    stored: StoredObject, fetcher: DocumentFetcher, rasterizer: Rasterizer, task: SurveyTask
) -> SurveyedDocument:
    identifier = document_id(stored.uri, stored.etag)
    document = ManifestDocument(identifier, stored.uri, stored.etag, stored.bytes)
    try:
        data = fetcher.fetch(stored.uri, stored.etag)
    except FetchFailure as failure:
        return SurveyedDocument(replace(document, reason=failure.reason, warnings=(failure.detail,)), ())
    facts = inspect(data, task.limits, task.vision.wanted_dpi, rasterizer)
    document = replace(
        document,
        content_hash=facts.content_hash,
        format=facts.format,
        page_count=facts.page_count,
        reason=facts.reason,
        repaired=facts.repaired,
        warnings=facts.warnings,
    )
    return SurveyedDocument(document, tuple(_expected_pages(document, facts, task.vision)))


def _expected_pages(
    document: ManifestDocument, facts: DocumentFacts, vision: ModelVision
) -> Iterator[ManifestPage]:
    for page_index, page in enumerate(facts.pages):
        width, height = page.estimated_width_pixels, page.estimated_height_pixels
        yield ManifestPage(
            page_id=page_id(document.document_id, page_index),
            document_id=document.document_id,
            source_uri=document.source_uri,
            source_etag=document.etag,
            source_bytes=document.bytes,
            source_hash=document.content_hash,
            format=document.format or "",
            page_index=page_index,
            page_count=facts.page_count,
            page_label=page.label,
            width_points=page.width_points,
            height_points=page.height_points,
            estimated_pixels=width * height,
            estimated_image_tokens=count_image_tokens(width, height, vision) if width * height else 0,
        )


def limited(documents: Iterable[SurveyedDocument], limit: int | None) -> list[SurveyedDocument]:
    """Keep the first `limit` pages in order; a document cut short says so, later ones are left out."""
    kept: list[SurveyedDocument] = []
    total = 0
    for surveyed in documents:
        room = len(surveyed.pages) if limit is None else limit - total
        if limit is not None and room <= 0:
            break
        if len(surveyed.pages) > room:
            note = f"limit: only the first {room} of {len(surveyed.pages)} pages belong to this run"
            document = replace(surveyed.document, warnings=(*surveyed.document.warnings, note))
            surveyed = SurveyedDocument(document, surveyed.pages[:room])
        kept.append(surveyed)
        total += len(surveyed.pages)
    return kept


def mark_duplicates(documents: Iterable[SurveyedDocument]) -> Iterator[SurveyedDocument]:
    """Note for each document the first one before it with the same bytes."""
    first_with: dict[str, str] = {}
    for surveyed in documents:
        digest = surveyed.document.content_hash
        first = first_with.setdefault(digest, surveyed.document.document_id) if digest else None
        if first is None or first == surveyed.document.document_id:
            yield surveyed
            continue
        yield SurveyedDocument(
            replace(surveyed.document, duplicate_of=first),
            tuple(replace(page, duplicate_of=first) for page in surveyed.pages),
        )


def is_frozen(store: ObjectStore) -> bool:
    """Whether the survey of this target is decided and complete; mends a freeze that was interrupted."""
    if not store.exists(SURVEY_KEY):
        return False
    survey_id = json.loads(store.get(SURVEY_KEY))["survey_id"]
    for table in MANIFEST_TABLES:
        if not store.exists(manifest_key(table)):
            store.put_if_absent(manifest_key(table), store.get(survey_draft_key(survey_id, table)))
    return True


def freeze(
    store: ObjectStore, documents: Iterable[SurveyedDocument], ocr_actors: int, limits: ShardLimits
) -> None:
    """Plan the shards and put the three tables of the manifest; a survey that comes second is discarded."""
    surveyed = list(mark_duplicates(documents))
    pages = [page for entry in surveyed for page in entry.pages]
    tables: dict[str, pa.Table] = {
        "documents": rows_to_table([entry.document for entry in surveyed], ManifestDocument),
        "pages": rows_to_table(pages, ManifestPage),
        "shards": rows_to_table(plan_shards(pages, ocr_actors, limits), ManifestShard),
    }
    survey_id = uuid.uuid4().hex
    for name, table in tables.items():
        store.put(survey_draft_key(survey_id, name), table_to_parquet(table, PAGE_ROW_GROUP_ROWS))
    facts = {"survey_id": survey_id, "documents": len(surveyed), "pages": len(pages)}
    store.put_if_absent(SURVEY_KEY, json.dumps(facts).encode())
    is_frozen(store)
