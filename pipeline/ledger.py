"""The closing check: every page of the manifest stands in the published parts exactly once, with an outcome.

What does not add up makes the run fail, loudly. Counting reads a few columns of each part and keeps only
sums per document, so that memory does not grow with the pages.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pipeline.planner import Part, group_parts
from pipeline.stored import read_facts, read_table
from workers.assemble import document_row
from workers.layout import DOCUMENTS_FOLDER, PAGES_FOLDER, SUCCESS_KEY, documents_key, part_key
from workers.manifest_reader import ManifestReader
from workers.object_store import ObjectStore, StorageDamaged, StorageMissing
from workers.outcomes import DocumentOutcome, Outcome
from workers.schema import DocumentRow, rows_to_table

DOCUMENTS_PER_PART = 100_000
COUNTED_FACTS = ("documents", "pages", "outcomes")
COLUMNS = [
    "page_id",
    "document_id",
    "outcome",
    "reason",
    "output_tokens",
    "image_tokens",
    "retry_changed_text",
]


class LedgerError(Exception):
    """Pages are missing, doubled or unknown; the message says how many and names the first."""


@dataclass(slots=True)
class Tally:
    """Sums over published pages."""

    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    by_document: dict[str, Counter[str]] = field(default_factory=dict)
    output_tokens: int = 0
    image_tokens: int = 0
    second_passes: int = 0
    texts_changed: int = 0

    @property
    def pages(self) -> int:
        return sum(self.outcomes.values())


def check_part(expected_ids: Sequence[str], found_ids: Sequence[str], name: str) -> None:
    """Compare one part with the manifest; raises `LedgerError`."""
    expected, found = Counter(expected_ids), Counter(found_ids)
    missing, surplus = expected - found, found - expected
    if missing or surplus:
        first = next(iter(missing or surplus))
        raise LedgerError(
            f"The ledger does not add up: {name} lacks {missing.total()} pages of the manifest and holds "
            f"{surplus.total()} too many; the first is {first}."
        )


def count_parts(store: ObjectStore, manifest: ManifestReader, parts: Sequence[Part]) -> Tally:
    """Check and count these parts, all of which must be published; raises `LedgerError`."""
    tally = Tally()
    for part in parts:
        key = part_key(part.part_index)
        columns = _published(store, key, COLUMNS).to_pydict()
        expected = [page.page_id for page in manifest.pages(part.first_row, part.page_count)]
        check_part(expected, columns["page_id"], key)
        _add(tally, columns)
    return tally


def check_run(store: ObjectStore, manifest: ManifestReader) -> Tally:
    """Check the whole target: all parts, no page beyond those of the manifest, and no table beyond the parts.

    Of a complete target, the document table and the closing mark too. Raises `LedgerError`.
    """
    parts = group_parts(manifest.shards)
    _refuse_strangers(store, PAGES_FOLDER, {part_key(part.part_index) for part in parts})
    tally = count_parts(store, manifest, parts)
    if tally.pages != manifest.page_count:
        raise LedgerError(
            f"The ledger does not add up: {manifest.page_count} pages were expected and "
            f"{tally.pages} are published."
        )
    if store.exists(SUCCESS_KEY):
        rows = list(document_rows(manifest, tally))
        check_documents(store, rows)
        check_mark(store, counted_facts(rows, tally))
    return tally


def document_tables(rows: Sequence[DocumentRow]) -> Iterator[tuple[str, pa.Table]]:
    """The document table in parts under their keys; one empty part if there are no documents."""
    for number, first in enumerate(range(0, max(len(rows), 1), DOCUMENTS_PER_PART)):
        yield documents_key(number), rows_to_table(rows[first : first + DOCUMENTS_PER_PART], DocumentRow)


def check_documents(store: ObjectStore, rows: Sequence[DocumentRow]) -> None:
    """Compare the published document table with what was counted; raises `LedgerError`."""
    keys = set()
    for key, expected in document_tables(rows):
        keys.add(key)
        if not _published(store, key).equals(expected):
            raise LedgerError(
                f"The ledger does not add up: {store.uri(key)} does not say of every document what was counted."
            )
    _refuse_strangers(store, DOCUMENTS_FOLDER, keys)


def counted_facts(rows: Sequence[DocumentRow], tally: Tally) -> dict[str, Any]:
    """What the closing mark says of documents and pages."""
    return {
        "documents": len(rows),
        "pages": tally.pages,
        "outcomes": dict(tally.outcomes),
        "second_passes": tally.second_passes,
        "texts_changed": tally.texts_changed,
    }


def check_mark(store: ObjectStore, facts: Mapping[str, Any]) -> None:
    """Compare the counts in the closing mark with `facts`; raises `LedgerError`."""
    found = read_facts(store, SUCCESS_KEY)
    for name in COUNTED_FACTS:
        if found.get(name) != facts.get(name):
            raise LedgerError(
                f"The ledger does not add up: {store.uri(SUCCESS_KEY)} says {name} {found.get(name)}, "
                f"counted were {facts.get(name)}."
            )


def document_rows(manifest: ManifestReader, tally: Tally) -> Iterator[DocumentRow]:
    """One row per object of the source, quarantined ones included."""
    for document in manifest.documents():
        yield document_row(document, tally.by_document.get(document.document_id, Counter()))


def quarantined(rows: Sequence[DocumentRow]) -> list[DocumentRow]:
    """The documents that gave no pages."""
    return [row for row in rows if row.outcome == DocumentOutcome.QUARANTINED]


def _published(store: ObjectStore, key: str, columns: Sequence[str] | None = None) -> pa.Table:
    try:
        return read_table(store, key, columns)
    except StorageMissing as error:
        raise LedgerError(f"The ledger does not add up: {key} was never published.") from error
    except StorageDamaged as error:
        raise LedgerError(f"The ledger does not add up: {error}") from error


def _refuse_strangers(store: ObjectStore, folder: str, expected: Collection[str]) -> None:
    """Readers take every table in the folder for output; one too many would double or invent rows."""
    strangers = sorted(
        stored.key
        for stored in store.list(folder)
        if stored.key.lower().endswith(".parquet") and stored.key not in expected
    )
    if strangers:
        raise LedgerError(
            f"The ledger does not add up: {store.uri(strangers[0])} is no part of this run "
            f"({len(strangers)} such in {folder}); move it away."
        )


def _add(tally: Tally, columns: dict[str, list[object]]) -> None:
    known = {str(outcome) for outcome in Outcome}
    for document_id, outcome in zip(columns["document_id"], columns["outcome"], strict=True):
        if outcome not in known:
            raise LedgerError(f"The ledger does not add up: {outcome!r} is no outcome.")
        tally.outcomes[str(outcome)] += 1
        tally.by_document.setdefault(str(document_id), Counter())[str(outcome)] += 1
    tally.reasons.update(str(reason) for reason in columns["reason"] if reason is not None)
    tally.output_tokens += sum(int(str(count)) for count in columns["output_tokens"] if count is not None)
    tally.second_passes += sum(changed is not None for changed in columns["retry_changed_text"])
    tally.texts_changed += sum(changed is True for changed in columns["retry_changed_text"])
    tally.image_tokens += sum(int(str(count)) for count in columns["image_tokens"] if count is not None)
