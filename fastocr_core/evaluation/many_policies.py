"""Pages read by many policies in one batch, each page's image encoded once.

Results are those of an engine for each policy, but for the last bit of sums (attention/together.py) and for the time
they take, which means nothing here.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from typing import Any, cast

from torch import Tensor

from fastocr_core.config import DecodePolicy, EngineLimits
from fastocr_core.decoding import build_policy
from fastocr_core.decoding.base import Policy
from fastocr_core.decoding.side_by_side import SideBySidePolicy
from fastocr_core.engine import Engine
from fastocr_core.models.base import ImageEncoding, ModelAdapter
from fastocr_core.output import PageText
from fastocr_core.vision.prepared import PreparedPage


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """A page to be read under a policy."""

    policy: DecodePolicy
    page: PreparedPage


class SharedEncodings:
    """Stands before a model: the same views are encoded once, and it is known whose turn it is.

    The engine encodes a page right before it compresses the encoding, which is when `arriving` is asked for.
    """

    def __init__(self, model: ModelAdapter) -> None:
        self._model = model
        self._policies: dict[int, DecodePolicy] = {}  # by the identity of the page
        self._known: dict[int, ImageEncoding] = {}  # by the identity of the views
        self._arriving = DecodePolicy.dense()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def page_for(self, reading: Reading) -> PreparedPage:
        """A page of its own, with parts of its own, that stands for this reading; keep it as long as this model is used."""
        page = replace(reading.page, parts=tuple(replace(part) for part in reading.page.parts))
        for encoded in (page, *page.parts):
            self._policies[id(encoded)] = reading.policy
        return page

    def encode(self, page: PreparedPage) -> Tensor:
        """Image tokens [N, hidden]."""
        return self.encode_scored(page).embeddings

    def encode_scored(self, page: PreparedPage) -> ImageEncoding:
        """Once for the same views, with scores where the model has them."""
        self._arriving = self._policies[id(page)]
        known = self._known.get(id(page.views))
        if known is None:
            known = self._known[id(page.views)] = self._model.encode_scored(page)
        return known

    def arriving(self) -> Policy:
        """The policy of the page that was encoded last, for one slot."""
        return build_policy(self._arriving, self._model, 1)


def read_by_many(
    model: ModelAdapter, readings: Sequence[Reading], slots: int, max_output_tokens: int | None = None
) -> Iterator[tuple[int, PageText]]:
    """The number of a reading and its result, as they come. A policy that does not apply to the model is a result with an
    error.

    Readings that keep about as much should stand beside each other: slots are padded to the longest.
    """
    shared = SharedEncodings(model)
    pages = [shared.page_for(reading) for reading in readings]

    def build(settings: DecodePolicy, adapter: ModelAdapter, count: int) -> Policy:
        return SideBySidePolicy(count, adapter.shape.layers, shared.arriving, scored=True)

    limits = EngineLimits(max_output_tokens=max_output_tokens, seconds_per_page=None)
    with Engine(
        cast(ModelAdapter, shared), DecodePolicy.dense(), slots, limits, backend="together", build=build
    ) as engine:
        numbers = {engine.submit(page): number for number, page in enumerate(pages)}
        try:
            for future in as_completed(numbers):
                yield numbers[future], future.result()
        finally:
            for future in numbers:
                future.cancel()
