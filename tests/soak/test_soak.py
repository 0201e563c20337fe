"""The programs of `make soak`, shorter; the kills are in tests/ray/test_kills.py."""

import random
from pathlib import Path

import pytest

from tests.soak import long_document, mutants, passes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_a_hundred_mutants_lose_no_row_and_break_nothing(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    result = mutants.herd(tmp_path, mutants=100, seed=seed)
    assert result.problems == []
    assert result.mutants == result.documents.total() == 100
    assert result.documents["read"] > 20  # and with the damage done the others are refused, not read
    assert result.documents.total() - result.documents["read"] > 20
    assert result.pages["read"] > 20


def test_memory_of_the_actors_is_level(tmp_path: Path) -> None:
    result = passes.level(tmp_path, passes=8)
    assert len(result.actors) == 8
    assert min(result.child) > 0
    assert result.growth_bytes <= passes.MOST_GROWTH_BYTES
    assert result.child_growth_bytes <= passes.MOST_GROWTH_BYTES


@pytest.mark.ray
def test_a_long_document_keeps_memory_level_and_is_carried_on_where_it_was_killed(
    cases_dir: Path, tmp_path: Path
) -> None:
    result = long_document.read_twice(cases_dir / long_document.DOCUMENT, tmp_path, pages=80)
    print(*long_document.lines(result), sep="\n")
    assert result.problems == []
    assert result.carried_on.read_after + result.carried_on.finished == 80


def test_memory_that_grows_with_the_pages_would_be_seen() -> None:
    watched = long_document.Watched(400, [])
    watched.samples = [
        (page, {"driver": 100_000_000, "OCR actor": page * 200_000, "rasterize child": page * 300_000})
        for page in range(400)
    ]
    assert watched.growth_bytes["driver"] == 0
    assert watched.growth_bytes["OCR actor"] > long_document.MOST_GROWTH_BYTES
    assert watched.growth_bytes["rasterize child"] > long_document.MOST_GROWTH_BYTES
    assert watched.at(100)["OCR actor"] == 20_000_000


def test_a_leak_would_be_seen() -> None:
    leaking = passes.Level([100_000_000 + 4_000_000 * number for number in range(8)], [1] * 8, 8)
    assert leaking.growth_bytes > passes.MOST_GROWTH_BYTES
