"""Runs `fastocr run` as a process of its own, finds its helpers in /proc, and kills what a test wants
killed.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

OCR_ACTOR = b"RecognizeShards"
RASTER_ACTOR = b"RasterizeShards"
RASTER_CHILD = b"workers.raster_child"
FAIR_SHARE = {
    "RAY_worker_niceness": "0",  # Ray's 15 starves the workers on a machine that is busy otherwise
    "PYTHONFAULTHANDLER": "1",  # an abort says where it came from
}
SMALL_CLUSTER = """
[cluster]
local_cpus = {cpus}
object_store_bytes = 200000000
max_batch = 4
shards_in_flight = 4
[shards]
pages = {shard_pages}
part_pages = {part_pages}
"""


@dataclass(slots=True)
class RunProcess:
    """A running `fastocr run`, with its output in files beside the target."""

    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, source: str, target: str, config: Path, *options: str) -> "RunProcess":
        """Start reading `source` into `target` with the toy model."""
        log = config.with_suffix(f".{time.monotonic_ns()}.log")
        command = [sys.executable, "-m", "pipeline", "run", source, target, "--config", str(config)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "--model", "tiny", *options],
                env={**os.environ, **FAIR_SHARE},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return cls(process, log)

    def wait(self, seconds: float = 240) -> int:
        """Its exit code."""
        return self.process.wait(timeout=seconds)

    def kill(self) -> None:
        """The hardest end there is, for the driver alone."""
        self.process.kill()
        self.process.wait()

    def output(self) -> str:
        """What it has said so far."""
        return self.log.read_text(errors="replace")

    def helpers(self, marker: bytes = b"") -> list[int]:
        """Its descendants whose command line holds `marker`."""
        return [pid for pid in descendants(self.process.pid) if marker in _read(Path(f"/proc/{pid}/cmdline"))]

    def kill_helper(self, marker: bytes) -> bool:
        """Kill one such descendant; False if there is none now."""
        for pid in self.helpers(marker):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            return True
        return False


def write_config(file: Path, *, cpus: int = 2, shard_pages: int = 4, part_pages: int = 16) -> Path:
    """A configuration for a small machine."""
    file.write_text(SMALL_CLUSTER.format(cpus=cpus, shard_pages=shard_pages, part_pages=part_pages))
    return file


def descendants(ancestor: int) -> list[int]:
    """All living processes below one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            status = _read(entry / "stat").rpartition(b")")[2].split()
            if status and status[0] != b"Z":
                children.setdefault(int(status[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [ancestor]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.append(child)
            waiting.append(child)
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    status = _read(Path(f"/proc/{pid}/stat")).rpartition(b")")[2].split()
    return bool(status) and status[0] != b"Z"


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll; whether the condition came true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def published_pages(target: Path) -> Counter[tuple[str, int]]:
    """How often each page stands in a plain glob over the published parts."""
    pages: Counter[tuple[str, int]] = Counter()
    for part in target.glob("pages/*.parquet"):
        rows = pq.read_table(part, columns=["source_uri", "page_index"]).to_pydict()
        pages.update(zip(rows["source_uri"], rows["page_index"], strict=True))
    return pages


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
