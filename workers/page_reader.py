"""Everything that is done to read one page: the first reading, another one turned where the model asks for it,
and a dense one where the reading is not to be trusted.

Both engines hold the same weights. The dense one is built when the first page needs it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fastocr_core.confidence import GUESSED, Thresholds
from fastocr_core.config import DecodePolicy, EngineLimits
from fastocr_core.output import PageText
from workers.assess import Assessment, ReadingStandard, assess
from workers.prepare import PagePackage, with_turned_view
from workers.second_pass import NO_BETTER, second_stands

if TYPE_CHECKING:
    from fastocr_core.engine import Engine
    from fastocr_core.models.base import ModelAdapter

DENSE_SLOTS = 2  # few pages are read twice, and every slot keeps room for a page


@dataclass(frozen=True, slots=True)
class Reading:
    """A page that was read. `package` is the page as read: turned further if the model asked for it; `passes` the sparse
    reading and the dense one where there were two, of which `page_text` is the better one.
    """

    page_text: PageText
    package: PagePackage
    assessment: Assessment
    passes: tuple[PageText, ...] = ()


class PageReader:
    """Reads pages with one model for one run. Called from one asyncio loop."""

    def __init__(
        self,
        model: "ModelAdapter",
        policy: DecodePolicy,
        max_batch: int,
        limits: EngineLimits,
        prompt: str | None = None,
        thresholds: Thresholds = GUESSED,
    ) -> None:
        from fastocr_core import Engine

        self.engine: Engine = Engine(model, policy=policy, max_batch=max_batch, limits=limits)
        # With a prompt of one's own the text may be anything, and much of the page left out.
        self.standard = ReadingStandard(thresholds, model.makes_sense, whole_page=prompt is None)
        self._model, self._limits, self._prompt = model, limits, prompt
        self._dense: Engine | None = None
        self._building = asyncio.Lock()

    @property
    def _engines(self) -> "tuple[Engine, ...]":
        return (self.engine,) if self._dense is None else (self.engine, self._dense)

    @property
    def busy_seconds(self) -> float:
        """Time that the engines have spent on pages; they take turns on one device."""
        return sum(engine.busy_seconds for engine in self._engines)

    @property
    def out_of_memory(self) -> int:
        """How often memory ran out, and what was decoded at once was halved."""
        return sum(engine.out_of_memory for engine in self._engines)

    @property
    def pages_restarted(self) -> int:
        """How often a page was taken out of its slot to be read again from its start."""
        return sum(engine.pages_restarted for engine in self._engines)

    async def read(self, package: PagePackage, first_read: Callable[[], None] | None = None) -> Reading:
        """Read one page as often as it takes. Never raises for anything that a page can cause.

        `first_read` is called once the page needs no slot of `engine` any more, only perhaps of the dense one.
        """
        package, page_text, remark = await self._read_upright(package)
        if first_read is not None:
            first_read()
        verdict = assess(page_text, package, self.standard)
        if remark:
            verdict = replace(verdict, warnings=(*verdict.warnings, remark))
        if not verdict.wants_dense_pass:
            return Reading(page_text, package, verdict)
        engine = await self._dense_engine()
        dense = await engine.read_async(package.prepared, self._prompt)
        if dense.finish_reason == "error":
            failed = f"a dense second pass was tried and failed: {dense.error}"
            return Reading(page_text, package, replace(verdict, warnings=(*verdict.warnings, failed)))
        second = assess(dense, package, self.standard)
        passes = (page_text, dense)
        if not second_stands(page_text, verdict, dense, second):
            remarked = replace(verdict, warnings=(*verdict.warnings, NO_BETTER))
            return Reading(page_text, package, remarked, passes)
        return Reading(dense, package, replace(second, warnings=verdict.warnings), passes)

    async def _read_upright(self, package: PagePackage) -> tuple[PagePackage, PageText, str]:
        """Read, and once more turned if the model says that the page is not upright.

        Where it is not content with its own turn either, the first reading stands. Also what there is to remark.
        """
        first = await self.engine.read_async(package.prepared, self._prompt)
        wanted = self._model.turn_wanted(first.tokens) if first.finish_reason == "stop" else 0
        if not wanted:
            return package, first, ""
        try:
            turned = await asyncio.to_thread(self._turned, package, wanted)
        except ValueError as failure:
            return package, first, f"the model finds the page turned by {wanted} degrees, but {failure}"
        second = await self.engine.read_async(turned.prepared, self._prompt)
        if second.finish_reason == "stop" and not self._model.turn_wanted(second.tokens):
            return turned, second, ""
        return package, first, f"the model asked for a turn of {wanted} degrees and was not content with it"

    def _turned(self, package: PagePackage, counter_clockwise: int) -> PagePackage:
        from fastocr_core.models.turned_page import turned_page

        prepared = turned_page(package.prepared, counter_clockwise, self._model.vision)
        return with_turned_view(package, prepared, -counter_clockwise % 360)

    async def _dense_engine(self) -> "Engine":
        from fastocr_core import Engine

        async with self._building:
            if self._dense is None:
                policy = DecodePolicy.dense()
                self._dense = await asyncio.to_thread(
                    Engine, self._model, policy=policy, max_batch=DENSE_SLOTS, limits=self._limits
                )
            return self._dense

    def close(self) -> None:
        """Finish what was begun and end the engines' threads."""
        for engine in self._engines:
            engine.close()
