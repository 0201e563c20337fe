"""What is measured for one decoder shape at one batch size: attention alone and whole decode steps, dense in
every way at hand against fastocr, and what that means for pages per day.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from fastocr_core.bench.gpu_attention import SDPA_BACKENDS, BenchCache, SparseAttend, kept_rows, sdpa_attend
from fastocr_core.bench.gpu_decoder import BenchDecoder
from fastocr_core.bench.gpu_shapes import BenchShape
from fastocr_core.bench.gpu_timing import median_seconds

Attend = Callable[[int, Tensor], Tensor]
_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of one step (attention of all layers, or the whole decoder), the bytes that it must read, and
    bytes per second.
    """

    seconds: float
    bytes_read: int
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class Point:
    """One shape at one batch size.

    `attention` and `decode` hold every dense way by name (`own`, or `sdpa-BACKEND-gqa|packed`) and `fastocr`;
    `best_dense` names the fastest dense way of each; ratios are its seconds over those of fastocr, and
    `byte_limit` what the bytes would allow for decode steps. `unavailable` says why a dense way did not run.
    """

    shape: str
    batch: int
    image_tokens: int
    text_tokens: int
    kept_share: float
    focal_layers: int
    attention: dict[str, Timed]
    decode: dict[str, Timed]
    best_dense: dict[str, str]
    attention_ratio: float
    decode_ratio: float
    byte_limit: float
    pages_per_day: dict[str, float]
    prompt_seconds: float
    grouped_experts: bool
    unavailable: dict[str, str]
    peak_bytes: int


def measure_point(decoder: BenchDecoder, batch: int, kept_share: float, prompt_seconds: float) -> Point:
    """Everything for one batch size. Raises torch.OutOfMemoryError where it does not fit."""
    shape, device = decoder.shape, decoder.device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    cache = BenchCache(shape, batch, device, decoder.dtype)
    kept = kept_rows(shape, kept_share)
    share = kept / shape.image_tokens
    dense, unavailable = _dense_ways(cache, decoder.dtype)
    fast = SparseAttend(cache, shape.focal_layers, kept)
    query = torch.randn(batch, shape.query_heads, shape.head_dim, device=device).to(decoder.dtype)
    cache_bytes = {"dense": shape.cache_bytes(batch, 1.0), "fastocr": shape.cache_bytes(batch, share)}
    all_experts = shape.experts is not None and not decoder.grouped_experts
    weights = shape.weight_bytes(batch, all_experts)
    ways: dict[str, Attend] = {**dense, "fastocr": fast}

    def attention_of_all_layers(attend: Attend) -> None:
        for layer in range(shape.layers):
            attend(layer, query)

    attention = {
        name: _timed(partial(attention_of_all_layers, attend), cache_bytes, 0, name, device)
        for name, attend in ways.items()
    }
    best_attention = _fastest(attention)
    # Whole steps only for the dense ways that can win: the own kernel and the fastest of the others.
    decoded = {"own", best_attention, _fastest({k: v for k, v in attention.items() if k != "own"}), "fastocr"}
    ids = torch.arange(batch, device=device) % shape.vocabulary
    decode = {
        name: _timed(partial(decoder.step, ids, attend, cache.store), cache_bytes, weights, name, device)
        for name, attend in ways.items()
        if name in decoded
    }
    best_decode = _fastest(decode)
    return Point(
        shape=shape.name,
        batch=batch,
        image_tokens=shape.image_tokens,
        text_tokens=shape.text_tokens,
        kept_share=share,
        focal_layers=len(shape.focal_layers),
        attention=attention,
        decode=decode,
        best_dense={"attention": best_attention, "decode": best_decode},
        attention_ratio=attention[best_attention].seconds / attention["fastocr"].seconds,
        decode_ratio=decode[best_decode].seconds / decode["fastocr"].seconds,
        byte_limit=(weights + cache_bytes["dense"]) / (weights + cache_bytes["fastocr"]),
        pages_per_day={
            name: pages_per_day(shape, batch, prompt_seconds, decode[way].seconds)
            for name, way in (("dense", best_decode), ("fastocr", "fastocr"))
        },
        prompt_seconds=prompt_seconds,
        grouped_experts=decoder.grouped_experts,
        unavailable=unavailable,
        peak_bytes=torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0,
    )


def pages_per_day(shape: BenchShape, batch: int, prompt_seconds: float, step_seconds: float) -> float:
    """Pages per GPU and day at the published output length: prompt and decode steps, without the vision
    encoder, with every slot always full.
    """
    return _DAY_SECONDS / (prompt_seconds + shape.output_tokens * step_seconds / batch)


def prompt_seconds(decoder: BenchDecoder) -> float:
    """Seconds of one page's prompt through the text decoder."""
    shape = decoder.shape
    length = shape.image_tokens + shape.prompt_tokens
    return median_seconds(lambda: decoder.prompt(length), decoder.device, rounds=3)


def _dense_ways(cache: BenchCache, dtype: torch.dtype) -> tuple[dict[str, Attend], dict[str, str]]:
    """Every dense way that runs here, by name, and why the others do not."""
    shape = cache.shape
    ways: dict[str, Attend] = {"own": SparseAttend(cache, (), 1)}
    unavailable = {}
    query = torch.zeros(
        cache.batch, shape.query_heads, shape.head_dim, device=cache.keys[0].device, dtype=dtype
    )
    for backend in SDPA_BACKENDS:
        for packed in (False, True):
            if packed and shape.query_heads == shape.kv_heads:
                continue  # nothing to pack
            if backend == "math" and cache.keys[0].is_cuda:
                continue  # never the fastest there, and it copies the cache
            name = f"sdpa-{backend}-{'packed' if packed else 'gqa'}"
            attend = sdpa_attend(cache, backend, packed)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # torch tells at length why a kernel is not used
                    attend(0, query)
            except RuntimeError as failure:
                if isinstance(failure, torch.OutOfMemoryError):
                    raise
                unavailable[name] = str(failure).splitlines()[0]
            else:
                ways[name] = attend
    return ways, unavailable


def _timed(
    work: Callable[[], object], cache_bytes: dict[str, int], weights: int, name: str, device: torch.device
) -> Timed:
    seconds = median_seconds(work, device)
    read = weights + cache_bytes["fastocr" if name == "fastocr" else "dense"]
    return Timed(seconds, read, read / seconds)


def _fastest(timed: dict[str, Timed]) -> str:
    """The fastest dense way; `own` where there is no other."""
    dense = {name: each.seconds for name, each in timed.items() if name != "fastocr"}
    return min(dense, key=lambda name: dense[name]) if dense else "own"
