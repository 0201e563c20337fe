"""The survey of a batch of documents: each is fetched and opened once, in a killable child, and counted.

Runs in Ray tasks. What was found goes to storage under the number of the batch, put once, so that a survey that
was stopped carries on, and every driver works with the same findings.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from fastocr_core.vision import ModelVision, count_image_tokens
from workers.fetch import DocumentFetcher, FetchFailure
from workers.ids import document_id, page_id
from workers.inspect_document import DocumentFacts, inspect
from workers.layout import survey_batch_key
from workers.object_store import StorageSettings, StoredObject, open_store
from workers.outcomes import Reason
from workers.rasterize import Rasterizer, RasterLimits
from workers.schema import ManifestDocument, ManifestPage
from workers.sniff import sniff
from workers.surveyed import SurveyedBatch, batch_from_rows, batch_to_parquet

LARGE_DOCUMENT_BYTES = 64_000_000
MOST_DOCUMENT_BYTES = 4_000_000_000
HEAD_BYTES = 1024


@dataclass(frozen=True, slots=True)
class SurveyTask:
    """What a survey task needs besides its documents; plain data. Without a target nothing is stored."""

    limits: RasterLimits
    vision: ModelVision
    storage: StorageSettings
    target: str | None = None
    listing_id: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some consecutive objects of a listing: what one survey task opens."""

    batch_index: int
    objects: tuple[StoredObject, ...]


def survey_batch(batch: Batch, task: SurveyTask) -> bytes:
    """Survey one batch and store what was found, unless another worker has; returns what is stored.

    Failures of documents are rows. Raises `StorageError` where the storage does not answer.
    """
    data = batch_to_parquet(inspected(batch.objects, task))
    if task.target is None:
        return data
    store = open_store(task.target, task.storage)
    key = survey_batch_key(task.listing_id, batch.batch_index)
    return data if store.put_if_absent(key, data) else store.get(key)


def inspected(objects: Iterable[StoredObject], task: SurveyTask) -> SurveyedBatch:
    """Documents and expected pages of these objects, in order."""
    fetcher = DocumentFetcher(task.storage)
    documents: list[ManifestDocument] = []
    pages: list[ManifestPage] = []
    with Rasterizer(task.limits) as rasterizer:
        for stored in objects:
            document, facts = _surveyed(stored, fetcher, rasterizer, task)
            documents.append(document)
            pages += expected_pages(document, facts, task.vision)
    return batch_from_rows(documents, pages)


def _surveyed(
    stored: StoredObject, fetcher: DocumentFetcher, rasterizer: Rasterizer, task: SurveyTask
) -> tuple[ManifestDocument, DocumentFacts | None]:
    """One document; facts are None if its bytes were never had as a whole."""
    identifier = document_id(stored.uri, stored.etag)
    document = ManifestDocument(identifier, stored.uri, stored.etag or None, stored.bytes)
    try:
        if not stored.etag:  # named by a list that does not say which version
            stored = fetcher.find(stored.uri)
            identifier = document_id(stored.uri, stored.etag)
            document = ManifestDocument(identifier, stored.uri, stored.etag, stored.bytes)
        refused = _refused_unread(stored, fetcher)
        if refused is not None:
            return replace(document, reason=refused), None
        data = fetcher.fetch(stored.uri, stored.etag)
    except FetchFailure as failure:
        return replace(document, reason=failure.reason, warnings=(failure.detail,)), None
    facts = inspect(data, task.limits, task.vision.wanted_dpi, rasterizer)
    return _with_facts(document, facts), facts


def _refused_unread(stored: StoredObject, fetcher: DocumentFetcher) -> Reason | None:
    """Large things that are no documents, such as films, are told by their first bytes and never fetched."""
    if stored.bytes <= LARGE_DOCUMENT_BYTES:
        return None
    kind = sniff(fetcher.head(stored.uri, HEAD_BYTES))
    if isinstance(kind, Reason):
        return kind
    return Reason.TOO_LARGE if stored.bytes > MOST_DOCUMENT_BYTES else None


def _with_facts(document: ManifestDocument, facts: DocumentFacts) -> ManifestDocument:
    return replace(
        document,
        content_hash=facts.content_hash,
        format=facts.format,
        page_count=facts.page_count,
        reason=facts.reason,
        repaired=facts.repaired,
        warnings=facts.warnings,
    )


def expected_pages(
    document: ManifestDocument, facts: DocumentFacts | None, vision: ModelVision
) -> Iterator[ManifestPage]:
    """A row for every page to be expected of a document; none if it cannot be read."""
    if facts is None:
        return
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
