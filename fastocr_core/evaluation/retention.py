"""What a sparse policy keeps of the dense reading: accuracy (1 - CER) as a share of dense on the same pages, with its interval.

A page's accuracy is 0 at least, however much was written beside the text.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fastocr_core.evaluation.tables import markdown_table
from fastocr_core.scores.bootstrap import Interval, ratio_interval

if TYPE_CHECKING:
    from fastocr_core.evaluation.reader import ReaderScores

DENSE = " dense"
EVERYTHING = "all"


def accuracy(error_rate: float) -> float:
    """1 - CER, 0 at least."""
    return max(0.0, 1.0 - error_rate)


def retention(rates: Iterable[float], dense_rates: Iterable[float]) -> Interval | None:
    """From the CER of the same pages in the same order. None without pages, or where dense read nothing."""
    return ratio_interval([accuracy(rate) for rate in rates], [accuracy(rate) for rate in dense_rates])


def interval_words(value: Interval | None, digits: int = 1) -> str:
    """The ratio and its bounds in per cent; "-" if not known. One page, or pages all alike, give no bounds."""
    if value is None:
        return "-"
    bounds = "" if value.low == value.high else f" ({value.low:.{digits}%} to {value.high:.{digits}%})"
    return f"{value.value:.{digits}%}{bounds}"


def retentions(results: Sequence["ReaderScores"]) -> dict[str, dict[str, Interval | None]]:
    """By sparse reader of a model that also read densely: over all pages with exact text, and by set."""
    found: dict[str, dict[str, Interval | None]] = {}
    for dense in results:
        if not dense.name.endswith(DENSE):
            continue
        model = dense.name.removesuffix(DENSE)
        for other in results:
            if other is dense or other.version != dense.version or not other.name.startswith(model + " "):
                continue
            pairs = [
                (ours.part, ours.cer, theirs.cer)
                for ours, theirs in zip(other.scores, dense.scores, strict=True)
                if ours.cer is not None and theirs.cer is not None
            ]
            parts = [EVERYTHING, *dict.fromkeys(part for part, _, _ in pairs)]
            found[other.name] = {
                part: retention(
                    [rate for name, rate, _ in pairs if part in (EVERYTHING, name)],
                    [rate for name, _, rate in pairs if part in (EVERYTHING, name)],
                )
                for part in parts
            }
    return found


def retention_table(results: Sequence["ReaderScores"]) -> str:
    """Sets downwards, sparse readers across; "" where nothing can be compared."""
    found = retentions(results)
    if not found:
        return ""
    parts = dict.fromkeys(part for by_part in found.values() for part in by_part)
    rows = [(part, *(interval_words(by_part.get(part)) for by_part in found.values())) for part in parts]
    return markdown_table(("pages of", *found), rows)
