"""What is left to do: the manifest minus published parts minus staged shards. A pure function of three sets.

Resume is not a mode: every run asks this question, and on a fresh target the answer is everything.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from pipeline.planner import Part, group_parts
from pipeline.stored import numbers_below
from workers.layout import PAGES_FOLDER, STAGED_FOLDER, part_key, staged_key
from workers.object_store import ObjectStore
from workers.schema import ManifestShard


@dataclass(frozen=True, slots=True)
class RemainingWork:
    """Shards that must be read, and parts whose shards are all staged and only wait to be published."""

    shards_to_read: tuple[int, ...]
    parts_to_publish: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """Numbers of the parts that are published and of the shards that are staged, as found in the target."""

    published_parts: frozenset[int]
    staged_shards: frozenset[int]


def find_progress(store: ObjectStore) -> Progress:
    """List what a target already holds; only exact names count."""
    return Progress(
        numbers_below(store, PAGES_FOLDER, part_key), numbers_below(store, STAGED_FOLDER, staged_key)
    )


def remaining_work(
    shards: Sequence[ManifestShard], published_parts: Set[int], staged_shards: Set[int]
) -> RemainingWork:
    """Subtract. A staged shard of a published part counts as published: a late writer left it behind."""
    waiting = [part for part in group_parts(shards) if part.part_index not in published_parts]
    to_read = [
        shard.shard_index
        for part in waiting
        for shard in part.shards
        if shard.shard_index not in staged_shards
    ]
    complete = [part for part in waiting if _all_staged(part, staged_shards)]
    return RemainingWork(tuple(sorted(to_read)), tuple(complete))


def _all_staged(part: Part, staged_shards: Set[int]) -> bool:
    return all(shard.shard_index in staged_shards for shard in part.shards)


def finished_pages(parts: Sequence[Part], progress: Progress) -> int:
    """Pages that need no more reading."""
    return sum(
        shard.page_count
        for part in parts
        for shard in part.shards
        if part.part_index in progress.published_parts or shard.shard_index in progress.staged_shards
    )
