"""Whatever is killed, a plain glob over the parts never shows a page twice, and in the end each once."""

import random
from pathlib import Path

import pytest

from tests.soak.kills import storm

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_three_kills_lose_no_page_and_double_none(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    result = storm(tmp_path, kills=3, documents=6, pages=10, seed=seed)
    assert result.problems == []
    assert set(result.kills.values()) == {1}
    assert len(result.kills) == 3
    assert result.looks > 5
    assert (result.leftovers, result.drivers_ended) == (0, result.runs + result.kills["driver"])
