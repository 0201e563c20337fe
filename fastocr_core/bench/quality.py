"""`python -m fastocr_core.bench.quality`: how well and how fast each decode policy reads the held-out pages.

All policies run one after the other in one process on the same prepared pages. Prints a table, what each policy
keeps of the dense accuracy (with an interval), and one JSON line last. Needs the extra `eval` and a checkout (the
pages are not in the wheel).
"""

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from fastocr_core.config import DecodePolicy, EngineLimits
from fastocr_core.engine import Engine
from fastocr_core.evaluation.retention import interval_words, retention
from fastocr_core.models import load
from fastocr_core.models.base import ModelAdapter
from fastocr_core.models.mini.heldout.pages import HeldOutPage, held_out_pages
from fastocr_core.output import PageText
from fastocr_core.scores.bootstrap import Interval
from fastocr_core.scores.text import cer, wer, word_f1
from fastocr_core.vision import prepare
from fastocr_core.vision.prepared import PreparedPage


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """One policy over all pages.

    Error rates are means over printed pages; `blank_characters` counts what was written on blank leaves.
    `tokens_per_second` covers everything the engine does, `decode_tokens_per_second` leaves encoding and
    prefill out. `image_kv_read_share` is the mean over printed pages, `page_cer` the error rate of each of them.
    """

    policy: str
    kept_share: float
    mean_cer: float
    median_cer: float
    worst_cer: float
    mean_wer: float
    mean_word_f1: float
    cer_by_language: dict[str, float]
    pages_over_a_tenth: int
    blank_characters: int
    image_kv_read_share: float
    image_tokens: int
    output_tokens: int
    seconds: float
    tokens_per_second: float
    decode_tokens_per_second: float
    finish_reasons: dict[str, int]
    page_cer: tuple[float, ...]


