"""Shards and parts cover the manifest once, in order, within their limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.planner import PageLoad, ShardLimits, group_parts, pages_per_shard, plan_shards

limits_of = st.builds(
    lambda pages, pixels, more, seconds: ShardLimits(pages, pixels, pages + more, seconds, 10.0),
    st.integers(1, 40),
    st.integers(1, 5_000),
    st.integers(0, 100),
    st.floats(0.5, 60),
)
loads_of = st.lists(st.builds(PageLoad, st.integers(0, 3_000), st.integers(0, 400)), max_size=150)


@given(loads_of, st.integers(1, 6), limits_of)
def test_a_plan_covers_every_page_once_within_the_limits(
    loads: list[PageLoad], ocr_actors: int, limits: ShardLimits
) -> None:
    shards = list(plan_shards(iter(loads), len(loads), ocr_actors, limits))
    rows = [row for shard in shards for row in range(shard.first_row, shard.first_row + shard.page_count)]
    assert rows == list(range(len(loads)))
    assert [shard.shard_index for shard in shards] == list(range(len(shards)))
    for shard in shards:
        members = loads[shard.first_row : shard.first_row + shard.page_count]
        assert shard.estimated_pixels == sum(load.pixels for load in members)
        assert shard.estimated_image_tokens == sum(load.image_tokens for load in members)
        assert 1 <= shard.page_count <= limits.pages
        assert shard.estimated_pixels <= limits.pixel_bytes or shard.page_count == 1
        assert shard.estimated_image_tokens <= limits.reading_seconds * 10 or shard.page_count == 1
    parts = group_parts(shards)
    assert [part.part_index for part in parts] == list(range(len(parts)))
    assert [shard for part in parts for shard in part.shards] == shards
    assert all(part.page_count <= limits.part_pages for part in parts)


@given(loads_of, limits_of)
def test_no_shard_could_have_taken_the_next_page_too(loads: list[PageLoad], limits: ShardLimits) -> None:
    shards = list(plan_shards(loads, len(loads), 1, limits))
    most = pages_per_shard(len(loads), 1, limits)
    for shard in shards[:-1]:
        following = loads[shard.first_row + shard.page_count]
        assert (
            shard.page_count == most
            or shard.estimated_pixels + following.pixels > limits.pixel_bytes
            or shard.estimated_image_tokens + following.image_tokens > limits.image_tokens
        )


@given(st.integers(1, 10_000), st.integers(1, 20))
def test_every_actor_gets_four_shards_where_there_are_that_many_pages(pages: int, actors: int) -> None:
    most = pages_per_shard(pages, actors, ShardLimits())
    shards = -(-pages // most)
    assert shards >= min(pages, 4 * actors)


def test_a_shard_is_a_minute_of_reading() -> None:
    limits = ShardLimits(image_tokens_per_second=500)
    shards = list(plan_shards([PageLoad(1_000_000, 4_000)] * 400, 400, 1, limits))
    assert {shard.page_count for shard in shards[:-1]} == {7}  # 8 pages would be 64 s
    dense = list(plan_shards([PageLoad(1, 40_000)] * 12, 12, 1, limits))
    assert [shard.page_count for shard in dense] == [1] * 12


def test_a_page_beyond_the_pixel_budget_stands_alone() -> None:
    loads = [PageLoad(pixels, 1) for pixels in (10, 1_000, 10)] * 4
    shards = list(plan_shards(loads, 12, 1, ShardLimits(pages=32, pixel_bytes=100, part_pages=64)))
    assert [shard.page_count for shard in shards if shard.estimated_pixels >= 1_000] == [1, 1, 1, 1]


def test_limits_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="part_pages"):
        ShardLimits(pages=32, part_pages=16)
    with pytest.raises(ValueError, match="at least one"):
        ShardLimits(pages=0)
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="image_tokens_per_second must be more than 0"):
            ShardLimits(image_tokens_per_second=wrong)
