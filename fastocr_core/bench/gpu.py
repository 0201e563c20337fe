"""`make gpu`: correctness and speed on one CUDA device, dense against fastocr, within its own time budget.

Random weights in the shapes of real models at fixed lengths: it says what a GPU can gain, not how well
anything reads. The results file is written anew after every part, so a run that is cut short loses only what
it was doing. `--dry-run` walks every path at toy sizes, on a CPU in triton's interpreter
(TRITON_INTERPRET=1).
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fastocr_core.attention.split_attention import needs_cuda
from fastocr_core.bench import gpu_checks
from fastocr_core.bench.gpu_attention import BenchCache
from fastocr_core.bench.gpu_decoder import BenchDecoder
from fastocr_core.bench.gpu_points import Point, measure_point, prompt_seconds
from fastocr_core.bench.gpu_shapes import DRY_SHAPES, REAL_SHAPES, BenchShape
from fastocr_core.bench.gpu_timing import copy_bytes_per_second

RESULTS = Path(__file__).parent / "results"
BUDGET_SECONDS = 420.0
# Sizes in the order of what is wanted most if time runs out.
BATCHES = (32, 128, 8, 64, 1)
_POINT_SECONDS = 12.0  # no point is begun with less time left


class Report:
    """The results so far, as one JSON file; failures are entries, not the end of the run."""

    def __init__(self, path: Path, budget_seconds: float) -> None:
        self.path, self._begun, self._budget = path, time.monotonic(), budget_seconds
        self.content: dict[str, Any] = {"bench": "gpu", "errors": {}, "skipped": []}

    def left_seconds(self) -> float:
        """What is left of the budget."""
        return self._budget - (time.monotonic() - self._begun)

    def write(self) -> None:
        """Replace the file as a whole, so that an abort leaves the version before."""
        self.content["seconds"] = round(time.monotonic() - self._begun, 1)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        half = self.path.with_suffix(".half")
        half.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8")
        os.replace(half, self.path)

    def part(self, name: str, work: Callable[[], Any], least_seconds: float = 0.0) -> Any:
        """Run one part and note its result or its failure; None where it failed or no time was left."""
        if self.left_seconds() < least_seconds:
            self.content["skipped"].append(name)
            self.write()
            return None
        try:
            return work()
        except Exception as failure:  # one part must not cost the others
            self.content["errors"][name] = f"{type(failure).__name__}: {failure}"[:500]
            print(f"{name}: {self.content['errors'][name]}", flush=True)
            return None
        finally:
            self.write()


def machine(device: torch.device) -> dict[str, Any]:
    """Where and with what this ran."""
    import transformers
    import triton

    facts = {"python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__}
    facts |= {"transformers": transformers.__version__, "device": str(device)}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        facts |= {"gpu": properties.name, "memory_bytes": properties.total_memory}
        facts |= {"processors": properties.multi_processor_count, "cuda": torch.version.cuda}
    return facts


def check(report: Report, shapes: Sequence[BenchShape], device: torch.device, dry: bool) -> bool:
    """All checks of correctness; False if one failed."""
    checks = report.content["correctness"] = {}
    seen: set[tuple[int, int, int]] = set()
    for shape in shapes:
        heads = (shape.query_heads, shape.kv_heads, shape.image_tokens)
        for dtype in (torch.float32, torch.bfloat16) if heads not in seen else ():
            seen.add(heads)
            name = f"{shape.name} {str(dtype).removeprefix('torch.')}"
            error = report.part(name, partial(gpu_checks.backend_error, shape, device, dtype))
            passed = error is not None and error < gpu_checks.TOLERANCE[dtype]
            checks[name] = {"largest_error": error, "passed": passed}
    tokens = 3 if dry else 40
    passed = report.part("engine", lambda: gpu_checks.engine_agrees(device, 2, tokens)) is True
    checks["engine"] = {"passed": passed}
    report.write()
    return all(each["passed"] for each in checks.values())


def measure_shape(
    report: Report, shape: BenchShape, batches: Sequence[int], device: torch.device, kept_share: float
) -> bool:
    """All batch sizes of one shape; False if its steps are wrong."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    decoder = report.part(f"{shape.name} weights", lambda: BenchDecoder(shape, device, dtype), _POINT_SECONDS)
    if decoder is None:
        return f"{shape.name} weights" not in report.content["errors"]
    agreement = report.part(
        f"{shape.name} steps",
        lambda: gpu_checks.steps_agree(shape, decoder, BenchCache(shape, 2, device, dtype)),
    )
    report.content["correctness"][f"{shape.name} steps"] = agreement
    seconds = report.part(f"{shape.name} prompt", lambda: prompt_seconds(decoder), _POINT_SECONDS) or 0.0
    for batch in batches:
        point = report.part(
            f"{shape.name} batch {batch}",
            partial(measure_point, decoder, batch, kept_share, seconds),
            _POINT_SECONDS if device.type == "cuda" else 0.0,
        )
        if point is not None:
            bandwidth = report.content["copy_bytes_per_second"]
            report.content["points"].append(entry(point, bandwidth))
            report.write()
            print(line(point, bandwidth), flush=True)
        if device.type == "cuda":
            torch.cuda.empty_cache()
    return agreement is not None and all(agreement.values())


