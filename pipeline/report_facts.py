"""Reads from a target what a report tells: counts of all pages and documents, and a bounded choice of those that
need a look.

Tables are read one row group after the other, and texts only where a page of that group is to be listed, so
memory does not grow with the archive.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.claim import read_claim
from pipeline.stored import check_columns, checked_rows, numbers_below, read_facts, whole
from pipeline.summary import RunStatus, inspect_target
from workers.layout import DOCUMENTS_FOLDER, PAGES_FOLDER, SUCCESS_KEY, documents_key, manifest_key, part_key
from workers.object_store import ObjectStore
from workers.outcomes import DocumentOutcome, Outcome
from workers.schema import DOCUMENT_SCHEMA, MANIFEST_DOCUMENT_SCHEMA, PAGE_SCHEMA

LISTED_PER_REASON = 20
MOST_REASONS = 40
LISTED_DOCUMENTS = 200
SHOWN_CHARACTERS = 4000
COUNT_COLUMNS = ["outcome", "reason", "flags", "dense_retry", "image_tokens", "output_tokens"]
LIST_COLUMNS = [
    "source_uri", "page_index", "page_label", "outcome", "reason", "flags", "warnings", "text",
    "text_before_retry", "dense_retry", "mean_logprob", "output_tokens", "finish_reason",
]  # fmt: skip
DOCUMENT_COLUMNS = ["source_uri", "outcome", "reason", "warnings", "bytes"]
MANIFEST_COLUMNS = ["source_uri", "reason", "warnings", "bytes"]
LISTED_OUTCOMES = (Outcome.FLAGGED, Outcome.FAILED)
NO_REASON = "without a reason"
OTHER_REASONS = "other reasons"


@dataclass(frozen=True, slots=True)
class ListedPage:
    """One flagged or failed page with the first `SHOWN_CHARACTERS` of its text; the counts are of the whole text."""

    source_uri: str
    page_index: int
    page_label: str | None
    outcome: str
    reason: str | None
    flags: tuple[str, ...]
    warnings: tuple[str, ...]
    text: str | None
    text_characters: int
    text_before_retry: str | None
    characters_before_retry: int
    dense_retry: bool
    mean_logprob: float | None
    output_tokens: int | None


@dataclass(slots=True)
class PageFacts:
    """Sums over all published pages, and the chosen ones by outcome and reason."""

    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    image_tokens: int = 0
    output_tokens: int = 0
    dense_retries: int = 0
    changed_by_retry: int = 0
    listed: dict[tuple[str, str], list[ListedPage]] = field(default_factory=dict)
    listed_per_reason: int = LISTED_PER_REASON


@dataclass(slots=True)
class DocumentFacts:
    """Sums over all documents, and the first quarantined ones as (location, reason, warnings)."""

    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    quarantined: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """Everything a report needs to know besides measurements. `finished_at` is None while the run goes on."""

    status: RunStatus
    claim: Mapping[str, Any]
    finished_at: str | None
    pages: PageFacts
    documents: DocumentFacts


def target_facts(store: ObjectStore, listed_per_reason: int = LISTED_PER_REASON) -> TargetFacts:
    """Read a target in whatever state it is; raises `StorageMissing` if there is none, `StorageDamaged` where a
    published table is not whole.
    """
    status = inspect_target(store)
    claim = read_claim(store)
    complete = store.exists(SUCCESS_KEY)
    finished_at = str(read_facts(store, SUCCESS_KEY).get("finished_at", "")) if complete else None
    pages = PageFacts(listed_per_reason=listed_per_reason)
    for number in sorted(numbers_below(store, PAGES_FOLDER, part_key)):
        row_groups(store, part_key(number), COUNT_COLUMNS, PAGE_SCHEMA, partial(count_group, pages))
    return TargetFacts(status, claim, finished_at, pages, _document_facts(store, complete))


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Some columns of one row group, and the way to more of them."""

    file: pq.ParquetFile
    number: int
    table: pa.Table
    schema: pa.Schema

    def more(self, columns: Sequence[str]) -> pa.Table:
        """Other columns of the same rows; those the file lacks are left out."""
        there = [name for name in columns if name in self.file.schema_arrow.names]
        return checked_rows(self.file, self.number, there, self.schema)


def row_groups(
    store: ObjectStore, key: str, columns: Sequence[str], schema: pa.Schema, look: Callable[[RowGroup], None]
) -> None:
    """`look` at the row groups of a Parquet object, one at a time; raises `StorageDamaged` if it is not whole."""
    with whole(store, key), store.open(key) as reader:
        file = pq.ParquetFile(reader)
        check_columns(file, columns)
        for number in range(file.num_row_groups):
            look(RowGroup(file, number, checked_rows(file, number, columns, schema), schema))


