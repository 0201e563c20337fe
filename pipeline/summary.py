"""What a run came to: pages by outcome, what failed and why, and a taste of the text. Reads the target
only.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline.claim import read_claim
from pipeline.ledger import Tally, count_parts
from pipeline.pace import pace_words
from pipeline.planner import group_parts
from pipeline.progress import Observer
from pipeline.resume import find_progress, finished_pages
from pipeline.stored import numbers_below, read_facts, read_table
from workers.layout import DOCUMENTS_FOLDER, PAGES_FOLDER, SUCCESS_KEY, documents_key, part_key
from workers.manifest_reader import ManifestReader
from workers.object_store import ObjectStore
from workers.outcomes import DocumentOutcome, Outcome
from workers.schema import DOCUMENT_SCHEMA, PAGE_SCHEMA

LISTED_FAILURES = 20
PREVIEW_DOCUMENTS = 8
PREVIEW_LINES = 3
PREVIEW_COLUMNS = ["source_uri", "page_index", "outcome", "text"]
QUARANTINE_COLUMNS = ["source_uri", "outcome", "reason"]
FAILURE_COLUMNS = ["source_uri", "page_index", "outcome", "reason"]
MARK_FACTS = ("documents", "pages", "outcomes", "shards", "shard_readings")
EXIT_OK, EXIT_PAGES_FAILED = 0, 3


@dataclass(frozen=True, slots=True)
class FirstLines:
    """The first lines read of one document."""

    source_uri: str
    page_index: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A complete target in numbers."""

    root: str
    documents: int
    pages: int
    outcomes: dict[str, int]
    shards: int
    shard_readings: int
    second_passes: int = 0
    texts_changed: int = 0
    documents_quarantined: int = 0
    quarantined: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    first_lines: tuple[FirstLines, ...] = ()

    @property
    def pages_failed(self) -> int:
        return self.outcomes.get(Outcome.FAILED, 0)

    @property
    def pages_flagged(self) -> int:
        return self.outcomes.get(Outcome.FLAGGED, 0)

    def exit_code(self, *, strict: bool = False) -> int:
        """0 if nothing failed, 3 if pages failed or documents were quarantined (or, if strict, flagged)."""
        failed = self.pages_failed or self.documents_quarantined or (strict and self.pages_flagged)
        return EXIT_PAGES_FAILED if failed else EXIT_OK


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A target in whatever state it is."""

    root: str
    model: str
    source: str
    state: str
    pages: int = 0
    pages_finished: int = 0
    parts: int = 0
    parts_published: int = 0
    shards_staged: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)


def summarise(store: ObjectStore) -> RunSummary:
    """Summary of a complete target; raises `StorageMissing` if it is not complete."""
    facts = read_facts(store, SUCCESS_KEY, MARK_FACTS)
    failed = int(facts["outcomes"].get(Outcome.FAILED, 0))
    documents_quarantined, quarantined = _quarantined(store)
    return RunSummary(
        root=store.root,
        documents=facts["documents"],
        pages=facts["pages"],
        outcomes=facts["outcomes"],
        shards=facts["shards"],
        shard_readings=facts["shard_readings"],
        second_passes=int(facts.get("second_passes", 0)),
        texts_changed=int(facts.get("texts_changed", 0)),
        documents_quarantined=documents_quarantined,
        quarantined=tuple(quarantined),
        failures=tuple(_failures(store)) if failed else (),
        first_lines=tuple(_first_lines(store)),
    )


def inspect_target(store: ObjectStore) -> RunStatus:
    """Status of a target at any moment; raises `StorageMissing` if there is none."""
    claim = read_claim(store)
    model, source = claim["text_values"]["model"], claim["text_values"]["source"]
    if store.exists(SUCCESS_KEY):
        facts = read_facts(store, SUCCESS_KEY, MARK_FACTS)
        parts = len(numbers_below(store, PAGES_FOLDER, part_key))
        return RunStatus(
            store.root, model, source, "complete", facts["pages"], facts["pages"], parts, parts, 0,
            facts["outcomes"],
        )  # fmt: skip
    from pipeline.manifest import is_frozen

    if not is_frozen(store):
        return RunStatus(store.root, model, source, "surveying: the documents are being counted")
    manifest = ManifestReader(store)
    progress = find_progress(store)
    parts_all = group_parts(manifest.shards)
    published = [part for part in parts_all if part.part_index in progress.published_parts]
    return RunStatus(
        root=store.root,
        model=model,
        source=source,
        state="not complete: run the same command again to carry on",
        pages=manifest.page_count,
        pages_finished=finished_pages(parts_all, progress),
        parts=len(parts_all),
        parts_published=len(published),
        shards_staged=len(progress.staged_shards),
        outcomes=dict(count_parts(store, manifest, published).outcomes),
    )


def summary_lines(
    summary: RunSummary, session: Observer | None = None, price: float | None = None
) -> Iterator[str]:
    """The summary in words; `session` adds what this very command has read, how fast and, with the `price` of a
    GPU hour, for how much.
    """
    yield f"documents   {summary.documents} ({summary.documents_quarantined} quarantined)"
    yield f"pages       {summary.pages}: {_counts(summary.outcomes)}"
    yield f"shards      {summary.shards}, read {summary.shard_readings} times"
    if summary.second_passes:
        yield (
            f"read again  {summary.second_passes} pages whose reading was not to be trusted, densely; "
            f"{summary.texts_changed} texts changed"
        )
    if session is not None and session.pages_read:
        yield (
            f"this run    {session.pages_read} pages in {session.reading_seconds:.1f} s, "
            f"{session.pages_per_second:.2f} pages/s, model busy {session.busy_share:.0%}"
        )
        yield f"tokens      {session.image_tokens} image, {session.output_tokens} written"
        for title, words in pace_words(session.pace(price)):
            yield f"{title:<12}{words}"
    for refused in summary.quarantined:
        yield f"quarantined {refused}"
    for failure in summary.failures:
        yield f"failed      {failure}"
    more = summary.documents_quarantined - len(summary.quarantined)
    if more > 0:
        yield f"            and {more} more quarantined; see {summary.root}/documents"


def status_lines(status: RunStatus) -> Iterator[str]:
    """The status in words."""
    yield f"target      {status.root}"
    yield f"source      {status.source}, model {status.model}"
    yield f"state       {status.state}"
    if status.parts:
        yield f"pages       {status.pages_finished} of {status.pages} read"
        yield f"parts       {status.parts_published} of {status.parts} published: {_counts(status.outcomes)}"
        yield f"staged      {status.shards_staged} shards waiting for their part"


def first_lines(summary: RunSummary) -> Iterator[str]:
    """The first lines read, document by document."""
    for taste in summary.first_lines:
        yield f"{taste.source_uri}, page_index {taste.page_index}"
        yield from (f"    {line}" for line in taste.lines)


def tally_counts(tally: Tally) -> str:
    """Outcomes of a tally in one phrase."""
    return _counts(dict(tally.outcomes))


def _counts(outcomes: dict[str, int]) -> str:
    return ", ".join(f"{outcomes[name]} {name}" for name in Outcome if outcomes.get(name)) or "none"


def _quarantined(store: ObjectStore) -> tuple[int, list[str]]:
    """How many documents gave no pages, and the first of them in words."""
    count = 0
    listed: list[str] = []
    for number in sorted(numbers_below(store, DOCUMENTS_FOLDER, documents_key)):
        wanted = {"outcome": str(DocumentOutcome.QUARANTINED)}
        table = read_table(store, documents_key(number), QUARANTINE_COLUMNS, wanted, DOCUMENT_SCHEMA)
        count += table.num_rows
        for row in table.slice(0, LISTED_FAILURES - len(listed)).to_pylist():
            listed.append(f"{row['source_uri']}: {row['reason']}")
    return count, listed


def _failures(store: ObjectStore) -> Iterator[str]:
    """The first failed pages, in order."""
    listed = 0
    for number in sorted(numbers_below(store, PAGES_FOLDER, part_key)):
        wanted = {"outcome": str(Outcome.FAILED)}
        table = read_table(store, part_key(number), FAILURE_COLUMNS, wanted, PAGE_SCHEMA)
        for row in table.to_pylist():
            if listed == LISTED_FAILURES:
                return
            listed += 1
            yield f"{row['source_uri']}, page_index {row['page_index']}: {row['reason']}"


def _first_lines(store: ObjectStore) -> Iterator[FirstLines]:
    """From the first part: the first page with text of each document."""
    numbers = sorted(numbers_below(store, PAGES_FOLDER, part_key))
    seen: Counter[str] = Counter()
    for number in numbers[:1]:
        for row in read_table(store, part_key(number), PREVIEW_COLUMNS, schema=PAGE_SCHEMA).to_pylist():
            lines = [line for line in (row["text"] or "").splitlines() if line.strip()]
            if not lines or seen[row["source_uri"]]:
                continue
            if len(seen) == PREVIEW_DOCUMENTS:
                return
            seen[row["source_uri"]] += 1
            yield FirstLines(row["source_uri"], row["page_index"], tuple(lines[:PREVIEW_LINES]))
