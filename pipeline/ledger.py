"""The closing check: every page of the manifest stands in the published parts exactly once, with an outcome.

What does not add up makes the run fail, loudly. Counting reads a few columns of one part after the other. Parts
and manifest hold documents in the same order, so what is counted of each waits on disk until its row is made, and
memory grows neither with pages nor with documents.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa

from pipeline.planner import Part, group_parts
from pipeline.spilled import CountsByDocument
from pipeline.stored import read_facts, read_table
from workers.assemble import document_row
from workers.layout import DOCUMENTS_FOLDER, PAGES_FOLDER, SUCCESS_KEY, documents_key, part_key
from workers.manifest_reader import ManifestReader
from workers.object_store import ObjectStore, StorageDamaged, StorageMissing
from workers.outcomes import Outcome, Reason
from workers.schema import PAGE_SCHEMA, DocumentRow, ManifestPage, rows_to_table

DOCUMENTS_PER_PART = 100_000
ROWS_AT_ONCE = 1024
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
    by_document: CountsByDocument = field(default_factory=CountsByDocument)
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


def count_parts(store: ObjectStore, manifest: ManifestReader, parts: Iterable[Part]) -> Tally:
    """Check and count these parts, in order, all of which must be published; raises `LedgerError`."""
    tally = Tally()
    for part in parts:
        key = part_key(part.part_index)
        columns = _published(store, key, COLUMNS, PAGE_SCHEMA).to_pydict()
        expected = manifest.pages(part.first_row, part.page_count)
        check_part([page.page_id for page in expected], columns["page_id"], key)
        _add(tally, columns)
        _add_documents(tally, expected, columns)
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
        check_documents(store, document_tables(document_rows(manifest, tally)))
        check_mark(store, counted_facts(manifest, tally))
    return tally


def document_tables(rows: Iterable[DocumentRow]) -> Iterator[tuple[str, pa.Table]]:
    """The document table in parts under their keys; one empty part if there are no documents."""
    waiting = iter(rows)
    number = 0
    while True:
        pieces = [rows_to_table([], DocumentRow)]
        for first in range(0, DOCUMENTS_PER_PART, ROWS_AT_ONCE):
            taken = list(islice(waiting, min(ROWS_AT_ONCE, DOCUMENTS_PER_PART - first)))
            if not taken:
                break
            pieces.append(rows_to_table(taken, DocumentRow))
        if number and len(pieces) == 1:
            return
        yield documents_key(number), pa.concat_tables(pieces)
        number += 1


def check_documents(store: ObjectStore, tables: Iterable[tuple[str, pa.Table]]) -> None:
    """Compare the published document table with what was counted, part by part; raises `LedgerError`."""
    keys = set()
    for key, expected in tables:
        keys.add(key)
        if not _published(store, key).equals(expected):
            raise LedgerError(
                f"The ledger does not add up: {store.uri(key)} does not say of every document what was counted."
            )
    _refuse_strangers(store, DOCUMENTS_FOLDER, keys)


def counted_facts(manifest: ManifestReader, tally: Tally) -> dict[str, Any]:
    """What the closing mark says of documents and pages."""
    return {
        "documents": manifest.document_count,
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
    """One row per object of the source, quarantined ones included; raises `LedgerError`."""
    counted = iter(tally.by_document)
    following = next(counted, None)
    for document in manifest.documents():
        outcomes: Mapping[str, int] = {}
        if following is not None and following[0] == document.document_id:
            outcomes = following[1]
            following = next(counted, None)
        yield document_row(document, outcomes)
    if following is not None:
        raise LedgerError(
            f"The ledger does not add up: the manifest has pages of document {following[0]}, but no document of "
            "that name in its place."
        )


def _published(
    store: ObjectStore, key: str, columns: Sequence[str] | None = None, schema: pa.Schema | None = None
) -> pa.Table:
    try:
        return read_table(store, key, columns, schema=schema)
    except StorageMissing as error:
        if not store.exists(SUCCESS_KEY):  # what is still to come is not missing
            raise LedgerError(
                f"The run is not complete: {key} is not published yet. The command that began it carries it on."
            ) from error
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


def _add(tally: Tally, columns: dict[str, list[Any]]) -> None:
    for name, known in (("outcome", {*Outcome}), ("reason", {*Reason, None})):
        strange = [value for value in columns[name] if value not in known]
        if strange:
            raise LedgerError(f"The ledger does not add up: {strange[0]!r} is no {name}.")
    tally.outcomes.update(map(str, columns["outcome"]))
    tally.reasons.update(str(reason) for reason in columns["reason"] if reason is not None)
    tally.output_tokens += sum(int(count) for count in columns["output_tokens"] if count is not None)
    tally.second_passes += sum(changed is not None for changed in columns["retry_changed_text"])
    tally.texts_changed += sum(changed is True for changed in columns["retry_changed_text"])
    tally.image_tokens += sum(int(count) for count in columns["image_tokens"] if count is not None)


def _add_documents(
    tally: Tally, expected: Sequence[ManifestPage], columns: Mapping[str, Sequence[Any]]
) -> None:
    """Count the pages of a checked part for their documents, in the order of the manifest."""
    found = zip(columns["document_id"], columns["outcome"], strict=True)
    by_page = dict(zip(columns["page_id"], found, strict=True))
    for page in expected:
        document_id, outcome = by_page[page.page_id]
        if document_id != page.document_id:
            raise LedgerError(
                f"The ledger does not add up: page {page.page_id} is said to be of {document_id}."
            )
        try:
            tally.by_document.add(document_id, outcome)
        except ValueError as error:
            raise LedgerError(
                f"The ledger does not add up: {document_id!r} is no document's name."
            ) from error
