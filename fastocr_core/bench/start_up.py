"""How long a fresh process takes until `load("mini")` has returned: `python -m fastocr_core.bench.start_up`.

Each repeat is a process of its own; the first warms the file cache and does not count. Prints medians and one JSON line last.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from fastocr_core.models.revisions import WEIGHTS_FILE, mini_folder

_CHILD = """
import json, sys, time
begun = time.perf_counter()
from fastocr_core import load
imported, idle = time.perf_counter(), time.process_time()
load(sys.argv[1], device="cpu")
loaded, busy = time.perf_counter(), time.process_time() - idle
load(sys.argv[1], device="cpu")
print(json.dumps([loaded - imported, busy, loaded - begun, time.perf_counter() - loaded]))
"""


@dataclass(frozen=True, slots=True)
class StartUp:
    """Medians over fresh processes, wall-clock seconds.

    `load_seconds` is `load(...)` itself, the import of torch and transformers in it, `load_cpu_seconds` the processor's part;
    `total_seconds` counts from the first line of the program, `second_load_seconds` is a second load in the same process.
    `weight_bytes` are those of `mini`.
    """

    model: str
    processes: int
    load_seconds: float
    slowest_load_seconds: float
    load_cpu_seconds: float
    total_seconds: float
    second_load_seconds: float
    weight_bytes: int


def measure(model: str, processes: int) -> StartUp:
    """Start a process per repeat. subprocess.CalledProcessError where the model cannot be loaded."""
    runs = [_run(model) for _ in range(processes + 1)][1:]
    loads, busy, totals, again = zip(*runs, strict=True)
    return StartUp(
        model=model,
        processes=processes,
        load_seconds=statistics.median(loads),
        slowest_load_seconds=max(loads),
        load_cpu_seconds=statistics.median(busy),
        total_seconds=statistics.median(totals),
        second_load_seconds=statistics.median(again),
        weight_bytes=(mini_folder() / WEIGHTS_FILE).stat().st_size,
    )


def _run(model: str) -> tuple[float, float, float, float]:
    command = [sys.executable, "-c", _CHILD, model]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    load, busy, total, again = json.loads(done.stdout.splitlines()[-1])
    return load, busy, total, again


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m fastocr_core.bench.start_up", description=__doc__)
    parser.add_argument("--model", default="mini", help="mini, tiny, or a folder with weights")
    parser.add_argument("--processes", type=int, default=7)
    chosen = parser.parse_args(arguments)
    found = measure(chosen.model, chosen.processes)
    print(
        f'load("{found.model}") in a fresh process: {found.load_seconds:.2f} s (slowest of {found.processes}: '
        f"{found.slowest_load_seconds:.2f} s; CPU {found.load_cpu_seconds:.2f} s), from the first line of the program "
        f"{found.total_seconds:.2f} s, again in the same process {found.second_load_seconds:.2f} s"
    )
    print(f"weights of mini: {found.weight_bytes / 1e6:.1f} MB")
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main()
