"""Running totals of the pages an OCR actor has completed, as its measurements need them."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence

from workers.outcomes import Outcome
from workers.schema import PageRow


class ReadingTotals:
    """Sums over completed pages; asked from the thread that measures."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: Counter[str] = Counter()
        self._seconds = {"queue_seconds": 0.0, "decode_seconds": 0.0}
        self._pages_with_share = 0
        self._read_share_sum = 0.0

    def add(self, rows: Sequence[PageRow]) -> None:
        """One more shard."""
        with self._lock:
            self._totals["shards"] += 1
            self._totals["pages"] += len(rows)
            self._totals["pages_failed"] += sum(row.outcome == Outcome.FAILED for row in rows)
            self._totals["pages_flagged"] += sum(row.outcome == Outcome.FLAGGED for row in rows)
            self._totals["image_tokens"] += sum(row.image_tokens or 0 for row in rows)
            self._totals["output_tokens"] += sum(row.output_tokens or 0 for row in rows)
            self._seconds["queue_seconds"] += sum(row.queue_seconds or 0.0 for row in rows)
            self._seconds["decode_seconds"] += sum(row.decode_seconds or 0.0 for row in rows)
            shares = [row.image_kv_read_share for row in rows if row.image_kv_read_share is not None]
            self._pages_with_share += len(shares)
            self._read_share_sum += sum(shares)

    def sample(self) -> dict[str, float]:
        """Totals under their declared names; the mean read share only once a page was read."""
        with self._lock:
            found: dict[str, float] = {**self._totals, **self._seconds}
            if self._pages_with_share:
                found["image_kv_read_share"] = self._read_share_sum / self._pages_with_share
        return found


def page_measures(row: PageRow) -> Mapping[str, float]:
    """What the histograms want of one page; empty if the model never read it."""
    if row.decode_seconds is None or row.queue_seconds is None or row.output_tokens is None:
        return {}
    return {
        "page_queue_seconds": row.queue_seconds,
        "page_decode_seconds": row.decode_seconds,
        "page_output_tokens": float(row.output_tokens),
    }
