"""`fastocr eval fixation`: what is left of the dense reading when most of the image is not looked at.

Each policy reads the pages freely (retention, loops) and then with the pen held along the dense text (agreement, recovered
attention, fixation hits), which tells the single step from where an earlier slip leads.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import torch

from fastocr_core.config import DecodePolicy, EngineLimits
from fastocr_core.decoding import build_policy
from fastocr_core.decoding.budget import budget_report
from fastocr_core.engine import Engine
from fastocr_core.evaluation.contenders import (
    KEPT_SHARES,
    Contender,
    FastOcrRead,
    choices,
    equal_bytes,
    fastocr_rows,
    nominal,
)
from fastocr_core.evaluation.pages import EvaluationPage, printed
from fastocr_core.evaluation.step_measures import DensePage, StepMeasures, dense_page, measure_steps
from fastocr_core.evaluation.true_cells import character_cells
from fastocr_core.models.base import ModelAdapter
from fastocr_core.output import PageText
from fastocr_core.scores.bootstrap import Interval, ratio_interval
from fastocr_core.scores.text import cer
from fastocr_core.vision import prepare

GROUPS = ("choice", "nominal", "bytes")
WARMUP_STEPS = DecodePolicy.fastocr().warmup_steps


@dataclass(frozen=True, slots=True)
class FixationSettings:
    """What is measured. `groups` are of GROUPS; `forced_pages` pages are read with the pen held, up to `forced_steps`
    tokens of each, attention compared at every `stride`-th step (0 pages: no held pen).
    """

    kept_shares: tuple[float, ...] = KEPT_SHARES
    groups: tuple[str, ...] = GROUPS
    warmups: tuple[int, ...] = (4, 16, 64)
    focal_sets: tuple[tuple[int, ...], ...] = ()
    focal_counts: tuple[int, ...] = (1, 2)
    batch: int = 8
    max_output_tokens: int | None = None
    forced_pages: int = 4
    forced_steps: int = 400
    stride: int = 8
    skipped: int = WARMUP_STEPS + 1


@dataclass(frozen=True, slots=True)
class FixationRow:
    """What one contender did; numbers are None where it could not run or where that is not known.

    `retention` is accuracy (1 - CER) against dense on the same pages; `read_share` and `resident_share` are of the image
    cache, past the warm-up; `loop_rate` is the share of pages that ended in a loop.
    """

    group: str
    label: str
    kept_share: float
    share: float
    mean_cer: float | None = None
    retention: Interval | None = None
    read_share: float | None = None
    resident_share: float | None = None
    agreement: float | None = None
    mass: float | None = None
    hit_rate: float | None = None
    loop_rate: float | None = None
    note: str = ""


class FixationStudy:
    """A model and pages with known text, prepared once. Call `run`. ValueError where no page has such text."""

    def __init__(
        self,
        model: ModelAdapter,
        pages: Sequence[EvaluationPage],
        settings: FixationSettings,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.model, self.pages, self.settings, self.say = model, printed(pages), settings, say
        if not self.pages:
            raise ValueError("no page with text that is known word for word")
        self._views = [prepare(page.load(), model.vision, page.dpi) for page in self.pages]
        self._dense: list[float] = []  # accuracy by page
        self._forced: list[DensePage] = []

    def run(self) -> list[FixationRow]:
        """Dense first, then fastocr, then the groups asked for."""
        rows = [self._dense_row()]
        read: list[FastOcrRead] = []
        for contender in fastocr_rows(self.settings.kept_shares):
            row, results = self._row(contender)
            rows.append(row)
            if row.read_share is not None:
                outputs = statistics.fmean(page.output_tokens for page in results)
                tokens = statistics.fmean(page.image_tokens for page in results)
                read.append(FastOcrRead(contender.share, row.read_share, tokens, outputs))
        rows += [self._row(contender)[0] for contender in self._others(read)]
        return rows

    def _others(self, read: Sequence[FastOcrRead]) -> Iterator[Contender]:
        settings, layers = self.settings, self.model.shape.layers
        scored = self.model.encode_scored(self._views[0]).received is not None
        if "choice" in settings.groups:
            yield from choices(settings.warmups, settings.focal_sets, settings.focal_counts)
        if "nominal" in settings.groups:
            yield from nominal(settings.kept_shares, layers, scored)
        if "bytes" in settings.groups:
            yield from equal_bytes(read, layers, scored)

    def _dense_row(self) -> FixationRow:
        contender = Contender("dense", "dense", 1.0, DecodePolicy.dense())
        results = self._read(DecodePolicy.dense())
        self._dense = self._accuracies(results)
        for index in range(min(self.settings.forced_pages, len(self.pages))):
            self._forced.append(self._held(index, results[index]))
        return self._measured(contender, DecodePolicy.dense(), results)

    def _held(self, index: int, result: PageText) -> DensePage:
        """The dense text of a page, along which the pen of every policy is held."""
        view, tokens = self._views[index], result.tokens[: self.settings.forced_steps]
        cells: dict[int, int] = {}
        if self.model.vision.family == "mini":
            grid = self.model.image_grid(view)
            cells = character_cells(self.pages[index].words, tokens, view, self.model.vision, grid)
        return dense_page(self.model, view, tokens, cells, self.settings.stride)

    def _row(self, contender: Contender) -> tuple[FixationRow, list[PageText]]:
        if contender.policy is None:
            empty = FixationRow(
                contender.group, contender.label, 0.0, contender.share, note="cannot read that little"
            )
            return empty, []
        self.say(f"{contender.group}: {contender.label} at {contender.policy.kept_share:.1%}")
        results = self._read(contender.policy)
        return self._measured(contender, contender.policy, results), results

    def _read(self, policy: DecodePolicy) -> list[PageText]:
        limits = EngineLimits(max_output_tokens=self.settings.max_output_tokens)
        with Engine(self.model, policy, self.settings.batch, limits) as engine:
            return list(engine.read(self._views))

    def _accuracies(self, results: Sequence[PageText]) -> list[float]:
        """1 - CER of each page, 0 at least."""
        return [
            max(0.0, 1 - cer(page.text or "", result.text))
            for page, result in zip(self.pages, results, strict=True)
        ]

    def _measured(
        self, contender: Contender, policy: DecodePolicy, results: Sequence[PageText]
    ) -> FixationRow:
        errors = [result.error for result in results if result.error]
        if len(errors) == len(results):
            return FixationRow(
                contender.group, contender.label, policy.kept_share, contender.share, note=str(errors[0])
            )
        element_bytes = torch.empty(0, dtype=self.model.dtype).element_size()
        running = build_policy(policy, self.model, 1)
        budget = budget_report(running, self.model.shape, element_bytes, results)
        steps = StepMeasures()
        for page in self._forced:
            measure_steps(self.model, policy, page, self.settings.skipped, steps)
        rates = [cer(page.text or "", each.text) for page, each in zip(self.pages, results, strict=True)]
        return FixationRow(
            group=contender.group,
            label=contender.label,
            kept_share=policy.kept_share,
            share=contender.share,
            mean_cer=statistics.fmean(rates),
            retention=ratio_interval(self._accuracies(results), self._dense),
            read_share=budget.image_kv_read_share,
            resident_share=budget.kv_resident_share,
            agreement=steps.agreement,
            mass=steps.mass,
            hit_rate=steps.hit_rate,
            loop_rate=sum(result.finish_reason == "loop" for result in results) / len(results),
            note=f"{len(errors)} pages failed" if errors else "",
        )


def facts(study: FixationStudy, rows: Sequence[FixationRow]) -> dict[str, object]:
    """Everything, for a JSON file."""
    return {
        "evaluation": "fixation",
        "model": study.model.name,
        "revision": study.model.revision,
        "focal_layers": list(study.model.focal_layers),
        "layers": study.model.shape.layers,
        "pages": [page.name for page in study.pages],
        "settings": asdict(study.settings),
        "rows": [asdict(row) for row in rows],
    }
