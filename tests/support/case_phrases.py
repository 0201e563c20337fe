"""What must be found on which page of the case files, and whether a model finds it.

`python -m tests.support.case_phrases [--model mini] [FILE ...]` reads every page of which phrases are known, in the
way a run reads it, and prints what is found and what is missing: the list of what a test may require.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fastocr_core import DecodePolicy, EngineLimits, load
from fastocr_core.evaluation.scoring import folded_phrase
from fastocr_core.models.base import ModelAdapter
from workers.evaluation_cases import known_pages
from workers.page_reader import PageReader
from workers.prepare import PagePackage, prepare_page
from workers.rasterize import PageFailure, Rasterizer
from workers.sniff import Format, sniff

Place = tuple[str, int]  # file, page from 1
SLOTS = 4


@dataclass(frozen=True, slots=True)
class ReadPage:
    """The text of one page and the phrases that must be in it."""

    place: Place
    text: str
    phrases: tuple[str, ...]

    @property
    def missing(self) -> list[str]:
        """Phrases that are not in the text; case and white space do not matter."""
        folded = folded_phrase(self.text)
        return [phrase for phrase in self.phrases if folded_phrase(phrase) not in folded]


def phrases_of(cases: Path) -> dict[Place, tuple[str, ...]]:
    """All phrases of the index, page by page."""
    return {(page.file, page.number): page.must_contain for page in known_pages(cases) if page.must_contain}


def read_places(cases: Path, wanted: dict[Place, tuple[str, ...]], model: ModelAdapter) -> list[ReadPage]:
    """Rasterize, prepare and read pages as a run does. A page that cannot be drawn raises ValueError."""
    packages = list(_packages(cases, wanted, model))
    reader = PageReader(model, DecodePolicy.fastocr(), SLOTS, EngineLimits())

    async def read() -> list[str]:
        readings = await asyncio.gather(*map(reader.read, packages))
        return [reading.page_text.text for reading in readings]

    try:
        texts = asyncio.run(read())
    finally:
        reader.close()
    return [
        ReadPage(place, text, phrases) for (place, phrases), text in zip(wanted.items(), texts, strict=True)
    ]


def _packages(cases: Path, places: Iterable[Place], model: ModelAdapter) -> Iterator[PagePackage]:
    with Rasterizer() as rasterizer:
        for file, number in places:
            data = (cases / file).read_bytes()
            rasterizer.open(data, Format(sniff(data)))
            page = rasterizer.page(number - 1, model.vision.wanted_dpi)
            if isinstance(page, PageFailure):
                raise ValueError(f"page {number} of {file} cannot be drawn: {page.reason}")
            yield prepare_page(page, model.vision)


def main() -> int:
    """Print each page with what is found and what is missing; exit code 0 whatever is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", help="names of files; all by default")
    parser.add_argument("--cases", type=Path, default=os.environ.get("FASTOCR_CASES"))
    parser.add_argument("--model", default="mini")
    arguments = parser.parse_args()
    if arguments.cases is None:
        parser.error("where are the case files? give --cases or set FASTOCR_CASES")
    model = load(arguments.model)
    found = total = 0
    for place, phrases in phrases_of(arguments.cases).items():
        if arguments.files and place[0] not in arguments.files:
            continue
        (page,) = read_places(arguments.cases, {place: phrases}, model)
        found, total = found + len(phrases) - len(page.missing), total + len(phrases)
        seen = [phrase for phrase in phrases if phrase not in page.missing]
        print(f"{place}: found {seen}, missing {page.missing}", flush=True)
    print(f"{found} of {total} phrases found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
