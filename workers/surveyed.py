"""What the survey of one batch found, as tables: documents in order, and their expected pages in order.

Stored as one Parquet object with a row for each document that holds its pages, so that a batch is there as a
whole or not at all.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from workers.schema import (
    MANIFEST_DOCUMENT_SCHEMA,
    MANIFEST_PAGE_SCHEMA,
    ManifestDocument,
    ManifestPage,
    rows_to_table,
    table_to_parquet,
)

PAGES_COLUMN = "pages"


@dataclass(frozen=True, slots=True)
class SurveyedBatch:
    """Tables of `ManifestDocument` and `ManifestPage`; each document has as many pages here as it says."""

    documents: pa.Table
    pages: pa.Table

    def page_counts(self) -> list[int]:
        """Pages of each document."""
        counts: list[int] = self.documents.column("page_count").to_pylist()
        return counts


def batch_from_rows(documents: Sequence[ManifestDocument], pages: Sequence[ManifestPage]) -> SurveyedBatch:
    """Tables from rows; the pages follow each other as their documents do."""
    return SurveyedBatch(rows_to_table(documents, ManifestDocument), rows_to_table(pages, ManifestPage))


def batch_to_parquet(batch: SurveyedBatch) -> bytes:
    """One object for both tables."""
    offsets = [0]
    for count in batch.page_counts():
        offsets.append(offsets[-1] + count)
    if offsets[-1] != batch.pages.num_rows:
        raise ValueError(f"the documents have {offsets[-1]} pages, and {batch.pages.num_rows} are given")
    columns = [column.combine_chunks() for column in batch.pages.columns]
    pages = pa.StructArray.from_arrays(columns, fields=list(MANIFEST_PAGE_SCHEMA))
    nested = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pages)
    return table_to_parquet(batch.documents.append_column(PAGES_COLUMN, nested))


def batch_from_parquet(data: bytes) -> SurveyedBatch:
    """Inverse of `batch_to_parquet`. ValueError (or an error of pyarrow's, which is one) if it is not whole."""
    table = pq.ParquetFile(io.BytesIO(data)).read()
    lacking = {PAGES_COLUMN, *MANIFEST_DOCUMENT_SCHEMA.names} - set(table.column_names)
    if lacking:
        raise ValueError(f"it lacks the columns {', '.join(sorted(lacking))}")
    documents = table.select(MANIFEST_DOCUMENT_SCHEMA.names).cast(MANIFEST_DOCUMENT_SCHEMA)
    pages = table.column(PAGES_COLUMN).combine_chunks().flatten()
    columns = [pages.field(name) for name in MANIFEST_PAGE_SCHEMA.names]
    return SurveyedBatch(documents, pa.Table.from_arrays(columns, schema=MANIFEST_PAGE_SCHEMA))
