"""Cuts the frozen page manifest into shards and parts: pure functions of its rows and of the limits.

A shard is a run of manifest rows, the unit of work and of resume; a part is a run of shards, published as one
file. The cut is made once, at the survey, and stored: a later run with other actors keeps it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from workers.schema import ManifestPage, ManifestShard

BYTES_PER_PIXEL = 1
SHARDS_PER_OCR_ACTOR = 4


@dataclass(frozen=True, slots=True)
class ShardLimits:
    """How large shards and parts may grow. They bound memory and what a kill can cost, never a text."""

    pages: int = 32
    pixel_bytes: int = 256_000_000
    part_pages: int = 2048

    def __post_init__(self) -> None:
        if self.pages < 1 or self.pixel_bytes < 1:
            raise ValueError("a shard holds at least one page and one byte")
        if self.part_pages < self.pages:
            raise ValueError("a part must hold at least one full shard: part_pages must not be below pages")


@dataclass(frozen=True, slots=True)
class Part:
    """One file to publish: its shards in order, and where their pages lie in the manifest."""

    part_index: int
    shards: tuple[ManifestShard, ...]

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


def plan_shards(pages: Sequence[ManifestPage], ocr_actors: int, limits: ShardLimits) -> list[ManifestShard]:
    """Cut the manifest, in its order, into shards numbered from 0 and spread over parts numbered from 0."""
    most_pages = pages_per_shard(len(pages), ocr_actors, limits)
    shards: list[ManifestShard] = []
    part_index = part_pages = 0
    for first_row, count in _runs([page.estimated_pixels for page in pages], most_pages, limits.pixel_bytes):
        if part_pages and part_pages + count > limits.part_pages:
            part_index, part_pages = part_index + 1, 0
        part_pages += count
        members = pages[first_row : first_row + count]
        shards.append(
            ManifestShard(
                shard_index=len(shards),
                part_index=part_index,
                first_row=first_row,
                page_count=count,
                estimated_pixels=sum(page.estimated_pixels for page in members),
                estimated_image_tokens=sum(page.estimated_image_tokens for page in members),
            )
        )
    return shards


def _runs(pixels: Iterable[int], most_pages: int, most_bytes: int) -> Iterator[tuple[int, int]]:
    """First row and length of each run; a page larger than the whole budget stands alone."""
    first_row = count = total = 0
    for page_pixels in pixels:
        page_bytes = page_pixels * BYTES_PER_PIXEL
        if count and (count == most_pages or total + page_bytes > most_bytes):
            yield first_row, count
            first_row, count, total = first_row + count, 0, 0
        count += 1
        total += page_bytes
    if count:
        yield first_row, count


def group_parts(shards: Iterable[ManifestShard]) -> list[Part]:
    """The parts that the shards make up, in order."""
    members: dict[int, list[ManifestShard]] = {}
    for shard in shards:
        members.setdefault(shard.part_index, []).append(shard)
    return [Part(index, tuple(members[index])) for index in sorted(members)]
