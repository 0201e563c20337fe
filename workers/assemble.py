"""Rows from what the stages know: one for every expected page and one for every document.

Nothing is judged here; whatever became of a page, its row has the same columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from fastocr_core.output import Block, PageText
from workers.assess import Assessment, assess_blank
from workers.outcomes import OK_OUTCOMES, DocumentOutcome, Outcome, Reason
from workers.prepare import PagePackage, map_box
from workers.schema import BoxPoints, DocumentRow, ManifestDocument, ManifestPage, PageBlock, PageRow


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads: the same for all pages of one actor."""

    run_id: str
    model: str
    model_revision: str | None
    prompt: str | None
    policy: str | None
    kept_share: float | None
    node: str | None
    gpu_id: str | None
    actor: str | None


@dataclass(frozen=True, slots=True)
class PageCost:
    """What is known of a page's cost besides the reader's own times, in seconds."""

    rasterize_seconds: float | None = None
    gpu_seconds: float | None = None


def assemble(
    expected: ManifestPage,
    package: PagePackage,
    page_text: PageText | None,
    assessment: Assessment | None,
    reader: Reader,
    cost: PageCost | None = None,
    passes: tuple[PageText, ...] = (),
) -> PageRow:
    """The row of a page that became an image. Without `page_text` it was blank and not read.

    `passes` are the sparse reading and the dense one, where there were two; `page_text` is one of them.
    """
    verdict = assessment or assess_blank(package)
    row = replace(
        _row(expected, verdict.outcome, reader, cost),
        reason=verdict.reason.value if verdict.reason is not None else None,
        flags=verdict.flags,
        warnings=(*package.warnings, *verdict.warnings),
        text="",
        format="text",
        page_width_points=package.page_width_points,
        page_height_points=package.page_height_points,
        rotate_key=package.rotate_key,
        turn_applied=package.turn_applied,
        dpi_asked=package.dpi_asked,
        dpi_used=package.dpi_used,
        image_width=package.image_width,
        image_height=package.image_height,
        how=package.how,
        mode=package.prepared.mode,
        tile_columns=package.prepared.tile_columns,
        tile_rows=package.prepared.tile_rows,
        transform=package.view_to_page,
    )
    if page_text is None:
        return row
    failed = verdict.outcome is Outcome.FAILED
    readings = passes or (page_text,)
    return replace(
        row,
        text=None if failed else page_text.text,
        format=None if failed else page_text.format,
        blocks=() if failed else tuple(_block(block, package) for block in page_text.blocks),
        policy=page_text.policy,
        kept_share=page_text.kept_share,
        image_tokens=page_text.image_tokens,
        output_tokens=page_text.output_tokens,
        finish_reason=page_text.finish_reason,
        mean_logprob=page_text.mean_logprob,
        min_logprob_window=page_text.min_logprob_window,
        image_kv_read_share=page_text.image_kv_read_share,
        dense_retry=bool(passes),
        text_before_retry=passes[0].text if passes else None,
        retry_changed_text=passes[0].text != page_text.text if passes else None,
        loop_share=page_text.loop_share,
        encode_seconds=sum(reading.encode_seconds for reading in readings),
        decode_seconds=sum(reading.decode_seconds for reading in readings),
        queue_seconds=sum(reading.queue_seconds for reading in readings),
    )


def failed_page_row(
    expected: ManifestPage,
    reason: Reason,
    detail: str,
    reader: Reader,
    cost: PageCost | None = None,
) -> PageRow:
    """The row of a page that never became text: the reason for scripts, the detail for people."""
    return replace(
        _row(expected, Outcome.FAILED, reader, cost),
        reason=reason.value,
        warnings=(detail,) if detail else (),
        page_width_points=expected.width_points,
        page_height_points=expected.height_points,
    )


def duplicate_page_row(expected: ManifestPage, reader: Reader) -> PageRow:
    """The row of a page that is read in another document with the same bytes (`duplicate_of`)."""
    return _row(expected, Outcome.DUPLICATE, reader, None)


def document_row(document: ManifestDocument, outcomes: Mapping[str, int]) -> DocumentRow:
    """The row of a document, from its manifest row and the number of its pages by outcome.

    Complete means that every page it has was read; failed pages and pages beyond a limit were not.
    """
    failed = outcomes.get(Outcome.FAILED, 0)
    read = sum(outcomes.values()) - failed
    if document.reason is not None:
        outcome = DocumentOutcome.QUARANTINED
    else:
        outcome = (
            DocumentOutcome.PARTIAL if failed or read < document.page_count else DocumentOutcome.COMPLETE
        )
    good = (*OK_OUTCOMES, Outcome.DUPLICATE)
    return DocumentRow(
        document_id=document.document_id,
        source_uri=document.source_uri,
        etag=document.etag,
        bytes=document.bytes,
        content_hash=document.content_hash,
        format=document.format,
        pages=document.page_count,
        pages_ok=sum(outcomes.get(name, 0) for name in good),
        pages_flagged=outcomes.get(Outcome.FLAGGED, 0),
        pages_failed=failed,
        outcome=outcome.value,
        reason=document.reason,
        repaired=document.repaired,
        warnings=document.warnings,
        duplicate_of=document.duplicate_of,
    )


def _row(expected: ManifestPage, outcome: Outcome, reader: Reader, cost: PageCost | None) -> PageRow:
    """Identity, reader and cost: what every row has."""
    return PageRow(
        run_id=reader.run_id,
        document_id=expected.document_id,
        source_uri=expected.source_uri,
        source_etag=expected.source_etag,
        source_bytes=expected.source_bytes,
        page_index=expected.page_index,
        page_label=expected.page_label,
        page_count=expected.page_count,
        page_id=expected.page_id,
        duplicate_of=expected.duplicate_of,
        outcome=outcome.value,
        model=reader.model,
        model_revision=reader.model_revision,
        prompt=reader.prompt,
        policy=reader.policy,
        kept_share=reader.kept_share,
        rasterize_seconds=cost.rasterize_seconds if cost is not None else None,
        gpu_seconds=cost.gpu_seconds if cost is not None else None,
        node=reader.node,
        gpu_id=reader.gpu_id,
        actor=reader.actor,
        source_hash=expected.source_hash,
        finished_at=datetime.now(UTC),
    )


def _block(block: Block, package: PagePackage) -> PageBlock:
    """A block with its box in page points, cut at the edges of the page: views end in padding."""
    box = None
    if block.box is not None:
        x0, y0, x1, y1 = map_box(package.image_to_page, block.box)
        width, height = package.page_width_points, package.page_height_points
        box = BoxPoints(_within(x0, width), _within(y0, height), _within(x1, width), _within(y1, height))
    return PageBlock(block.kind, box, block.text)


def _within(value: float, limit: float) -> float:
    return min(max(value, 0.0), limit)
