"""Cuts the page manifest into shards and parts: pure functions of its rows and of the limits, row by row.

A shard is a run of manifest rows, the unit of work and of resume; a part is a run of shards, published as one
file. The cut is made once, at the survey, and stored: a later run with other actors keeps it.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from workers.schema import ManifestShard

BYTES_PER_PIXEL = 1
SHARDS_PER_OCR_ACTOR = 4


@dataclass(frozen=True, slots=True)
class ShardLimits:
    """How large shards and parts may grow. They bound memory and what a kill can cost, never a text.

    A shard is what one OCR actor is expected to read in `reading_seconds`, at `image_tokens_per_second` of its
    own. The default of the latter is a careful guess; what a model does on your machines stands in the metrics of
    any run.
    """

    pages: int = 32
    pixel_bytes: int = 256_000_000
    part_pages: int = 2048
    reading_seconds: float = 60.0
    image_tokens_per_second: float = 1000.0

    def __post_init__(self) -> None:
        if self.pages < 1 or self.pixel_bytes < 1:
            raise ValueError("a shard holds at least one page and one byte")
        if self.part_pages < self.pages:
            raise ValueError("a part must hold at least one full shard: part_pages must not be below pages")
        for name in ("reading_seconds", "image_tokens_per_second"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be more than 0, not {value:g}")

    @property
    def image_tokens(self) -> float:
        """Image tokens that fit into the reading time of one shard."""
        return self.reading_seconds * self.image_tokens_per_second


@dataclass(frozen=True, slots=True)
class PageLoad:
    """What one page is expected to cost: pixels of its image, tokens the model sees. Nothing if it is not read."""

    pixels: int
    image_tokens: int


@dataclass(frozen=True, slots=True)
class Part:
    """One file to publish: its shards in order, and where their pages lie in the manifest.

    The shards are a slice of all of them, which a manifest makes into rows only when they are asked for.
    """

    part_index: int
    shards: Sequence[ManifestShard]

    @property
    def first_row(self) -> int:
        return self.shards[0].first_row

    @property
    def page_count(self) -> int:
        return sum(shard.page_count for shard in self.shards)


def pages_per_shard(page_count: int, ocr_actors: int, limits: ShardLimits) -> int:
    """Largest number of pages in a shard: the limit, or less, so that each actor gets four shards."""
    wanted_shards = SHARDS_PER_OCR_ACTOR * max(1, ocr_actors)
    return max(1, min(limits.pages, page_count // wanted_shards))


def plan_shards(
    loads: Iterable[PageLoad], page_count: int, ocr_actors: int, limits: ShardLimits
) -> Iterator[ManifestShard]:
    """Cut the manifest, in its order, into shards numbered from 0 and spread over parts numbered from 0.

    `page_count` is the number of `loads`, which may be too many to hold.
    """
    most_pages = pages_per_shard(page_count, ocr_actors, limits)
    first_row = part_index = part_pages = 0
    for shard_index, run in enumerate(_runs(loads, most_pages, limits)):
        if part_pages and part_pages + run.pages > limits.part_pages:
            part_index, part_pages = part_index + 1, 0
        part_pages += run.pages
        yield ManifestShard(
            shard_index=shard_index,
            part_index=part_index,
            first_row=first_row,
            page_count=run.pages,
            estimated_pixels=run.pixels,
            estimated_image_tokens=run.image_tokens,
        )
        first_row += run.pages


@dataclass(slots=True)
class _Run:
    """Sums over the pages of a shard that is being filled."""

    pages: int = 0
    pixels: int = 0
    image_tokens: int = 0

    def has_room(self, load: PageLoad, most_pages: int, limits: ShardLimits) -> bool:
        """Whether a page may join; a page larger than the whole budget stands alone."""
        return not self.pages or (
            self.pages < most_pages
            and (self.pixels + load.pixels) * BYTES_PER_PIXEL <= limits.pixel_bytes
            and self.image_tokens + load.image_tokens <= limits.image_tokens
        )


def _runs(loads: Iterable[PageLoad], most_pages: int, limits: ShardLimits) -> Iterator[_Run]:
    run = _Run()
    for load in loads:
        if not run.has_room(load, most_pages, limits):
            yield run
            run = _Run()
        run.pages += 1
        run.pixels += load.pixels
        run.image_tokens += load.image_tokens
    if run.pages:
        yield run


def group_parts(shards: Sequence[ManifestShard]) -> list[Part]:
    """The parts that all the shards of a manifest make up, in order: a part is a run of shards."""
    firsts: list[tuple[int, int]] = []  # part, and place of its first shard
    for place, shard in enumerate(shards):
        if not firsts or firsts[-1][0] != shard.part_index:
            firsts.append((shard.part_index, place))
    ends = pairwise([*firsts, (-1, len(shards))])
    return [Part(part, shards[first:end]) for (part, first), (_, end) in ends]
