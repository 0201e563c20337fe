"""Random kills of drivers, OCR actors and rasterize children over several runs of one archive.

Somebody reads the output all the while. Whatever was killed, a plain glob over the parts never shows a page twice,
each run ends with every page once, and no process outlives its driver. `make soak` runs this with twenty kills,
`make test` with three.
"""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.made_archive import make_archive
from tests.support.run_process import (
    OCR_ACTOR,
    RASTER_CHILD,
    RunProcess,
    descendants,
    is_alive,
    published_pages,
    wait_until,
    write_config,
)

DRIVER, ACTOR, CHILD = "driver", "OCR actor", "rasterize child"
SHARD_PAGES, PART_PAGES, SHARDS_IN_FLIGHT = 3, 9, 4
MOST_KILLS_OF_A_RUN = 7
LEFTOVER_SECONDS = 10.0
BEGIN_SECONDS = 600.0  # generous: a busy machine takes long to start a Ray
EARLY_SHARE, EARLY_SECONDS = 0.3, 20.0  # some drivers die while Ray starts or the survey runs
CHILD_SECONDS = 1.5  # a child dies at any moment of its first pages


class ContinuousReader:
    """A user who reads the output all the time while it is written."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._stopped = threading.Event()
        self.problems: list[str] = []
        self.looks = 0
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._stopped.wait(0.2):
            self.looks += 1
            try:
                doubled = [page for page, count in published_pages(self._target).items() if count > 1]
            except Exception as error:
                self.problems.append(f"look {self.looks}: a part cannot be read: {error}")
                return
            if doubled:
                self.problems.append(f"look {self.looks}: twice there: {doubled[:3]}")


@dataclass(slots=True)
class Storm:
    """What has been killed so far, what still is to be, and what went wrong."""

    source: Path
    config: Path
    pages: int
    victims: list[str]
    chance: random.Random
    kills: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    looks: int = 0
    readings: int = 0
    drivers_ended: int = 0
    leftovers: int = 0
    problems: list[str] = field(default_factory=list)

    def one_run(self, target: Path) -> None:
        """Bring one target to completion, with some kills on the way."""
        self.runs += 1
        reader = ContinuousReader(target)
        run = RunProcess.start(str(self.source), str(target), self.config)
        before = self.kills.copy()
        try:
            while self.victims and (self.kills - before).total() < MOST_KILLS_OF_A_RUN:
                victim = self.victims[-1]
                if not self._await_moment(run, target, victim):
                    break
                run = self._kill(run, target, victim)
            code = self._await_end(run)
        finally:
            if run.process.poll() is None:
                run.kill()
            reader.stop()
        self.looks += reader.looks
        self.problems += reader.problems
        killed = self.kills - before
        self._check_end(target, code, run, killed.total() - killed[CHILD])

    def _await_moment(self, run: RunProcess, target: Path, victim: str) -> bool:
        """Wait for a random moment at which the victim lives; False if the run has ended instead."""
        if victim == DRIVER and self.chance.random() < EARLY_SHARE:
            time.sleep(self.chance.uniform(0, EARLY_SECONDS))
            return run.process.poll() is None
        if victim == CHILD:  # it ends with its work: drawing pages is quicker than reading them
            marker, moment = RASTER_CHILD, 0
        else:
            marker, moment = OCR_ACTOR, _readings(target) + self.chance.randint(0, 5)
        wait_until(
            lambda: (
                run.process.poll() is not None or (bool(run.helpers(marker)) and _readings(target) >= moment)
            ),
            BEGIN_SECONDS,
        )
        if victim == CHILD:
            time.sleep(self.chance.uniform(0, CHILD_SECONDS))
        return run.process.poll() is None

    def _await_end(self, run: RunProcess) -> int:
        """Let a run come to its own end, which no helper of it may outlive either; returns its exit code."""
        helpers: set[int] = set()

        def ended() -> bool:
            helpers.update(descendants(run.process.pid))
            return run.process.poll() is not None

        wait_until(ended, BEGIN_SECONDS)
        code = run.wait(1)
        self._count_leftovers(sorted(helpers))
        return code

    def _kill(self, run: RunProcess, target: Path, victim: str) -> RunProcess:
        """Kill, and start again what has no driver any more; returns the run that goes on."""
        if victim != DRIVER:
            if run.kill_helper(OCR_ACTOR if victim == ACTOR else RASTER_CHILD):
                self._note(victim)
            return run
        helpers = descendants(run.process.pid)
        run.kill()
        self._note(victim)
        self._count_leftovers(helpers)
        return RunProcess.start(str(self.source), str(target), self.config)

    def _count_leftovers(self, helpers: list[int]) -> None:
        """Count what still lives so long after its driver has ended, however that came to be."""
        self.drivers_ended += 1
        wait_until(lambda: not any(map(is_alive, helpers)), LEFTOVER_SECONDS)
        left = [pid for pid in helpers if is_alive(pid)]
        self.leftovers += len(left)
        if left:
            commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]
            self.problems.append(f"processes outlived their driver: {commands}")

    def _note(self, victim: str) -> None:
        self.kills[victim] += 1
        self.victims.pop()
        print(f"run {self.runs}: killed the {victim}, {len(self.victims)} kills to go", flush=True)

    def _check_end(self, target: Path, code: int, run: RunProcess, costly_kills: int) -> None:
        """Only a driver or an OCR actor takes shards in flight with it; the bound is on what was read twice."""
        pages = published_pages(target)
        if code != 0:
            self.problems.append(f"run {self.runs} ended with {code}: {run.output()}")
            return
        if len(pages) != self.pages or set(pages.values()) != {1}:
            self.problems.append(f"run {self.runs} has {len(pages)} pages, most often {max(pages.values())}")
        if (target / "_work").exists():
            self.problems.append(f"run {self.runs} left its work behind")
        shards = -(-self.pages // SHARD_PAGES)
        readings = json.loads((target / "_SUCCESS").read_text())["shard_readings"]
        self.readings += readings
        if not shards <= readings <= shards + costly_kills * SHARDS_IN_FLIGHT:
            self.problems.append(f"run {self.runs} read {readings} shards after {costly_kills} kills")


def storm(folder: Path, kills: int, documents: int, pages: int, seed: int) -> Storm:
    """Kill `kills` processes over as many runs as it takes, each of `documents` times `pages` pages."""
    chance = random.Random(seed)
    make_archive(folder / "archive", documents, pages)
    config = write_config(folder / "run.toml", shard_pages=SHARD_PAGES, part_pages=PART_PAGES)
    victims = [[DRIVER, ACTOR, CHILD][number % 3] for number in range(kills)]
    chance.shuffle(victims)
    result = Storm(folder / "archive", config, documents * pages, victims, chance)
    while result.victims and not result.problems:
        result.one_run(folder / f"out-{result.runs}")
    return result


def _readings(target: Path) -> int:
    return sum(1 for _ in target.glob("_work/attempts/*"))


def main() -> int:
    """Run the storm; exit code 1 if a page was lost or double, or a process left over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory() as folder:
        result = storm(Path(folder), arguments.kills, documents=10, pages=10, seed=arguments.seed)
    print(
        f"{dict(result.kills)} killed over {result.runs} runs of {result.pages} pages; the output was looked at "
        f"{result.looks} times; {result.readings} shards were read for {result.runs * -(-result.pages // SHARD_PAGES)}; "
        f"{result.drivers_ended} drivers ended, {result.leftovers} processes outlived one by {LEFTOVER_SECONDS:g} s"
    )
    for problem in result.problems:
        print(f"PROBLEM: {problem}")
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main())