def count_group(facts: PageFacts, group: RowGroup) -> None:
    """Add the pages of one row group."""
    columns = group.table.to_pydict()
    outcomes, reasons = columns["outcome"], columns["reason"]
    facts.outcomes.update(outcomes)
    facts.image_tokens += sum(value or 0 for value in columns["image_tokens"])
    facts.output_tokens += sum(value or 0 for value in columns["output_tokens"])
    wanted = []
    for place, (outcome, reason, flags) in enumerate(zip(outcomes, reasons, columns["flags"], strict=True)):
        facts.flags.update(flags or ())
        retried = bool(columns["dense_retry"][place])
        facts.dense_retries += retried
        listed = False
        if outcome in LISTED_OUTCOMES or reason:
            key = (outcome, _reason_key(facts, outcome, reason, flags))
            facts.reasons[key] += 1
            listed = outcome in LISTED_OUTCOMES and _has_room(facts, key)
        if listed or retried:
            wanted.append((place, listed))
    if wanted:
        _look_closely(facts, group, wanted)


def _reason_key(facts: PageFacts, outcome: str, reason: str | None, flags: Sequence[str] | None) -> str:
    """What a page is listed under; the number of names is bounded, whatever stands in the table."""
    name = reason or next(iter(flags or ()), NO_REASON)
    if (outcome, name) in facts.reasons or len(facts.reasons) < MOST_REASONS:
        return name
    return OTHER_REASONS


def _has_room(facts: PageFacts, key: tuple[str, str]) -> bool:
    """Take a place in the list of this reason, if one is left. `_look_closely` fills it."""
    return facts.reasons[key] <= facts.listed_per_reason


def _look_closely(facts: PageFacts, group: RowGroup, wanted: Sequence[tuple[int, bool]]) -> None:
    rows = pc.take(group.more(LIST_COLUMNS), pa.array([place for place, _ in wanted])).to_pylist()
    for (_, listed), row in zip(wanted, rows, strict=True):
        before = row.get("text_before_retry")
        facts.changed_by_retry += (
            bool(row.get("dense_retry")) and before is not None and before != row["text"]
        )
        if listed:
            page = _listed_page(row)
            key = (page.outcome, page.reason or next(iter(page.flags), NO_REASON))
            if key not in facts.reasons:
                key = (page.outcome, OTHER_REASONS)
            facts.listed.setdefault(key, []).append(page)


def _listed_page(row: Mapping[str, Any]) -> ListedPage:
    before = row.get("text_before_retry")
    return ListedPage(
        source_uri=row["source_uri"],
        page_index=row["page_index"],
        page_label=row.get("page_label"),
        outcome=row["outcome"],
        reason=row["reason"],
        flags=tuple(row["flags"] or ()),
        warnings=tuple(row["warnings"] or ()),
        text=None if row["text"] is None else row["text"][:SHOWN_CHARACTERS],
        text_characters=len(row["text"] or ""),
        text_before_retry=None if before is None else before[:SHOWN_CHARACTERS],
        characters_before_retry=len(before or ""),
        dense_retry=bool(row.get("dense_retry")),
        mean_logprob=row.get("mean_logprob"),
        output_tokens=row.get("output_tokens"),
    )


def _document_facts(store: ObjectStore, complete: bool) -> DocumentFacts:
    """From the document table, or before there is one from the manifest, which knows the quarantined ones."""
    facts = DocumentFacts()
    if complete:
        keys = [
            documents_key(number) for number in sorted(numbers_below(store, DOCUMENTS_FOLDER, documents_key))
        ]
    else:
        keys = sorted(stored.key for stored in store.list(manifest_key("documents").rpartition("/")[0] + "/"))
    columns = DOCUMENT_COLUMNS if complete else MANIFEST_COLUMNS
    schema = DOCUMENT_SCHEMA if complete else MANIFEST_DOCUMENT_SCHEMA

    def count(group: RowGroup) -> None:
        for row in group.table.to_pylist():
            _count_document(facts, row)

    for key in keys:
        row_groups(store, key, columns, schema, count)
    return facts


def _count_document(facts: DocumentFacts, row: Mapping[str, Any]) -> None:
    outcome = row.get("outcome") or (DocumentOutcome.QUARANTINED if row["reason"] else "surveyed")
    facts.outcomes[str(outcome)] += 1
    facts.bytes += row["bytes"] or 0
    if outcome == DocumentOutcome.QUARANTINED:
        reason = str(row["reason"])
        facts.reasons[reason] += 1
        if len(facts.quarantined) < LISTED_DOCUMENTS:
            facts.quarantined.append((row["source_uri"], reason, tuple(row["warnings"] or ())))
