"""What is left is exactly what is neither published nor staged, after any interruption."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.planner import ShardLimits, group_parts
from pipeline.resume import Progress, finished_pages, remaining_work
from tests.unit.pipeline.factory import manifest_page, planned
from workers.layout import number_in, part_key, staged_key
from workers.schema import ManifestShard


def _shards(pages: int) -> list[ManifestShard]:
    manifest = [manifest_page("d", index, pages) for index in range(pages)]
    return planned(manifest, 1, ShardLimits(pages=3, part_pages=7))


@given(st.integers(0, 60), st.sets(st.integers(0, 9)), st.sets(st.integers(0, 25)))
def test_read_staged_and_published_shards_are_all_shards_and_never_overlap(
    pages: int, published: set[int], staged: set[int]
) -> None:
    shards = _shards(pages)
    work = remaining_work(shards, published, staged)
    done = {shard.shard_index for shard in shards if shard.part_index in published}
    waiting = {shard.shard_index for shard in shards if shard.shard_index in staged} - done
    assert set(work.shards_to_read) | waiting | done == {shard.shard_index for shard in shards}
    assert not set(work.shards_to_read) & (waiting | done)
    for part in work.parts_to_publish:
        assert part.part_index not in published
        assert {shard.shard_index for shard in part.shards} <= staged


@given(st.integers(1, 60), st.randoms(use_true_random=False))
def test_any_order_of_staging_and_any_number_of_restarts_ends_with_every_part_published_once(
    pages: int, chance: st.DataObject
) -> None:
    shards = _shards(pages)
    published: set[int] = set()
    staged: set[int] = set()
    reads: dict[int, int] = {}
    for _ in range(1_000):
        work = remaining_work(shards, published, staged)
        for part in work.parts_to_publish:
            assert part.part_index not in published
            published.add(part.part_index)
            staged -= {shard.shard_index for shard in part.shards}
        if not work.shards_to_read:
            break
        for shard in chance.sample(work.shards_to_read, chance.randint(1, len(work.shards_to_read))):
            reads[shard] = reads.get(shard, 0) + 1
            staged.add(shard)
    assert published == {part.part_index for part in group_parts(shards)}
    assert set(reads.values()) == {1}


@pytest.mark.parametrize(
    "name",
    [
        "part-0.parquet",
        "part-00000.crc",
        "part-00000",
        "a-00000.parquet",
        "part-²0000.parquet",
        "part-.parquet",
    ],
)
def test_only_exact_names_are_parts(name: str) -> None:
    assert number_in(f"pages/{name}", part_key) is None
    for number in (0, 7, 123_456):
        assert number_in(part_key(number), part_key) == number
        assert number_in(staged_key(number), staged_key) == number
        assert number_in(f"pages/old/{part_key(number)}", part_key) is None


def test_finished_pages_counts_published_and_staged_once() -> None:
    shards = _shards(20)
    parts = group_parts(shards)
    everything = Progress(
        frozenset(part.part_index for part in parts), frozenset(shard.shard_index for shard in shards)
    )
    assert finished_pages(parts, everything) == 20
    assert finished_pages(parts, Progress(frozenset(), frozenset())) == 0
