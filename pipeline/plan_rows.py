"""The plan of every single document as a Parquet file: what the survey found, and the visual tokens of its pages."""

from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from workers.schema import MANIFEST_DOCUMENT_SCHEMA
from workers.surveyed import SurveyedBatch

TOKENS_FIELD = pa.field(
    "image_tokens",
    pa.int64(),
    nullable=False,
    metadata={"description": "image tokens of its pages to expect"},
)
PLAN_SCHEMA = MANIFEST_DOCUMENT_SCHEMA.append(TOKENS_FIELD)


class PlanTable:
    """Writes rows as they come; the file is there under its name only when it is whole."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._draft = file.with_name(f".{file.name}.part")

    def __enter__(self) -> "PlanTable":
        """Begin the file. Raises `OSError` where it cannot be written."""
        self._writer = pq.ParquetWriter(self._draft, PLAN_SCHEMA, compression="zstd")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Put the file in its place, or leave nothing if the plan was not finished."""
        self._writer.close()
        if kind is None:
            self._draft.replace(self._file)
        else:
            self._draft.unlink()

    def add(self, batch: SurveyedBatch) -> None:
        """Take the documents of one batch."""
        tokens = batch.pages.column("estimated_image_tokens").to_pylist()
        sums, begin = [], 0
        for count in batch.page_counts():
            sums.append(sum(tokens[begin : begin + count]))
            begin += count
        self._writer.write_table(batch.documents.append_column(TOKENS_FIELD, pa.array(sums, pa.int64())))
