"""Seconds of a repeated piece of work, in a CUDA graph where there is one, and the copy bandwidth of the device."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

ROUNDS = 7
_WARM_UP_CALLS = 3
_LONGEST_SECONDS = 0.6  # of all rounds together


def median_seconds(work: Callable[[], object], device: torch.device, rounds: int = ROUNDS) -> float:
    """Median seconds of one call, after a warm-up.

    On CUDA the call is captured in a graph and replayed, so that launches cost nothing: what is left is the
    device's own time. It must not wait for the host. Elsewhere it is simply called.
    """
    if device.type != "cuda":
        return _wall_seconds(work)
    cuda: Any = torch.cuda  # torch leaves parts of it without types
    stream = cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP_CALLS):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    graph.replay()
    torch.cuda.synchronize()
    once = _event_seconds(graph.replay, 1)
    repeats = max(1, min(50, int(_LONGEST_SECONDS / rounds / max(once, 1e-6))))
    seconds = statistics.median(_event_seconds(graph.replay, repeats) for _ in range(rounds))
    graph.reset()
    return seconds


def copy_bytes_per_second(device: torch.device, size_bytes: int) -> float:
    """Bytes read and written per second by a plain copy of `size_bytes`: what memory gives in practice."""
    source = torch.empty(size_bytes, device=device, dtype=torch.uint8).zero_()
    target = torch.empty_like(source)
    return 2 * size_bytes / median_seconds(lambda: target.copy_(source), device)


def _wall_seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _event_seconds(work: Callable[[], object], repeats: int) -> float:
    cuda: Any = torch.cuda
    begun, ended = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    begun.record()
    for _ in range(repeats):
        work()
    ended.record()
    ended.synchronize()
    return float(begun.elapsed_time(ended)) / 1000 / repeats
