"""Who reads the pages of an evaluation: our engine under a policy, or another program, behind one contract.

A reader that cannot be had on this machine says why and is left out of the table; it never stops the others.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from fastocr_core.config import DecodePolicy, EngineLimits
from fastocr_core.engine import Engine
from fastocr_core.evaluation.pages import EvaluationPage
from fastocr_core.models.base import ModelAdapter
from fastocr_core.output import PageText
from fastocr_core.scores.boxes import Box
from fastocr_core.vision import prepare


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader made of one page.

    `words` are its words with boxes in pixels of the given image, empty where it gives none. `seconds` is wall clock for
    this page, for readers that read several at once its share. `finish` says how it ended, "" where that means nothing.
    """

    text: str
    words: tuple[tuple[str, Box], ...]
    seconds: float
    error: str | None = None
    finish: str = ""


class ReaderMissingError(Exception):
    """A reader cannot be used here; the message says what is missing in one sentence."""


class Reader(Protocol):
    """Reads pages in order. `name` heads its column, `version` says which one it was."""

    name: str
    version: str

    def read(self, pages: Sequence[EvaluationPage]) -> Iterator[Reading]:
        """One reading per page, in order; a page that fails is a reading with an error."""


class EngineReader:
    """A model of ours under one policy."""

    def __init__(
        self,
        model: ModelAdapter,
        policy: DecodePolicy,
        batch: int = 8,
        limits: EngineLimits | None = None,
    ) -> None:
        self.name = f"{model.name} {policy.name}"
        if policy.name != "dense":
            self.name += f" {policy.kept_share:.0%}"
        self.version = model.revision
        self._model, self._policy, self._batch, self._limits = model, policy, batch, limits

    def read(self, pages: Sequence[EvaluationPage]) -> Iterator[Reading]:
        """Pages are prepared as they are taken, so that few are in memory."""
        images = (prepare(page.load(), self._model.vision, page.dpi) for page in pages)
        with Engine(self._model, self._policy, self._batch, self._limits) as engine:
            begun = time.perf_counter()
            for result in engine.read(images):
                now = time.perf_counter()
                yield reading_of(result, now - begun)
                begun = now


def reading_of(result: PageText, seconds: float) -> Reading:
    """A page text as a reading; words have boxes where every block tells those of its words."""
    words: list[tuple[str, Box]] = []
    for block in result.blocks:
        texts = block.text.split()
        if len(texts) == len(block.word_boxes):
            words.extend(zip(texts, block.word_boxes, strict=True))
    return Reading(result.text, tuple(words), seconds, result.error, result.finish_reason)
