"""The sample archive: readable as its note on origins says, with a truth for every made page."""

from pathlib import Path

import pytest

from workers.blankness import is_blank
from workers.inspect_document import inspect
from workers.outcomes import Reason
from workers.rasterize import Rasterizer, RasterPage

EXAMPLES = Path(__file__).resolve().parents[3] / "infra" / "examples"
PAGES = {
    "blank-leaf.jpg": 1,
    "bridge-report.pdf": 3,
    "broken-copy.pdf": 0,
    "irm-two-pages.pdf": 2,
    "library-minutes.tif": 2,
    "lighthouse-log.png": 1,
    "orchard-diary.jp2": 1,
    "promenade-fr.jpg": 1,
    "wanderung-de.tif": 1,
}


def test_the_archive_holds_these_files_and_is_small() -> None:
    files = list((EXAMPLES / "archive").iterdir())
    assert sorted(file.name for file in files) == sorted(PAGES)
    assert sum(file.stat().st_size for file in files) < 2_000_000
    origins = (EXAMPLES / "ORIGINS.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in origins for name in PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_document_of_the_archive(name: str, rasterizer: Rasterizer) -> None:
    facts = inspect((EXAMPLES / "archive" / name).read_bytes(), rasterizer.limits, 150, rasterizer)
    assert facts.page_count == PAGES[name]
    assert facts.reason == (Reason.CORRUPT if name.startswith("broken") else None)
    for page_index in range(facts.page_count):
        page = rasterizer.page(page_index, 150)
        assert isinstance(page, RasterPage)
        assert is_blank(page.image).is_blank == name.startswith("blank")
        truth = EXAMPLES / "truth" / f"{name.split('.')[0]}-{page_index}.txt"
        assert truth.exists() != name.startswith(("blank", "irm"))
