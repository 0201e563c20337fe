"""`fastocr eval reader`: several readers on the same pages, their scores side by side as Markdown and JSON."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from fastocr_core.evaluation.pages import EvaluationPage
from fastocr_core.evaluation.readers import Reader
from fastocr_core.evaluation.retention import retention_table, retentions
from fastocr_core.evaluation.scoring import PageScore, score
from fastocr_core.evaluation.tables import markdown_table

GROUPINGS = ("part", "language", "font_class", "degradation", "layout")
_TITLES = {"part": "set", "font_class": "font class"}


@dataclass(frozen=True, slots=True)
class ReaderScores:
    """One reader over all pages, in the order of the pages."""

    name: str
    version: str
    scores: tuple[PageScore, ...]


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Means over the pages of a group; None where no page of it has that score."""

    pages: int
    cer: float | None
    median_cer: float | None
    wer: float | None
    word_f1: float | None


def evaluate(
    readers: Iterable[Reader],
    pages: Sequence[EvaluationPage],
    say: Callable[[str], None] = lambda line: None,
) -> list[ReaderScores]:
    """Let every reader read all pages. ValueError where there is no page or no reader."""
    readers = list(readers)
    if not pages:
        raise ValueError("there is no page to read")
    if not readers:
        raise ValueError("there is no reader to read the pages")
    results = []
    for reader in readers:
        say(f"{reader.name} {reader.version} reads {len(pages)} pages")
        scores = tuple(score(page, reading) for page, reading in zip(pages, reader.read(pages), strict=True))
        results.append(ReaderScores(reader.name, reader.version, scores))
    return results


def summary(scores: Iterable[PageScore]) -> GroupSummary:
    """Means of a group of pages."""
    scores = [each for each in scores if not each.blank]
    rates = _known(each.cer for each in scores)
    return GroupSummary(
        pages=len(scores),
        cer=_mean(rates),
        median_cer=statistics.median(rates) if rates else None,
        wer=_mean(_known(each.wer for each in scores)),
        word_f1=_mean(_known(each.word_f1 for each in scores)),
    )


def order_share(scores: Iterable[PageScore], part: str = "columns") -> float | None:
    """Share of the pages of a set that were read in order; None without such pages."""
    kept = [each.in_order for each in scores if each.part == part and each.in_order is not None]
    return sum(kept) / len(kept) if kept else None


def blank_share(scores: Iterable[PageScore]) -> float | None:
    """Share of the blank pages on which nothing was written; None without blank pages. A page that failed was not read."""
    empty = [each.characters == 0 and each.error is None for each in scores if each.blank]
    return sum(empty) / len(empty) if empty else None


def median_iou(scores: Iterable[PageScore]) -> float | None:
    """Over all words with boxes that were read right; None without any."""
    ious = [iou for each in scores for iou in each.ious]
    return statistics.median(ious) if ious else None


def markdown(results: Sequence[ReaderScores]) -> str:
    """Summary, then one table for each way to group the pages, then the pages of which only words or phrases are known."""
    parts = [
        "## Readers on the same pages",
        markdown_table(_SUMMARY, [_summary_row(each) for each in results]),
    ]
    kept = retention_table(results)
    if kept:
        parts += [
            "### Accuracy (1 - CER) as a share of dense, with 95 % of a paired bootstrap over pages",
            kept,
        ]
    for grouping in GROUPINGS:
        table = _grouped(results, grouping)
        if table:
            parts += [f"### CER / word F1 by {_TITLES.get(grouping, grouping)}", table]
    loose = _page_rows(results)
    if loose:
        parts += [
            "### Real files, page by page (CER / word F1, phrases found)",
            markdown_table(("page", *(each.name for each in results)), loose),
        ]
    return "\n\n".join(parts) + "\n"


_SUMMARY = (
    "reader", "version", "pages", "CER", "median CER", "WER", "word F1", "two columns in order", "blank pages empty",
    "word box IoU", "phrases found", "failed", "loops", "s/page",
)  # fmt: skip


def _summary_row(result: ReaderScores) -> tuple[str, ...]:
    scores, whole = result.scores, summary(result.scores)
    phrases = sum(each.phrases for each in scores)
    return (
        result.name, result.version, str(len(scores)),
        percent(whole.cer), percent(whole.median_cer), percent(whole.wer), fraction(whole.word_f1),
        percent(order_share(scores), 0), percent(blank_share(scores), 0), fraction(median_iou(scores), 2),
        f"{sum(each.phrases_found for each in scores)} of {phrases}" if phrases else "-",
        str(sum(each.error is not None for each in scores)),
        str(sum(each.finish == "loop" for each in scores)),
        f"{statistics.fmean(each.seconds for each in scores):.1f}",
    )  # fmt: skip


def _grouped(results: Sequence[ReaderScores], grouping: str) -> str:
    """A row for each value of the grouping that pages have, a column for each reader; "" where all are alike."""
    values = list(
        dict.fromkeys(
            getattr(each, grouping)
            for each in results[0].scores
            if not each.blank and getattr(each, grouping)
        )
    )
    if not values or (len(values) == 1 and grouping != "part"):
        return ""
    rows = []
    for value in values:
        groups = [
            summary(each for each in result.scores if getattr(each, grouping) == value) for result in results
        ]
        rows.append(
            (value, str(groups[0].pages), *(f"{percent(g.cer)} / {fraction(g.word_f1)}" for g in groups))
        )
    return markdown_table((_TITLES.get(grouping, grouping), "pages", *(each.name for each in results)), rows)


def _page_rows(results: Sequence[ReaderScores]) -> list[tuple[str, ...]]:
    rows = []
    for index, first in enumerate(results[0].scores):
        if first.part == "cases":
            rows.append((first.page, *(_page_cell(result.scores[index]) for result in results)))
    return rows


def _page_cell(each: PageScore) -> str:
    if each.error:
        return "failed"
    if each.blank:
        return f"{each.characters} characters"
    said = [] if each.word_f1 is None else [f"{percent(each.cer)} / {fraction(each.word_f1)}"]
    if each.phrases:
        said.append(f"{each.phrases_found} of {each.phrases}")
    return ", ".join(said)


def facts(results: Sequence[ReaderScores]) -> dict[str, object]:
    """Everything, for a JSON file."""
    readers = []
    kept = retentions(results)
    for result in results:
        groups = {
            grouping: {
                value: asdict(summary(each for each in result.scores if getattr(each, grouping) == value))
                for value in sorted({getattr(each, grouping) for each in result.scores} - {""})
            }
            for grouping in GROUPINGS
        }
        readers.append(
            {
                "name": result.name,
                "version": result.version,
                "all": asdict(summary(result.scores)),
                "groups": groups,
                "two_columns_in_order": order_share(result.scores),
                "blank_pages_empty": blank_share(result.scores),
                "word_box_iou_median": median_iou(result.scores),
                "accuracy_of_dense": {
                    part: None if value is None else asdict(value)
                    for part, value in kept.get(result.name, {}).items()
                },
                "pages": [{**asdict(each), "ious": len(each.ious)} for each in result.scores],
            }
        )
    return {"evaluation": "reader", "readers": readers}


def percent(value: float | None, digits: int = 1) -> str:
    """A share in per cent, "-" where it is not known."""
    return "-" if value is None else f"{value:.{digits}%}"


def fraction(value: float | None, digits: int = 3) -> str:
    """A number between 0 and 1, "-" where it is not known."""
    return "-" if value is None else f"{value:.{digits}f}"


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None
