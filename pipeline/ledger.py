"""The closing check: every page of the manifest stands in the published parts exactly once, with an outcome.

What does not add up makes the run fail, loudly. Counting reads a few columns of each part and keeps only
sums per document, so that memory does not grow with the pages.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow.parquet as pq

from pipeline.planner import Part, group_parts
from workers.assemble import document_row
from workers.layout import part_key
from workers.manifest_reader import ManifestReader
from workers.object_store import ObjectStore, StorageMissing
from workers.outcomes import DocumentOutcome, Outcome
from workers.schema import DocumentRow

COLUMNS = ["page_id", "document_id", "outcome", "reason", "output_tokens", "image_tokens"]


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
        try:
            with store.open(key) as reader:
                columns = pq.ParquetFile(reader).read(COLUMNS).to_pydict()
        except StorageMissing as error:
            raise LedgerError(f"The ledger does not add up: {key} was never published.") from error
        expected = [page.page_id for page in manifest.pages(part.first_row, part.page_count)]
        check_part(expected, columns["page_id"], key)
        _add(tally, columns)
    return tally


def check_run(store: ObjectStore, manifest: ManifestReader) -> Tally:
    """Check the whole target: all parts, and no page beyond those of the manifest."""
    tally = count_parts(store, manifest, group_parts(manifest.shards))
    if tally.pages != manifest.page_count:
        raise LedgerError(
            f"The ledger does not add up: {manifest.page_count} pages were expected and "
            f"{tally.pages} are published."
        )
    return tally


def document_rows(manifest: ManifestReader, tally: Tally) -> Iterator[DocumentRow]:
    """One row per object of the source, quarantined ones included."""
    for document in manifest.documents():
        yield document_row(document, tally.by_document.get(document.document_id, Counter()))


def quarantined(rows: Sequence[DocumentRow]) -> list[DocumentRow]:
    """The documents that gave no pages."""
    return [row for row in rows if row.outcome == DocumentOutcome.QUARANTINED]


def _add(tally: Tally, columns: dict[str, list[object]]) -> None:
    known = {str(outcome) for outcome in Outcome}
    for document_id, outcome in zip(columns["document_id"], columns["outcome"], strict=True):
        if outcome not in known:
            raise LedgerError(f"The ledger does not add up: {outcome!r} is no outcome.")
        tally.outcomes[str(outcome)] += 1
        tally.by_document.setdefault(str(document_id), Counter())[str(outcome)] += 1
    tally.reasons.update(str(reason) for reason in columns["reason"] if reason is not None)
    tally.output_tokens += sum(int(str(count)) for count in columns["output_tokens"] if count is not None)
    tally.image_tokens += sum(int(str(count)) for count in columns["image_tokens"] if count is not None)