def chosen_pages(count: int | None) -> list[HeldOutPage]:
    """`count` printed pages spread over the set, and the same share of the blank leaves; None for all."""
    every = list(held_out_pages())
    printed, leaves = [page for page in every if not page.blank], [page for page in every if page.blank]
    if count is None or count >= len(printed):
        return every
    if count < 1:
        raise ValueError(f"at least one page must be read, not {count}")
    leaf_count = -(-count * len(leaves) // len(printed))
    return [
        *(printed[index * len(printed) // count] for index in range(count)),
        *(leaves[index * len(leaves) // leaf_count] for index in range(leaf_count)),
    ]


def measure(
    model: ModelAdapter,
    policy: DecodePolicy,
    pages: Sequence[HeldOutPage],
    views: Sequence[PreparedPage],
    batch: int,
) -> tuple[PolicyReport, list[PageText]]:
    """Read all pages with one policy; results in the order of `pages`."""
    with Engine(model, policy, max_batch=batch) as engine:
        begun = time.perf_counter()
        results = list(engine.read(views))
        seconds = time.perf_counter() - begun
    return report(policy, pages, results, seconds), results


def report(
    policy: DecodePolicy, pages: Sequence[HeldOutPage], results: Sequence[PageText], seconds: float
) -> PolicyReport:
    """Scores of one policy; `seconds` of wall clock for all pages."""
    printed = [(page, result) for page, result in zip(pages, results, strict=True) if not page.blank]
    rates = [cer(page.text, result.text) for page, result in printed]
    by_language: dict[str, list[float]] = {}
    for (page, _), rate in zip(printed, rates, strict=True):
        by_language.setdefault(page.language, []).append(rate)
    tokens = sum(result.output_tokens for result in results)
    decoding = seconds - sum(result.encode_seconds for result in results)
    blank = (result.text for page, result in zip(pages, results, strict=True) if page.blank)
    return PolicyReport(
        policy=policy.name,
        kept_share=policy.kept_share,
        mean_cer=statistics.fmean(rates),
        median_cer=statistics.median(rates),
        worst_cer=max(rates),
        mean_wer=statistics.fmean(wer(page.text, result.text) for page, result in printed),
        mean_word_f1=statistics.fmean(word_f1(page.text, result.text) for page, result in printed),
        cer_by_language={language: statistics.fmean(each) for language, each in sorted(by_language.items())},
        pages_over_a_tenth=sum(rate > 0.1 for rate in rates),
        blank_characters=sum(len("".join(text.split())) for text in blank),
        image_kv_read_share=statistics.fmean(result.image_kv_read_share for _, result in printed),
        image_tokens=sum(result.image_tokens for result in results),
        output_tokens=tokens,
        seconds=seconds,
        tokens_per_second=tokens / seconds,
        decode_tokens_per_second=tokens / max(decoding, 1e-9),
        finish_reasons=dict(Counter(result.finish_reason for result in results)),
        page_cer=tuple(rates),
    )


def kept_of_dense(reports: Sequence[PolicyReport]) -> dict[str, Interval | None]:
    """By policy: accuracy (1 - CER) as a share of dense on the same pages; empty without a dense run."""
    dense = next((each for each in reports if each.policy == "dense"), None)
    if dense is None:
        return {}
    return {
        each.policy: retention(each.page_cer, dense.page_cer) for each in reports if each.policy != "dense"
    }


_COLUMNS = (
    "policy", "kept", "CER", "median", "worst", "WER", "word F1", "blank chars", "KV read", "tokens/s",
    "decode tok/s",
)  # fmt: skip


def _row(each: PolicyReport) -> tuple[str, ...]:
    return (
        each.policy,
        f"{each.kept_share:g}",
        f"{each.mean_cer:.2%}",
        f"{each.median_cer:.2%}",
        f"{each.worst_cer:.2%}",
        f"{each.mean_wer:.2%}",
        f"{each.mean_word_f1:.3f}",
        str(each.blank_characters),
        f"{each.image_kv_read_share:.1%}",
        f"{each.tokens_per_second:.0f}",
        f"{each.decode_tokens_per_second:.0f}",
    )


def table(reports: Sequence[PolicyReport]) -> str:
    """The reports as text: one row per policy, then the error rate by language."""
    rows = [_COLUMNS, *(_row(each) for each in reports)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(_COLUMNS))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    for each in reports:
        languages = "  ".join(f"{language} {rate:.2%}" for language, rate in each.cer_by_language.items())
        reasons = ", ".join(f"{count} {reason}" for reason, count in each.finish_reasons.items())
        lines.append(f"{each.policy}: {languages}; ended by {reasons}")
    for policy, kept in kept_of_dense(reports).items():
        pages = len(reports[0].page_cer)
        lines.append(
            f"{policy}: accuracy (1 - CER) {interval_words(kept, 2)} of dense, 95 % of a paired bootstrap over {pages} pages"
        )
    return "\n".join(lines)


def _policies(names: str, kept_share: float) -> list[DecodePolicy]:
    """ValueError for an unknown name."""
    return [
        DecodePolicy.dense() if name == "dense" else DecodePolicy.named(name, kept_share=kept_share)
        for name in names.split(",")
    ]


def _show_pages(pages: Sequence[HeldOutPage], results: Sequence[PageText]) -> None:
    for page, result in zip(pages, results, strict=True):
        score = f"CER {cer(page.text, result.text):7.2%}" if page.text else f"{len(result.text)} characters"
        print(f"  {page.file:18} {page.font:24} {score:14} {result.finish_reason}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m fastocr_core.bench.quality", description=__doc__)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--folder", default=None, help="weights to use instead of the model's own")
    parser.add_argument("--pages", type=int, default=None, help="printed pages to read (default: all)")
    parser.add_argument("--decode", default="dense,fastocr", help="policies, separated by commas")
    parser.add_argument("--kept-share", type=float, default=0.05)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--each", action="store_true", help="print the score of every page")
    options = parser.parse_args(arguments)
    try:
        policies = _policies(options.decode, options.kept_share)
        pages = chosen_pages(options.pages)
        model = load(options.folder or options.model, device=options.device)
    except (ValueError, FileNotFoundError) as failure:
        sys.exit(f"error: {failure}")
    views = [prepare(page.image(), model.vision) for page in pages]
    with Engine(model, max_batch=options.batch, limits=EngineLimits(max_output_tokens=8)) as engine:
        list(engine.read(views[:1]))  # so that the first policy does not pay for what is done once
    reports = []
    for policy in policies:
        policy_report, results = measure(model, policy, pages, views, options.batch)
        reports.append(policy_report)
        if options.each:
            print(f"{policy.name}:")
            _show_pages(pages, results)
    print(table(reports))
    facts = {"bench": "quality", "model": model.name, "revision": model.revision, "batch": options.batch}
    facts |= {"pages": len(pages), "device": str(model.device)}
    kept = {policy: value and asdict(value) for policy, value in kept_of_dense(reports).items()}
    print(json.dumps(facts | {"policies": [asdict(each) for each in reports], "accuracy_of_dense": kept}))


if __name__ == "__main__":
    main()