def entry(point: Point, bandwidth: float | None) -> dict[str, Any]:
    """A point as JSON, with its speeds as shares of the copy bandwidth."""
    facts = asdict(point)
    for timed in (*facts["attention"].values(), *facts["decode"].values()):
        timed["share_of_copy_bandwidth"] = timed["bytes_per_second"] / bandwidth if bandwidth else None
    return facts


HEADER = (
    "shape          batch  attention: dense     fastocr  ratio  decode: dense     fastocr  ratio  limit"
    "  of copy speed  pages/day dense  fastocr"
)


def line(point: Point, bandwidth: float | None) -> str:
    """One row of the table; milliseconds."""
    attention = point.attention[point.best_dense["attention"]], point.attention["fastocr"]
    decode = point.decode[point.best_dense["decode"]], point.decode["fastocr"]
    share = decode[1].bytes_per_second / bandwidth if bandwidth else float("nan")
    return (
        f"{point.shape:14} {point.batch:5d}  {1e3 * attention[0].seconds:16.3f}  {1e3 * attention[1].seconds:10.3f}"
        f"  {point.attention_ratio:5.2f}  {1e3 * decode[0].seconds:13.3f}  {1e3 * decode[1].seconds:10.3f}"
        f"  {point.decode_ratio:5.2f}  {point.byte_limit:5.2f}  {share:13.0%}"
        f"  {point.pages_per_day['dense']:15.0f}  {point.pages_per_day['fastocr']:7.0f}"
    )


def run(
    report: Report,
    shapes: Sequence[BenchShape],
    batches: Sequence[int],
    device: torch.device,
    kept_share: float,
) -> bool:
    """Everything, into the report; False if something was computed wrongly or did not run."""
    dry = device.type != "cuda"
    size = 1 << 20 if dry else 4 << 30
    report.content |= {"machine": machine(device), "kept_share": kept_share, "dry_run": dry, "points": []}
    report.content["copy_bytes_per_second"] = report.part(
        "copy bandwidth", lambda: copy_bytes_per_second(device, size)
    )
    right = check(report, shapes, device, dry)
    print(HEADER)
    for shape in shapes:
        right = measure_shape(report, shape, batches, device, kept_share) and right
        if device.type == "cuda":
            torch.cuda.empty_cache()
    report.content["complete"] = not report.content["skipped"] and not report.content["errors"]
    report.write()
    return right


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line. Exit status 1 if a check failed, 2 if there is no CUDA device."""
    parser = argparse.ArgumentParser(prog="python -m fastocr_core.bench.gpu", description=__doc__)
    parser.add_argument("--budget-seconds", type=float, default=BUDGET_SECONDS)
    parser.add_argument("--kept-share", type=float, default=0.05)
    parser.add_argument("--shapes", nargs="+", choices=[shape.name for shape in REAL_SHAPES])
    parser.add_argument("--batches", type=int, nargs="+")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results file")
    parser.add_argument("--dry-run", action="store_true", help="toy sizes on a CPU, with TRITON_INTERPRET=1")
    chosen = parser.parse_args(arguments)
    if not chosen.dry_run and not torch.cuda.is_available():
        print("error: this needs a CUDA device; --dry-run walks through it on a CPU", file=sys.stderr)
        raise SystemExit(2)
    if chosen.dry_run and needs_cuda():
        print("error: a dry run needs triton's interpreter: set TRITON_INTERPRET=1", file=sys.stderr)
        raise SystemExit(2)
    device = torch.device("cpu" if chosen.dry_run else "cuda")
    real = [shape for shape in REAL_SHAPES if chosen.shapes is None or shape.name in chosen.shapes]
    name = "dry-run" if chosen.dry_run else torch.cuda.get_device_name().replace(" ", "-").lower()
    path = chosen.out / f"gpu-{name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.json"
    report = Report(path, chosen.budget_seconds)
    batches = chosen.batches or ((2,) if chosen.dry_run else BATCHES)
    with torch.inference_mode():
        right = run(report, DRY_SHAPES if chosen.dry_run else real, batches, device, chosen.kept_share)
    print(f"results in {path}")
    print(json.dumps(report.content))
    if not right:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
