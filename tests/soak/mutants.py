"""Damaged PDFs, TIFFs and JPEGs by the thousand through survey and rasterizing, as the workers do both.

The parent never fails; every mutant has a document row, and every page a row promises ends as an image or as a
reason from the closed list. `make soak` tries 2,000 mutants, `make test` 100.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.made_sheets import saved, sheet
from tests.support.toy_job import toy_job
from tests.unit.workers.pdf_maker import PagePlan, make_pdf, text
from workers.job import ReadJob
from workers.object_store import LocalStore
from workers.outcomes import Reason
from workers.rasterize import RasterLimits
from workers.rasterize_shard import PageSource
from workers.schema import ManifestDocument, ManifestPage, table_to_rows
from workers.survey import SurveyTask, inspected

AT_ONCE = 50
PAGES_DRAWN = 4  # of each document; a mutant may promise many
MOST_CHANGES = 12
TIGHT = RasterLimits(seconds_per_page=20, seconds_to_open=20, memory_bytes=600e6, max_pixels=4e6)
EXTREMES = (
    b"\xff\xff\xff\xff",
    b"\x00\x00\x00\x00",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x80\x00\x00\x00",
)
Change = Callable[[bytearray, random.Random], None]


@dataclass(slots=True)
class Herd:
    """What became of the mutants: documents and pages by reason (`read` for none), and what must not be."""

    mutants: int = 0
    documents: Counter[str] = field(default_factory=Counter)
    pages: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def herd(folder: Path, mutants: int, seed: int) -> Herd:
    """Make `mutants` mutants in `folder`, a few at a time, and put each through survey and rasterizing."""
    chance = random.Random(seed)
    originals = sound_documents()
    result = Herd()
    job = toy_job(folder / "target", raster=TIGHT)
    source = PageSource(job)
    try:
        for first in range(0, mutants, AT_ONCE):
            place = folder / f"herd-{first:06d}"
            place.mkdir()
            for number in range(first, min(first + AT_ONCE, mutants)):
                name, original = originals[number % len(originals)]
                (place / f"{number:06d}-{name}").write_bytes(mutant(original, chance, originals))
            _examine(place, job, source, result)
            for file in place.iterdir():
                file.unlink()
    finally:
        source.close()
    return result


def _examine(place: Path, job: ReadJob, source: PageSource, result: Herd) -> None:
    listed = sorted(LocalStore(str(place)).list(), key=lambda stored: stored.uri)
    found = inspected(listed, SurveyTask(job.raster, job.vision, job.storage))
    documents = table_to_rows(found.documents, ManifestDocument)
    pages = table_to_rows(found.pages, ManifestPage)
    result.mutants += len(listed)
    if [document.source_uri for document in documents] != [stored.uri for stored in listed]:
        result.problems.append(f"{place.name}: {len(documents)} document rows for {len(listed)} mutants")
    promised = Counter(page.document_id for page in pages)
    for document in documents:
        result.documents[str(document.reason or "read")] += 1
        if promised[document.document_id] != document.page_count:
            result.problems.append(f"{document.source_uri}: {promised[document.document_id]} page rows")
        if (document.reason is None) != (document.page_count > 0) or document.reason not in (None, *Reason):
            result.problems.append(f"{document.source_uri}: {document.reason}, {document.page_count} pages")
    for page in pages:
        if page.page_index >= PAGES_DRAWN:
            continue
        taken = source.take(page)
        result.pages["read" if taken.failure is None else str(taken.failure.reason)] += 1
        if (taken.package is None) == (taken.failure is None):
            result.problems.append(f"{page.source_uri}, page {page.page_index}: neither image nor reason")


def sound_documents() -> list[tuple[str, bytes]]:
    """The documents that the mutants come from: small, and of each kind more than one."""
    pictured = PagePlan(sheet("L")), PagePlan(sheet("RGB"), soft_mask=True)
    return [
        ("text.pdf", make_pdf([PagePlan(after=text("one")), PagePlan(after=text("two"))])),
        (
            "bilevel.tif",
            saved("1", "TIFF", compression="group4", save_all=True, append_images=[sheet("1")]),
        ),
        ("gray.jpg", saved("L", "JPEG")),
        ("pictures.pdf", make_pdf(pictured)),
        ("lzw.tif", saved("RGB", "TIFF", compression="tiff_lzw")),
        ("colour.jpg", saved("RGB", "JPEG", quality=70, progressive=True)),
        ("scan.pdf", saved("RGB", "PDF")),
        ("jpeg.tif", saved("RGB", "TIFF", compression="jpeg")),
        ("inks.jpg", saved("CMYK", "JPEG")),
        ("bilevel.pdf", saved("1", "PDF")),
        ("plain.tif", saved("L", "TIFF", save_all=True, append_images=[sheet("L"), sheet("L")])),
        ("small.jpg", saved("RGB", "JPEG", quality=20, subsampling=2)),
    ]


def mutant(original: bytes, chance: random.Random, others: list[tuple[str, bytes]]) -> bytes:
    """One damaged copy; never empty, since empty files are a reason of their own."""
    data = bytearray(original)
    for _ in range(chance.randint(1, MOST_CHANGES)):
        change = chance.choice((_set, _flip, _extreme, _cut, _drop, _repeat, _digit, _splice(others)))
        change(data, chance)
        if not data:
            data += original[:1]
    return bytes(data)


def _set(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] = chance.randrange(256)


def _flip(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _extreme(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    data[at : at + 4] = chance.choice(EXTREMES)


def _cut(data: bytearray, chance: random.Random) -> None:
    if chance.random() < 0.3:
        del data[chance.randint(len(data) // 2, len(data)) :]


def _drop(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    del data[at : at + chance.randint(1, 40)]


def _repeat(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    data[at:at] = data[at : at + chance.randint(1, 40)] * 3


def _digit(data: bytearray, chance: random.Random) -> None:
    """Numbers in a PDF are sizes, counts and offsets."""
    digits = [index for index, byte in enumerate(data) if 48 <= byte <= 57]
    if digits:
        data[chance.choice(digits)] = 48 + chance.randrange(10)


def _splice(others: list[tuple[str, bytes]]) -> Change:
    def change(data: bytearray, chance: random.Random) -> None:
        _, other = chance.choice(others)
        start, at = chance.randrange(len(other)), chance.randrange(len(data))
        length = chance.randint(1, 200)
        data[at : at + length] = other[start : start + length]

    return change


def _lines(result: Herd) -> Iterator[str]:
    yield f"{result.mutants} mutants; documents: {dict(result.documents.most_common())}"
    yield f"pages drawn: {dict(result.pages.most_common())}"
    yield from (f"PROBLEM: {problem}" for problem in result.problems)


def main() -> int:
    """Run the herd; exit code 1 if a row is missing or says neither the one nor the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        result = herd(Path(folder), arguments.mutants, arguments.seed)
    for line in _lines(result):
        print(line)
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main())
