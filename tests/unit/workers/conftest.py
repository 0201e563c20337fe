"""One rasterizer shared by the tests that do not end its child, and the index of the case files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workers.rasterize import Rasterizer, RasterLimits


@pytest.fixture(scope="module")
def rasterizer() -> Iterator[Rasterizer]:
    """A rasterizer with the default limits."""
    with Rasterizer(RasterLimits()) as shared:
        yield shared


@pytest.fixture(scope="session")
def case_index(cases_dir: Path) -> dict[str, dict[str, Any]]:
    """What is expected of each case file, by file name."""
    lines = (cases_dir / "index.jsonl").read_text(encoding="utf-8").splitlines()
    return {entry["file"]: entry for entry in map(json.loads, lines)}
