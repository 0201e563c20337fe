"""`fastocr eval fixation`: what is left of the dense reading when most of the image is not looked at.

Each policy reads the pages freely (retention, loops) and then with the pen held along the dense text (agreement, recovered
attention, fixation hits), which tells the single step from where an earlier slip leads. What was measured of a
page is written at once, so that a study that was stopped carries on.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from fastocr_core.config import DEFAULT_KEPT_SHARE, DecodePolicy
from fastocr_core.decoding.scores import share_budget
from fastocr_core.evaluation.contenders import (
    Contender,
    FastOcrRead,
    choices,
    dense_row,
    equal_bytes,
    fastocr_rows,
    nominal,
)
from fastocr_core.evaluation.fixation_records import (
    focal_choices_key,
    held_key,
    layers_key,
    pages_digest,
    reading_key,
    restored_value,
)
from fastocr_core.evaluation.fixation_rows import (
    FixationRow,
    PageReading,
    empty_row,
    layer_shares,
    page_reading,
    row_facts,
    row_of,
)
from fastocr_core.evaluation.fixation_settings import BASELINE_GROUPS, WARMUP_STEPS, FixationSettings
from fastocr_core.evaluation.focal_search import focal_choices
from fastocr_core.evaluation.many_policies import Reading, read_by_many
from fastocr_core.evaluation.pages import EvaluationPage, printed
from fastocr_core.evaluation.records import Key, Records
from fastocr_core.evaluation.step_measures import (
    DensePage,
    StepMeasures,
    dense_page,
    layer_focus,
    measure_steps,
)
from fastocr_core.evaluation.true_cells import character_cells
from fastocr_core.models.base import ModelAdapter
from fastocr_core.models.mini.heldout.pages import spread
from fastocr_core.vision import prepare

# A page is stopped at so many times the longest dense text: twice as much text is an accuracy of 0 whatever follows.
LONGEST = 2.0
PROFILED_PAGES = 2


class FixationStudy:
    """A model and pages with known text, prepared once. Call `run`.

    Measurements go to `file`, and those that are there are not made again. ValueError where no page has such text, two
    pages have one name, the model has no such layers, or the file was made with another model, other pages or other
    settings.
    """

    def __init__(
        self,
        model: ModelAdapter,
        pages: Sequence[EvaluationPage],
        settings: FixationSettings,
        say: Callable[[str], None] = lambda line: None,
        file: Path | None = None,
    ) -> None:
        self.model, self.pages, self.settings, self.say = model, printed(pages), settings, say
        self._refuse()
        images = [page.load() for page in self.pages]
        made_with = {
            "evaluation": "fixation", "model": model.name, "revision": model.revision, "longest text": LONGEST,
            "list of pages": [page.name for page in self.pages],
            "image or text of pages": pages_digest(zip(self.pages, images, strict=True)),
        }  # fmt: skip
        measuring = ("max_output_tokens", "forced_steps", "stride", "skipped")
        made_with |= {name: getattr(settings, name) for name in measuring}
        self._records = Records(file, made_with, restored_value)
        self._views = {
            page.name: prepare(image, model.vision, page.dpi)
            for page, image in zip(self.pages, images, strict=True)
        }
        self._baseline_pages = list(spread(self.pages, settings.baseline_pages))
        self._held: dict[str, DensePage] = {}
        self._failed: dict[Key, PageReading] = {}  # not recorded, so that they are tried again

    def _refuse(self) -> None:
        names = [page.name for page in self.pages]
        if not names:
            raise ValueError("no page with text that is known word for word")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two pages have the name {twice!r}")
        layers = self.model.shape.layers
        missing = [layer for each in self.settings.focal_sets for layer in each if layer >= layers]
        if missing:
            raise ValueError(
                f"{self.model.name} has {layers} layers, counted from 0, and so no layer {missing[0]}"
            )

    def run(self) -> list[FixationRow]:
        """Dense first, then fastocr and what needs nothing of it, then baselines at the bytes that fastocr read."""
        dense, settings, layers = dense_row(), self.settings, self.model.shape.layers
        self._read([dense], settings.max_output_tokens)
        fast = list(fastocr_rows(settings.kept_shares))
        scored = self._tower_has_attention()
        others = list(self._choices()) if "choice" in settings.groups else []
        if "nominal" in settings.groups:
            others += nominal(settings.kept_shares, layers, scored)
        self._read([*fast, *others], self._most_tokens())
        if "bytes" in settings.groups:
            same = list(equal_bytes(self._really_read(fast), layers, scored))
            self._read(same, self._most_tokens())
            others += same
        self._hold_pens([dense, *fast, *others])
        return [self._row(each) for each in (dense, *fast, *others)]

    def _tower_has_attention(self) -> bool:
        view = self._views[self.pages[0].name]
        return self.model.encode_scored(view.parts[0] if view.parts else view).received is not None

    def _choices(self) -> Iterable[Contender]:
        key = focal_choices_key(self.settings.focal_counts)
        if key not in self._records:
            views = [self._views[page.name] for page in self.pages[:PROFILED_PAGES]]
            found = focal_choices(
                self.model, views, self.settings.focal_counts, self.settings.max_output_tokens
            )
            self._records.add(key, asdict(found))
        found = restored_value(key, self._records[key])
        counts = self.settings.page_focal_counts
        return choices(self.settings.warmups, self.settings.focal_sets, found, counts)

    def _pages_of(self, contender: Contender) -> list[EvaluationPage]:
        return self._baseline_pages if contender.group in BASELINE_GROUPS else self.pages

    def _read(self, contenders: Sequence[Contender], most: int | None) -> None:
        """Whatever has not been read to its end; readings that keep about as much stand beside each other."""
        missing: dict[Key, tuple[DecodePolicy, EvaluationPage]] = {}
        for contender in contenders:
            for page in self._pages_of(contender) if contender.policy else ():
                assert contender.policy is not None
                key = reading_key(contender.policy, page)
                if not self._is_read(key, most):
                    missing[key] = contender.policy, page
        order = sorted(missing, key=lambda key: missing[key][0].kept_share)
        readings = [Reading(missing[key][0], self._views[missing[key][1].name]) for key in order]
        if readings:
            self.say(f"{len(readings)} readings of pages to do")
        results = read_by_many(self.model, readings, min(self.settings.batch, len(readings) or 1), most)
        for done, (number, result) in enumerate(results, start=1):
            policy, page = missing[order[number]]
            reading = page_reading(page, result, policy.name == "dense")
            if reading.error:
                self._failed[order[number]] = reading
            else:
                self._records.add(order[number], asdict(reading))
            if done % self.settings.batch == 0:
                self.say(f"{done} of {len(readings)} readings done")

    def _is_read(self, key: Key, most: int | None) -> bool:
        """Whether there is a reading that was not stopped earlier than it would be stopped now: where a dense reading
        failed and came later, the longest dense text may have grown.
        """
        if key not in self._records:
            return False
        reading: PageReading = restored_value(key, self._records[key])
        stop = min(most or self.model.max_output_tokens, self.model.max_output_tokens)
        return reading.finish != "length" or reading.output_tokens >= stop

    def _reading(self, policy: DecodePolicy, page: EvaluationPage) -> PageReading:
        key = reading_key(policy, page)
        if key in self._failed:
            return self._failed[key]
        reading: PageReading = restored_value(key, self._records[key])
        return reading

    def _most_tokens(self) -> int:
        longest = max(len(self._reading(DecodePolicy.dense(), page).tokens) for page in self.pages)
        most = max(WARMUP_STEPS, math.ceil(LONGEST * longest))
        return min(most, self.settings.max_output_tokens or most)

    def _really_read(self, fast: Sequence[Contender]) -> list[FastOcrRead]:
        found = []
        for contender in fast:
            row, policy = self._row(contender), contender.policy
            if row.read_share is not None and policy is not None:
                readings = [self._reading(policy, page) for page in self.pages]
                tokens = statistics.fmean(reading.image_tokens for reading in readings)
                outputs = statistics.fmean(reading.output_tokens for reading in readings)
                found.append(FastOcrRead(contender.share, row.read_share, tokens, outputs))
        return found

    def _hold_pens(self, contenders: Sequence[Contender]) -> None:
        """Along the dense text of the first baseline pages, as many policies in a batch as readings."""
        for page in self._forced_pages():
            missing: dict[Key, DecodePolicy] = {}
            for contender in contenders:
                if contender.policy is None or self._row(contender).read_share is None:
                    continue
                key = held_key(contender.policy, page)
                if key not in self._records:
                    missing[key] = contender.policy
            keys = sorted(missing, key=lambda key: missing[key].kept_share)
            for first in range(0, len(keys), self.settings.batch):
                batch = keys[first : first + self.settings.batch]
                dense = self._dense_page(page)
                measured = measure_steps(
                    self.model, [missing[key] for key in batch], dense, self.settings.skipped
                )
                for key, steps in zip(batch, measured, strict=True):
                    self._records.add(key, asdict(steps))
                self.say(f"{page.name}: the pen of {first + len(batch)} of {len(keys)} policies held")

    def _forced_pages(self) -> list[EvaluationPage]:
        """A page in parts has no one prompt along which a pen could be held, one that dense failed on no text."""
        whole = [page for page in self._baseline_pages if not self._views[page.name].parts]
        chosen, dense = whole[: self.settings.forced_pages], DecodePolicy.dense()
        return [page for page in chosen if reading_key(dense, page) not in self._failed]

    def _dense_page(self, page: EvaluationPage) -> DensePage:
        """The dense text of a page, along which the pen of every policy is held; its layers are looked at by the way."""
        if page.name not in self._held:
            view = self._views[page.name]
            tokens = self._reading(DecodePolicy.dense(), page).tokens[: self.settings.forced_steps]
            cells: dict[int, int] = {}
            if self.model.vision.family == "mini":
                grid = self.model.image_grid(view)
                cells = character_cells(page.words, tokens, view, self.model.vision, grid)
            dense = dense_page(self.model, view, tokens, cells, self.settings.stride)
            kept = share_budget(DEFAULT_KEPT_SHARE, self.model.default_floor, view.image_tokens)
            focus = layer_focus(dense, kept, self.settings.skipped)
            self._records.add(layers_key(page), asdict(focus))
            self._held[page.name] = dense
        return self._held[page.name]

    def _row(self, contender: Contender) -> FixationRow:
        if contender.policy is None:
            return empty_row(contender, contender.note)
        pages = self._pages_of(contender)
        steps = StepMeasures()
        for page in self._forced_pages():
            key = held_key(contender.policy, page)
            if key in self._records:
                steps.add(restored_value(key, self._records[key]))
        return row_of(
            contender,
            [self._reading(contender.policy, page) for page in pages],
            [self._reading(DecodePolicy.dense(), page) for page in pages],
            steps,
            contender.policy.warmup_steps if contender.policy.name == "fastocr" else 0,
            self._layers() if contender.group == "dense" else (),
        )

    def _layers(self) -> tuple[tuple[float, float | None], ...]:
        """Over the pages with a held pen."""
        keys = [layers_key(page) for page in self._forced_pages()]
        return layer_shares([restored_value(key, self._records[key]) for key in keys if key in self._records])


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
        "device": str(study.model.device),
        "rows": [row_facts(row) for row in rows],
    }
