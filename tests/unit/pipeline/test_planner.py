"""Shards and parts cover the manifest once, in order, within their limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.planner import ShardLimits, group_parts, pages_per_shard, plan_shards
from tests.unit.pipeline.factory import manifest_page

limits_of = st.builds(
    lambda pages, pixels, more: ShardLimits(pages, pixels, pages + more),
    st.integers(1, 40),
    st.integers(1, 5_000),
    st.integers(0, 100),
)


@given(st.lists(st.integers(0, 3_000), max_size=150), st.integers(1, 6), limits_of)
def test_a_plan_covers_every_page_once_within_the_limits(
    pixels: list[int], ocr_actors: int, limits: ShardLimits
) -> None:
    pages = [manifest_page("d", index, len(pixels), size) for index, size in enumerate(pixels)]
    shards = plan_shards(pages, ocr_actors, limits)
    rows = [row for shard in shards for row in range(shard.first_row, shard.first_row + shard.page_count)]
    assert rows == list(range(len(pages)))
    assert [shard.shard_index for shard in shards] == list(range(len(shards)))
    for shard in shards:
        assert 1 <= shard.page_count <= limits.pages
        assert shard.estimated_pixels <= limits.pixel_bytes or shard.page_count == 1
    parts = group_parts(shards)
    assert [part.part_index for part in parts] == list(range(len(parts)))
    assert [shard for part in parts for shard in part.shards] == shards
    assert all(part.page_count <= limits.part_pages for part in parts)


@given(st.integers(1, 10_000), st.integers(1, 20))
def test_every_actor_gets_four_shards_where_there_are_that_many_pages(pages: int, actors: int) -> None:
    most = pages_per_shard(pages, actors, ShardLimits())
    shards = -(-pages // most)
    assert shards >= min(pages, 4 * actors)


def test_a_page_beyond_the_pixel_budget_stands_alone() -> None:
    pages = [manifest_page("d", index, 3, size) for index, size in enumerate((10, 1_000, 10))]
    shards = plan_shards(pages * 4, 1, ShardLimits(pages=32, pixel_bytes=100, part_pages=64))
    assert [shard.page_count for shard in shards if shard.estimated_pixels >= 1_000] == [1, 1, 1, 1]


def test_limits_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="part_pages"):
        ShardLimits(pages=32, part_pages=16)
    with pytest.raises(ValueError, match="at least one"):
        ShardLimits(pages=0)
