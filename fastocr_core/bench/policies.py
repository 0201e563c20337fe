"""All decode policies on the same pages: `python -m fastocr_core.bench.policies --model mini --pages 12`.

Baselines run twice: at the same nominal kept share as fastocr, and at the kept share at which they read as
many bytes of the image cache as fastocr really read. Prints a Markdown table and one JSON line last. Needs
the extra `eval` and a checkout (the pages are not in the wheel).
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import torch

from fastocr_core.bench.quality import PolicyReport, chosen_pages, measure
from fastocr_core.config import DEFAULT_KEPT_SHARE, DecodePolicy, EngineLimits
from fastocr_core.decoding import build_policy
from fastocr_core.decoding.budget import BudgetReport, budget_report
from fastocr_core.engine import Engine
from fastocr_core.evaluation.contenders import at_read_share, baseline, label_of
from fastocr_core.models import load
from fastocr_core.models.base import ModelAdapter
from fastocr_core.models.mini.heldout.pages import HeldOutPage
from fastocr_core.vision import prepare
from fastocr_core.vision.prepared import PreparedPage

BASELINES: tuple[tuple[str, str], ...] = (
    ("fastv", ""),
    ("visionzip", "attention"),
    ("h2o", "static"),
    ("h2o", "dynamic"),
    ("snapkv", "1d"),
    ("snapkv", "2d"),
    ("pyramidkv", "pyramid"),
    ("pyramidkv", "inverted"),
)
GROUPS = ("reference", "option", "nominal", "bytes")
TOP_P = 0.95


@dataclass(frozen=True, slots=True)
class Contender:
    """One row to be measured. `group` is one of `GROUPS`; `policy` None where none would read that little."""

    group: str
    label: str
    policy: DecodePolicy | None


@dataclass(frozen=True, slots=True)
class Row:
    """What one contender did; `quality` and `budget` are None where it could not run, `note` says why."""

    group: str
    label: str
    kept_share: float
    quality: PolicyReport | None
    budget: BudgetReport | None
    note: str


class Comparison:
    """A model, pages prepared once, and the batch in which all policies read them."""

    def __init__(
        self, model: ModelAdapter, pages: Sequence[HeldOutPage], batch: int, kept_share: float
    ) -> None:
        self.model, self.pages, self.batch, self.kept_share = model, pages, batch, kept_share
        self.views: list[PreparedPage] = [prepare(page.image(), model.vision) for page in pages]
        self.scored_tower = model.encode_scored(self.views[0]).received is not None

    def run(self, contender: Contender) -> Row:
        """Read all pages with one policy."""
        row = self._row(contender)
        print(" | ".join(cells(row)), file=sys.stderr, flush=True)  # a whole table can take an hour
        return row

    def _row(self, contender: Contender) -> Row:
        policy = contender.policy
        if policy is None:
            return Row(contender.group, contender.label, 0.0, None, None, "cannot read that little")
        report, results = measure(self.model, policy, self.pages, self.views, self.batch)
        errors = [page.error for page in results if page.error]
        if len(errors) == len(results):
            return Row(contender.group, contender.label, policy.kept_share, None, None, errors[0] or "")
        budget = budget_report(
            build_policy(policy, self.model, 1),
            self.model.shape,
            torch.empty(0, dtype=self.model.dtype).element_size(),
            results,
        )
        note = f"{len(errors)} pages failed" if errors else ""
        return Row(contender.group, contender.label, policy.kept_share, report, budget, note)

    def first(self) -> Iterator[Contender]:
        """Dense and fastocr."""
        yield Contender("reference", "dense", DecodePolicy.dense())
        yield Contender("reference", "fastocr", DecodePolicy.fastocr(self.kept_share))

    def options(self) -> Iterator[Contender]:
        """What fastocr can do besides."""
        plain = DecodePolicy.fastocr(self.kept_share)
        yield Contender("option", "fastocr, layers per page", replace(plain, focal="per_page"))
        yield Contender("option", "fastocr, no reuse", replace(plain, reuse=False))
        yield Contender("option", "fastocr, dilated", replace(plain, dilate=True))
        yield Contender("option", f"fastocr, top-p {TOP_P:g}", replace(plain, top_p=TOP_P))
        both = replace(plain, dilate=True, top_p=TOP_P)
        yield Contender("option", f"fastocr, dilated, top-p {TOP_P:g}", both)

    def nominal(self) -> Iterator[Contender]:
        """Baselines at the kept share as given."""
        for name, variant in BASELINES:
            policy = self._baseline(name, variant, self.kept_share)
            yield Contender("nominal", label_of(policy), policy)

    def equal_bytes(self, fastocr: Row) -> Iterator[Contender]:
        """Baselines at the kept share that reads what fastocr read. Nothing if fastocr failed."""
        if fastocr.budget is None or fastocr.quality is None:
            return
        outputs = fastocr.quality.output_tokens / sum(not page.blank for page in self.pages)
        for name, variant in BASELINES:
            policy = self._baseline(name, variant, DEFAULT_KEPT_SHARE)
            equal = at_read_share(
                policy,
                fastocr.budget.image_kv_read_share,
                self.model.shape.layers,
                fastocr.budget.image_tokens,
                outputs,
            )
            yield Contender("bytes", label_of(policy), equal)

    def _baseline(self, name: str, variant: str, kept_share: float) -> DecodePolicy:
        """VisionZip ranks by the length of the embeddings where the tower has no attention."""
        if name == "visionzip" and not self.scored_tower:
            variant = "norm"
        return baseline(name, variant, kept_share, self.model.shape.layers)


_HEADER = (
    "policy", "kept share", "CER", "median CER", "tokens seen per layer", "KV kB read per step",
    "KV read", "KV resident", "extra kB", "tokens/s",
)  # fmt: skip
_TITLES = {
    "reference": "fastocr against dense",
    "option": "options of fastocr",
    "nominal": "baselines at the same nominal kept share",
    "bytes": "baselines at equal bytes read",
}


def cells(row: Row) -> tuple[str, ...]:
    """One table row."""
    if row.quality is None or row.budget is None:
        return (row.label, f"{row.kept_share:.3g}", row.note, *("-",) * (len(_HEADER) - 3))
    return (
        row.label + (f" ({row.note})" if row.note else ""),
        f"{row.kept_share:.3g}",
        f"{row.quality.mean_cer:.2%}",
        f"{row.quality.median_cer:.2%}",
        f"{row.budget.kept_tokens_per_layer:.0f} of {row.budget.image_tokens:.0f}",
        f"{row.budget.kv_bytes_read_per_step / 1000:.0f}",
        f"{row.budget.image_kv_read_share:.1%}",
        f"{row.budget.kv_resident_share:.1%}",
        f"{row.budget.extra_bytes / 1000:.1f}",
        f"{row.quality.tokens_per_second:.0f}",
    )


def markdown(rows: Sequence[Row]) -> str:
    """One table, a heading row for each group."""
    lines = ["| " + " | ".join(_HEADER) + " |", "|" + "---|" * len(_HEADER)]
    for group in GROUPS:
        members = [row for row in rows if row.group == group]
        if members:
            lines.append(f"| *{_TITLES[group]}* |" + " |" * (len(_HEADER) - 1))
        lines.extend("| " + " | ".join(cells(row)) + " |" for row in members)
    return "\n".join(lines)


def compare(comparison: Comparison, groups: Sequence[str]) -> list[Row]:
    """Measure the groups asked for; dense and fastocr always, since the others are set by them."""
    with Engine(comparison.model, max_batch=1, limits=EngineLimits(max_output_tokens=8)) as engine:
        list(engine.read(comparison.views[:1]))  # so that dense does not pay for what is done once
    rows = [comparison.run(contender) for contender in comparison.first()]
    sources = {
        "nominal": comparison.nominal(),
        "bytes": comparison.equal_bytes(rows[-1]),
        "option": comparison.options(),
    }
    for group, contenders in sources.items():
        if group in groups:
            rows += [comparison.run(contender) for contender in contenders]
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m fastocr_core.bench.policies", description=__doc__)
    parser.add_argument("--model", default="mini", help="a model's name, folder or hub id")
    parser.add_argument("--pages", type=int, default=None, help="printed pages to read (default: all)")
    parser.add_argument("--kept-share", type=float, default=DEFAULT_KEPT_SHARE)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=GROUPS)
    options = parser.parse_args(arguments)
    try:
        DecodePolicy.fastocr(options.kept_share)  # refused before anything is loaded
        pages = chosen_pages(options.pages)
        model = load(options.model, device=options.device)
    except (ValueError, FileNotFoundError) as failure:
        sys.exit(f"error: {failure}")
    rows = compare(Comparison(model, pages, options.batch, options.kept_share), options.groups)
    print(markdown(rows))
    facts = {"bench": "policies", "model": model.name, "revision": model.revision, "batch": options.batch}
    facts |= {"pages": len(pages), "device": str(model.device)}
    print(json.dumps(facts | {"rows": [asdict(row) for row in rows]}))


if __name__ == "__main__":
    main()
