"""The rows of `fastocr eval fixation`: what was measured page by page becomes one row for each contender."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fastocr_core.evaluation.contenders import Contender
from fastocr_core.evaluation.pages import EvaluationPage
from fastocr_core.evaluation.retention import retention
from fastocr_core.evaluation.step_measures import LayerFocus, StepMeasures
from fastocr_core.evaluation.stored_values import restored
from fastocr_core.output import PageText
from fastocr_core.scores.bootstrap import Interval
from fastocr_core.scores.text import cer


@dataclass(frozen=True, slots=True)
class PageReading:
    """What one policy made of one page. `read_share` and `resident_share` are of the image cache, past the warm-up; `tokens`
    are kept of the dense reading alone.
    """

    cer: float
    finish: str
    error: str | None
    image_tokens: int
    output_tokens: int
    read_share: float
    resident_share: float
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FixationRow:
    """What one contender did; numbers are None where it could not run or where that is not known.

    `retention` is accuracy (1 - CER) against dense on the same pages; `loop_rate` is the share of pages that ended in a
    loop, `endless_rate` of those that were stopped at the most tokens. `layers` is only told of dense: by layer the
    share of its image attention on its own strongest tokens, and how often the true cell was one of them.
    """

    group: str
    label: str
    kept_share: float
    share: float
    series: str = ""
    level: float = 0.0
    pages: int = 0
    mean_cer: float | None = None
    retention: Interval | None = None
    read_share: float | None = None
    resident_share: float | None = None
    agreement: float | None = None
    mass: float | None = None
    hit_rate: float | None = None
    strongest_rate: float | None = None
    loop_rate: float | None = None
    endless_rate: float | None = None
    note: str = ""
    layers: tuple[tuple[float, float | None], ...] = field(default=())


def page_reading(page: EvaluationPage, result: PageText, keep_tokens: bool) -> PageReading:
    """What is kept of a result. A page that failed counts as read empty."""
    return PageReading(
        cer=cer(page.text or "", result.text),
        finish=result.finish_reason,
        error=result.error,
        image_tokens=result.image_tokens,
        output_tokens=result.output_tokens,
        read_share=result.image_kv_read_share,
        resident_share=result.kv_resident_share,
        tokens=tuple(result.tokens) if keep_tokens else (),
    )


def layer_shares(focus: Sequence[LayerFocus]) -> tuple[tuple[float, float | None], ...]:
    """By layer, from sums of several pages: share of attention on the strongest tokens, and true cells among them."""
    measured = [each for each in focus if each.steps]
    if not measured:
        return ()
    steps, hit_steps = sum(each.steps for each in measured), sum(each.hit_steps for each in measured)
    return tuple(
        (
            sum(each.mass[layer] for each in measured) / steps,
            sum(each.hits[layer] for each in measured) / hit_steps if hit_steps else None,
        )
        for layer in range(len(measured[0].mass))
    )


def empty_row(contender: Contender, note: str) -> FixationRow:
    """Of a contender that did not read."""
    kept = contender.policy.kept_share if contender.policy else 0.0
    return FixationRow(
        contender.group, contender.label, kept, contender.share, contender.series, contender.level, note=note
    )


def row_of(
    contender: Contender,
    readings: Sequence[PageReading],
    dense: Sequence[PageReading],
    steps: StepMeasures,
    warmup_steps: int,
    layers: tuple[tuple[float, float | None], ...] = (),
) -> FixationRow:
    """One row from the readings of its pages, those of dense on the same pages, and the sums of the held pen."""
    errors = [reading.error for reading in readings if reading.error]
    if not readings or len(errors) == len(readings) or contender.policy is None:
        return empty_row(contender, str(errors[0]) if errors else contender.note)
    weights = [reading.image_tokens * max(1, reading.output_tokens - warmup_steps) for reading in readings]

    def share(values: Sequence[float]) -> float:
        pairs = zip(values, weights, strict=True)
        return sum(value * weight for value, weight in pairs) / sum(weights)

    return FixationRow(
        group=contender.group,
        label=contender.label,
        kept_share=contender.policy.kept_share,
        share=contender.share,
        series=contender.series,
        level=contender.level,
        pages=len(readings),
        mean_cer=statistics.fmean(reading.cer for reading in readings),
        retention=retention([one.cer for one in readings], [one.cer for one in dense]),
        read_share=share([reading.read_share for reading in readings]),
        resident_share=share([reading.resident_share for reading in readings]),
        agreement=steps.agreement,
        mass=steps.mass,
        hit_rate=steps.hit_rate,
        strongest_rate=steps.strongest_rate,
        loop_rate=sum(reading.finish == "loop" for reading in readings) / len(readings),
        endless_rate=sum(reading.finish == "length" for reading in readings) / len(readings),
        note=f"{len(errors)} pages failed" if errors else "",
        layers=layers,
    )


def row_facts(row: FixationRow) -> dict[str, object]:
    """For a JSON file."""
    return asdict(row)


def row_from(facts: Any) -> FixationRow:
    """Back from a JSON file. ValueError where this is no such row."""
    try:
        return restored(FixationRow, facts, complete=False)
    except ValueError as failure:
        raise ValueError(f"this is no row of a fixation study: {failure}") from failure
