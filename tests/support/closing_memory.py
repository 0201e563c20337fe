"""Measures the memory that closing a run takes, in a process of its own: `python -m tests.support.closing_memory
FOLDER DOCUMENTS...` prints a JSON list with the peaks for each number of documents.

Of its own, since Python 3.11 may crash when tracing is stopped while threads of Arrow allocate; here it never is.
"""

import json
import os
import sys
import tracemalloc
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa

from pipeline import ledger, manifest
from pipeline.commit import close
from pipeline.ledger import check_run, counted_facts, document_rows
from pipeline.manifest import freeze
from pipeline.planner import ShardLimits, group_parts
from tests.unit.pipeline.factory import manifest_page, page_row
from workers import manifest_reader
from workers.ids import content_hash, document_id
from workers.layout import part_key
from workers.manifest_reader import ManifestReader
from workers.object_store import LocalStore
from workers.schema import ManifestDocument, rows_to_table, table_to_parquet
from workers.surveyed import SurveyedBatch, batch_from_rows

ROWS = 64  # of a row group, a piece, a part: small, so that every archive is cut into many


@dataclass(slots=True)
class Peaks:
    """The most that Python and Arrow held while a run was closed, in bytes."""

    python: int = 0
    arrow: int = 0


class WatchedStore(LocalStore):
    """Looks at Arrow's memory whenever something is read or written."""

    peaks = Peaks()

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self.peaks.arrow = max(self.peaks.arrow, pa.total_allocated_bytes())
        return super().put_if_absent(key, data)


def _documents(count: int) -> Iterator[SurveyedBatch]:
    names = (f"{number:06d}.pdf" for number in range(count))
    while batch := list(islice(names, 32)):
        rows = [
            ManifestDocument(
                document_id(name, "1"), name, "1", 100, content_hash=content_hash(name.encode()), page_count=1
            )
            for name in batch
        ]
        yield batch_from_rows(rows, [manifest_page(name, 0, 1) for name in batch])


def _closed(folder: Path, documents: int) -> Peaks:
    """Make a run of one-page documents that only has to be closed, and close it."""
    store = WatchedStore(str(folder))
    store.peaks = peaks = Peaks()
    freeze(store, _documents(documents), 1, ShardLimits(pages=8, part_pages=ROWS))
    for part in group_parts(ManifestReader(store).shards):
        pages = ManifestReader(store).pages(part.first_row, part.page_count)
        store.put(
            part_key(part.part_index), table_to_parquet(rows_to_table([page_row(page) for page in pages]))
        )
    before = pa.total_allocated_bytes()
    traced = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    peaks.arrow = 0
    frozen = ManifestReader(store)
    tally = check_run(store, frozen)
    close(store, document_rows(frozen, tally), counted_facts(frozen, tally))
    assert check_run(store, frozen).pages == documents
    peaks.python = tracemalloc.get_traced_memory()[1] - traced
    peaks.arrow -= before
    return peaks


def main(folder: str, *documents: str) -> None:
    """Print the peaks for each number of documents; the first of them warms up."""
    for module in (manifest, manifest_reader):
        module.ROW_GROUP_ROWS = ROWS  # type: ignore[attr-defined]
    manifest.PIECE_ROWS = {"documents": ROWS, "pages": ROWS}
    ledger.DOCUMENTS_PER_PART = ROWS
    tracemalloc.start()
    peaks = [_closed(Path(folder, f"{place}"), int(count)) for place, count in enumerate(documents)]
    print(json.dumps([asdict(each) for each in peaks]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
