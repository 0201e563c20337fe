"""One document of hundreds of pages: memory that does not grow with the page number, and no page read twice.

Two runs with the toy model. The first is watched: what driver, actors and rasterize child hold of their own, over the
pages that are done. The second is killed in the middle and carried on: pages that were finished must not reach the
reader again. `make soak` takes the document whole, `make test` its first pages.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from tests.support.made_archive import make_pdf
from tests.support.run_process import (
    OCR_ACTOR,
    RASTER_ACTOR,
    RASTER_CHILD,
    RunProcess,
    is_alive,
    wait_until,
    write_config,
)

DOCUMENT, BLANK_PAGES = "unstructured_irm_400_pages.pdf", (2, 400)
SHARD_PAGES, PART_SHARDS = 4, 16
SECONDS = 3000.0  # generous: a busy machine takes long
MARKS = (50, 100, 200, 300, 400)
ROLES: Mapping[str, bytes] = {
    "rasterize child": RASTER_CHILD,
    "rasterize actor": RASTER_ACTOR,
    "OCR actor": OCR_ACTOR,
}
DRAWING = ("rasterize child", "rasterize actor")
MOST_GROWTH_BYTES = 30_000_000
LOOK_SECONDS = 0.25
# One child for all pages: replaced on the way, it could hide what it keeps. Blank pages apart, each is read once.
MORE_SETTINGS = """
[raster]
recycle_after_pages = 100000
seconds_per_page = 300.0
[decode]
name = "dense"
"""


@dataclass(slots=True)
class Watched:
    """What was seen of a run: memory of each process by pages done, in bytes."""

    pages: int
    blank_pages: list[int]
    samples: list[tuple[int, dict[str, int]]] = field(default_factory=list)

    def at(self, page: int) -> dict[str, int]:
        """The most that each process held from the mark before `page` up to it.

        Pages are drawn ahead of those that are read: for who draws, the place in the order of the looks stands for
        the page.
        """
        earlier = max((mark for mark in self.marks if mark < page), default=0)
        found = {}
        for role in self.roles:
            if role in DRAWING:
                held = self._held(role)
                inside = held[len(held) * earlier // self.pages : len(held) * page // self.pages]
            else:
                inside = [held.get(role, 0) for done, held in self.samples if earlier < done <= page]
            found[role] = max(inside, default=0)
        return found

    def _held(self, role: str) -> list[int]:
        return [held[role] for _, held in self.samples if role in held]

    @property
    def marks(self) -> list[int]:
        """Pages at which to look; of a short document its quarters."""
        if self.pages >= MARKS[-1]:
            return [*MARKS]
        return [self.pages * quarter // 4 for quarter in range(1, 5)]

    @property
    def roles(self) -> list[str]:
        """The processes that were seen."""
        return sorted({role for _, held in self.samples for role in held})

    @property
    def growth_bytes(self) -> dict[str, int]:
        """How much more each process held towards its end than in the first half of its work, warm-up apart."""
        return {
            role: self._growth_by_time(role) if role in DRAWING else self._growth_by_page(role)
            for role in self.roles
        }

    def _growth_by_page(self, role: str) -> int:
        marks = self.marks
        middle = [self.at(mark)[role] for mark in marks[1:-2]]
        return self.at(marks[-1])[role] - max(middle)

    def _growth_by_time(self, role: str) -> int:
        held = self._held(role)
        quarter = len(held) // 4
        return max(held[3 * quarter :]) - max(held[quarter : 2 * quarter], default=0)


@dataclass(slots=True)
class CarriedOn:
    """A run that was killed in the middle: pages that were finished then, read until then, and read after it."""

    finished: int = 0
    read_before: int = 0
    read_after: int = 0
    read_again: list[str] = field(default_factory=list)


@dataclass(slots=True)
class LongDocument:
    """Both runs over one document, and what was wrong with them."""

    watched: Watched
    carried_on: CarriedOn
    problems: list[str] = field(default_factory=list)


def read_twice(document: Path, folder: Path, pages: int) -> LongDocument:
    """Both runs over the first `pages` pages of a document."""
    config = write_config(folder / "run.toml", shard_pages=SHARD_PAGES, part_pages=PART_SHARDS * SHARD_PAGES)
    config.write_text(config.read_text() + MORE_SETTINGS)
    blank = [page for page in BLANK_PAGES if page <= pages] if document.name == DOCUMENT else []
    result = LongDocument(Watched(pages, blank), CarriedOn())
    _watch(document, folder / "watched", config, result)
    if not result.problems:
        _interrupt(document, folder / "carried-on", config, result)
    return result


def _watch(document: Path, target: Path, config: Path, result: LongDocument) -> None:
    run = _start(document, target, config, result.watched.pages)

    looked = 0.0

    def look() -> bool:
        nonlocal looked
        if time.monotonic() < looked + LOOK_SECONDS:
            return run.process.poll() is not None
        looked = time.monotonic()
        held = {"driver": _own_bytes(run.process.pid)}
        for role, marker in ROLES.items():
            found = [_own_bytes(pid) for pid in run.helpers(marker)]
            if any(found):
                held[role] = max(found)
        result.watched.samples.append((_pages_done(target), held))
        return run.process.poll() is not None

    _finish(run, target, result, look)
    for role in ("driver", *ROLES):
        if role not in result.watched.roles:
            result.problems.append(f"no {role} was ever seen")
    for role, growth in result.watched.growth_bytes.items():
        if growth > MOST_GROWTH_BYTES:
            result.problems.append(f"the {role} grew by {growth / 1e6:.0f} MB with the pages")


def _interrupt(document: Path, target: Path, config: Path, result: LongDocument) -> None:
    """Kill the driver when about half of the pages are done, then give the same command again."""
    pages, carried = result.watched.pages, result.carried_on
    run = _start(document, target, config, pages)
    wait_until(lambda: run.process.poll() is not None or _pages_done(target) >= pages * 2 // 5, SECONDS)
    helpers = run.helpers()
    run.kill()
    wait_until(lambda: not any(map(is_alive, helpers)), 60.0)
    finished, before = _finished_shards(target), _attempts(target)
    carried.finished = SHARD_PAGES * len(finished)
    carried.read_before = SHARD_PAGES * len(before)
    if not 0 < carried.finished < pages:
        result.problems.append(f"killed with {carried.finished} of {pages} pages finished: not in the middle")
    run = _start(document, target, config, pages)
    seen: set[str] = set()

    def look() -> bool:
        seen.update(_attempts(target) - before)
        return run.process.poll() is not None

    _finish(run, target, result, look)
    carried.read_again = sorted(note for note in seen if _number(note) in finished)
    carried.read_after = SHARD_PAGES * (_facts(target).get("shard_readings", 0) - len(before))
    if carried.read_again:
        result.problems.append(f"finished pages were read again: {carried.read_again[:3]}")
    if carried.read_after != pages - carried.finished:
        result.problems.append(
            f"{carried.finished} pages were finished, yet {carried.read_after} of {pages} were read afterwards"
        )


def _start(document: Path, target: Path, config: Path, pages: int) -> RunProcess:
    return RunProcess.start(str(document), str(target), config, "--limit", str(pages))


def _finish(run: RunProcess, target: Path, result: LongDocument, look: Callable[[], bool]) -> None:
    """Wait for the end, looking all the while, and check that each page is there once, in its outcome."""
    try:
        if not wait_until(look, SECONDS):
            result.problems.append(f"not done within {SECONDS:g} s: {run.output()}")
            return
    finally:
        if run.process.poll() is None:
            run.kill()
    if run.process.returncode != 0:
        result.problems.append(f"the run ended with {run.process.returncode}: {run.output()}")
        return
    rows = pq.read_table(target / "pages", columns=["page_index", "outcome"]).to_pylist()
    indexes = sorted(row["page_index"] for row in rows)
    if indexes != list(range(result.watched.pages)):
        result.problems.append(f"{len(rows)} rows, {len(set(indexes))} pages of {result.watched.pages}")
    blank = sorted(row["page_index"] + 1 for row in rows if row["outcome"] == "ok_blank")
    if blank != result.watched.blank_pages:
        result.problems.append(f"blank are pages {blank}, not {result.watched.blank_pages}")


def _pages_done(target: Path) -> int:
    """Pages staged or published, from names alone."""
    return SHARD_PAGES * len(_finished_shards(target))


def _finished_shards(target: Path) -> set[int]:
    staged = {_number(file.name) for file in target.glob("_work/staged/*")}
    parts = {_number(file.name) for file in target.glob("pages/*.parquet")}
    return staged | {part * PART_SHARDS + place for part in parts for place in range(PART_SHARDS)}


def _number(name: str) -> int:
    return int(name.partition("-")[2].partition(".")[0])


def _attempts(target: Path) -> set[str]:
    return {file.name for file in target.glob("_work/attempts/*")}


def _facts(target: Path) -> dict[str, int]:
    file = target / "_SUCCESS"
    facts: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
    return facts


def _own_bytes(pid: int) -> int:
    """Resident memory of a process without what it shares with others (Ray's object store, for one)."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0  # ended while we looked
    held = {
        line.split(":")[0]: int(line.split()[1]) * 1024
        for line in lines
        if line.startswith(("VmRSS", "RssShmem"))
    }
    return held.get("VmRSS", 0) - held.get("RssShmem", 0)


def lines(result: LongDocument) -> Iterator[str]:
    """The numbers."""
    watched, carried = result.watched, result.carried_on
    roles = watched.roles
    yield "| up to page | " + " | ".join(f"{role}, MB" for role in roles) + " |"
    yield "|---|" + "---|" * len(roles)
    for mark in watched.marks:
        held = watched.at(mark)
        yield f"| {mark} | " + " | ".join(f"{held[role] / 1e6:.0f}" for role in roles) + " |"
    yield "| grown | " + " | ".join(f"{watched.growth_bytes[role] / 1e6:+.0f}" for role in roles) + " |"
    yield (
        f"killed with {carried.finished} of {watched.pages} pages finished ({carried.read_before} had gone to the "
        f"reader); carried on, {carried.read_after} went to the reader, {len(carried.read_again)} shards of them "
        "for the second time"
    )


def main() -> int:
    """Print the numbers; exit code 1 if memory grew, a page is missing or double, or one was read again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "document",
        nargs="?",
        type=Path,
        help=f"default: {DOCUMENT} of the folder FASTOCR_CASES, else one made for this",
    )
    parser.add_argument("--pages", type=int, default=MARKS[-1])
    arguments = parser.parse_args()
    cases = os.environ.get("FASTOCR_CASES")
    with tempfile.TemporaryDirectory() as folder:
        document = arguments.document or (Path(cases) / DOCUMENT if cases else None)
        if document is None:
            document = Path(folder) / "made.pdf"
            make_pdf(document, arguments.pages, lines=9)
        result = read_twice(document, Path(folder), arguments.pages)
    print(f"{document.name}, {arguments.pages} pages")
    for line in lines(result):
        print(line)
    for problem in result.problems:
        print(f"PROBLEM: {problem}")
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main())
