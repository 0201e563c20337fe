"""Sums over what a survey found, and what they come to at a given rate: pure arithmetic.

Every page counts as one dense page of text: blank leaves cost less than planned, second passes more.
"""

from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow.compute as pc

from pipeline.manifest import page_loads
from pipeline.planner import PageLoad
from workers.surveyed import SurveyedBatch

UNKNOWN_FORMAT = "unknown"


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast one device reads, and what an hour of it costs in any currency; a device is a GPU or an OCR actor on
    the CPU. With `pages_per_second` None the rate is the one of visual tokens, which is `assumed` if nobody gave it.
    """

    pages_per_second: float | None
    image_tokens_per_second: float
    assumed: bool
    devices: int = 1
    price: float | None = None


@dataclass(slots=True)
class FormatTotals:
    """Sums over the documents of one format that can be opened."""

    documents: int = 0
    pages: int = 0
    image_tokens: int = 0


@dataclass(slots=True)
class Plan:
    """Sums over all documents. Pages of skipped duplicates are counted, but not as work."""

    documents: int = 0
    bytes: int = 0
    pages: int = 0
    pages_to_read: int = 0
    image_tokens: int = 0
    unknown_pages: int = 0
    duplicates: int = 0
    duplicate_pages: int = 0
    repaired: int = 0
    formats: dict[str, FormatTotals] = field(default_factory=dict)
    unreadable: dict[str, int] = field(default_factory=dict)

    def add(self, batch: SurveyedBatch, *, skip_duplicates: bool) -> None:
        """Take one batch."""
        loads = page_loads(batch.pages, skip_duplicates=skip_duplicates)
        self.unknown_pages += int(pc.sum(pc.equal(batch.pages["estimated_pixels"], 0)).as_py() or 0)
        for count, document in zip(batch.page_counts(), batch.documents.to_pylist(), strict=True):
            here = list(islice(loads, count))
            self._add_document(
                document, here, skipped=skip_duplicates and document["duplicate_of"] is not None
            )

    def _add_document(self, document: dict[str, Any], loads: list[PageLoad], *, skipped: bool) -> None:
        self.documents += 1
        self.bytes += document["bytes"]
        self.repaired += document["repaired"]
        if document["reason"] is not None:
            self.unreadable[document["reason"]] = self.unreadable.get(document["reason"], 0) + 1
            return
        tokens = sum(load.image_tokens for load in loads)
        if document["duplicate_of"] is not None:
            self.duplicates += 1
            self.duplicate_pages += len(loads)
        self.pages += len(loads)
        self.pages_to_read += 0 if skipped else len(loads)
        self.image_tokens += tokens
        totals = self.formats.setdefault(document["format"] or UNKNOWN_FORMAT, FormatTotals())
        totals.documents += 1
        totals.pages += len(loads)
        totals.image_tokens += tokens

    def seconds(self, rate: Rate) -> float:
        """Expected seconds of reading on one device."""
        if rate.pages_per_second is not None:
            return self.pages_to_read / rate.pages_per_second
        return self.image_tokens / rate.image_tokens_per_second
