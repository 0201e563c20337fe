"""`fastocr eval confidence`: does the reader know when it cannot read? Thresholds for the flag, and how good they are.

A page counts as read where its CER is at most 0.2. The mean log-probability and the lowest one over 32 tokens should be
higher on these pages than on all others.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fastocr_core.config import DecodePolicy, EngineLimits
from fastocr_core.engine import Engine
from fastocr_core.evaluation.pages import EvaluationPage, printed
from fastocr_core.evaluation.reader import fraction, percent
from fastocr_core.evaluation.records import put_in_place
from fastocr_core.evaluation.tables import markdown_table
from fastocr_core.models.base import ModelAdapter
from fastocr_core.scores.roc import area_under_curve, roc_points, threshold_below
from fastocr_core.scores.text import cer
from fastocr_core.vision import prepare

READ_CER = 0.2
FALSE_ALARMS = 0.01
# Fewer are not worth a threshold: one page of those read would be more than the false alarms allowed.
LEAST_READ, LEAST_NOT_READ = 100, 20
_DIGITS, _STEPS = 4, 10_000
MEASURES = ("mean", "window")


@dataclass(frozen=True, slots=True)
class JudgedPage:
    """A page as the model read it: where it belongs, how wrong it was, and how sure the model was."""

    page: str
    part: str
    cer: float
    mean: float
    window: float
    finish: str

    @property
    def is_read(self) -> bool:
        """Whether the text can be used."""
        return self.cer <= READ_CER


@dataclass(frozen=True, slots=True)
class ConfidenceStudy:
    """What was found. `auc` and `roc` by measure; thresholds are natural-log probabilities, None where no page was read.

    `false_alarms` is the share of read pages, `detected` that of the others, that lie below either threshold, None where
    there are no such pages or no thresholds.
    """

    model: str
    revision: str
    policy: str
    pages: tuple[JudgedPage, ...]
    auc: dict[str, float | None]
    roc: dict[str, list[tuple[float, float]]]
    thresholds: dict[str, float] | None
    false_alarms: float | None
    detected: float | None


def judge_pages(
    model: ModelAdapter,
    pages: Sequence[EvaluationPage],
    policy: DecodePolicy,
    batch: int = 8,
    max_output_tokens: int | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[JudgedPage]:
    """Read all pages whose text is known word for word; pages that fail are left out and said. ValueError without such a page."""
    chosen = printed(pages)
    if not chosen:
        raise ValueError("there is no page whose text is known word for word, so none can be judged")
    views = (prepare(page.load(), model.vision, page.dpi) for page in chosen)
    judged = []
    with Engine(model, policy, batch, EngineLimits(max_output_tokens=max_output_tokens)) as engine:
        for page, result in zip(chosen, engine.read(views), strict=True):
            if result.error is not None:
                say(f"{page.name} failed: {result.error}")
                continue
            error_rate = cer(page.text or "", result.text)
            judged.append(
                JudgedPage(
                    page.name,
                    page.part,
                    error_rate,
                    result.mean_logprob,
                    result.min_logprob_window,
                    result.finish_reason,
                )
            )
    return judged


def study(model: ModelAdapter, policy: DecodePolicy, judged: Sequence[JudgedPage]) -> ConfidenceStudy:
    """Separation and thresholds. Both thresholds share the false alarms that are allowed, so each gets half of them."""
    read = [page for page in judged if page.is_read]
    other = [page for page in judged if not page.is_read]
    values = {
        name: ([getattr(page, name) for page in read], [getattr(page, name) for page in other])
        for name in MEASURES
    }
    limits = (
        {name: _rounded_down(threshold_below(good, FALSE_ALARMS / 2)) for name, (good, _) in values.items()}
        if read
        else None
    )

    def doubted(page: JudgedPage) -> bool:
        return limits is not None and any(getattr(page, name) < limits[name] for name in MEASURES)

    return ConfidenceStudy(
        model=model.name,
        revision=model.revision,
        policy=policy.name,
        pages=tuple(judged),
        auc={name: area_under_curve(good, bad) for name, (good, bad) in values.items()},
        roc={name: roc_points(good, bad) for name, (good, bad) in values.items()},
        thresholds=limits,
        false_alarms=sum(map(doubted, read)) / len(read) if read else None,
        detected=sum(map(doubted, other)) / len(other) if other and limits else None,
    )


def _rounded_down(value: float) -> float:
    """To the digits that are stored. A threshold is the value of a page that was read: rounded up, it would doubt that page."""
    steps = math.floor(value * _STEPS)
    while steps / _STEPS > value:  # the product was rounded up itself
        steps -= 1
    return steps / _STEPS


def markdown(found: ConfidenceStudy) -> str:
    """What separates, and by set how many pages were read and how many doubted."""
    limits = found.thresholds
    rows = [
        (name, fraction(found.auc[name]), "-" if limits is None else f"{limits[name]:.3f}")
        for name in MEASURES
    ]
    read = sum(page.is_read for page in found.pages)
    parts = [
        f"## Confidence of {found.model} ({found.policy}) on {len(found.pages)} pages, {read} of them read "
        f"(CER at most {READ_CER:.0%})",
        markdown_table(("log-probability", "AUC", "threshold"), rows),
        f"Below either threshold lie {percent(found.false_alarms)} of the pages read and "
        f"{percent(found.detected)} of the others.",
    ]
    sets = []
    for part in dict.fromkeys(page.part for page in found.pages):
        pages = [page for page in found.pages if page.part == part]
        low = [
            page
            for page in pages
            if limits is not None and any(getattr(page, name) < limits[name] for name in MEASURES)
        ]
        mean = sum(page.mean for page in pages) / len(pages)
        sets.append(
            (part, str(len(pages)), str(sum(page.is_read for page in pages)), str(len(low)), f"{mean:.3f}")
        )
    parts.append(markdown_table(("pages of", "pages", "read", "doubted", "mean log-probability"), sets))
    return "\n\n".join(parts) + "\n"


def facts(found: ConfidenceStudy) -> dict[str, object]:
    """Everything, for a JSON file."""
    return {"evaluation": "confidence"} | asdict(found)


def write_thresholds(found: ConfidenceStudy, file: Path) -> None:
    """What `fastocr_core.confidence` reads, written whole or not at all. ValueError where too few pages were read, or not
    read, to set a threshold by.
    """
    read = sum(page.is_read for page in found.pages)
    other = len(found.pages) - read
    if found.thresholds is None or read < LEAST_READ or other < LEAST_NOT_READ:
        raise ValueError(
            f"{read} pages read well and {other} not are too few to set thresholds by: {LEAST_READ} and {LEAST_NOT_READ}"
        )
    content = {
        **found.thresholds,
        "revision": found.revision,
        "policy": found.policy,
        "pages_read": read,
        "pages_not_read": other,
        "false_alarms": found.false_alarms,
        "detected": found.detected,
        "auc": {name: None if value is None else round(value, _DIGITS) for name, value in found.auc.items()},
    }
    put_in_place(file, (json.dumps(content, indent=1) + "\n").encode())
