"""Decode speed, dense against fastocr, in one process: `python -m fastocr_core.bench.decode --model mini`.

Pages are noise of the asked size, and every page decodes the same number of tokens (stop tokens and the
loop stop are off), so both policies do the same work. Rounds alternate and the fastest of each counts,
which keeps other load on the machine out of the ratio. Prints a table and one JSON line last.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch

from fastocr_core.config import DecodePolicy, EngineLimits
from fastocr_core.engine import Engine
from fastocr_core.models import load
from fastocr_core.models.base import ModelAdapter
from fastocr_core.vision.prepared import ModelVision, PreparedPage


@dataclass(frozen=True, slots=True)
class Measured:
    """One policy at one size. `bytes_per_step` is what a step past the warm-up must read: weights and cache
    rows.
    """

    policy: str
    tokens_per_second: float
    milliseconds_per_step: float
    bytes_per_step: int
    image_kv_read_share: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Dense against fastocr; `byte_limit` is the ratio that the bytes allow."""

    image_tokens: int
    output_tokens: int
    batch: int
    dense: Measured
    sparse: Measured
    ratio: float
    byte_limit: float


def noise_page(image_tokens: int, vision: ModelVision, seed: int) -> PreparedPage:
    """A page of noise with nearly that many cells, of the shape of an upright sheet."""
    columns = max(1, round((image_tokens * vision.cell_height / vision.cell_width / 1.4) ** 0.5))
    rows = max(1, image_tokens // columns)
    height, width = rows * vision.cell_height, columns * vision.cell_width
    view = np.random.default_rng(seed).integers(0, 256, (height, width, 1), dtype=np.uint8)
    identity = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    return PreparedPage(
        (view,), rows, columns, rows * columns, "page", 1, 1, identity, width, height, 1.0, 0.5
    )


def measure(
    model: ModelAdapter, policy: DecodePolicy, pages: Sequence[PreparedPage], tokens: int
) -> Measured:
    """Decode `pages` as one batch to `tokens` output tokens each. RuntimeError if a page fails."""
    limits = EngineLimits(max_output_tokens=tokens, stop_loops=False)
    with Engine(model, policy, len(pages), limits) as engine:
        futures = [engine.submit(page) for page in pages]
        results = [future.result() for future in futures]
    errors = [result.error for result in results if result.error]
    if errors:
        raise RuntimeError(f"a page failed: {errors[0]}")
    share = results[0].image_kv_read_share
    return Measured(
        policy=policy.name,
        # The first token of a page comes from its prompt.
        tokens_per_second=(engine.tokens_out - len(pages)) / engine.decode_seconds,
        milliseconds_per_step=1000 * engine.decode_seconds / engine.steps,
        bytes_per_step=bytes_per_step(model, pages, tokens, share),
        image_kv_read_share=share,
    )


def bytes_per_step(
    model: ModelAdapter, pages: Sequence[PreparedPage], tokens: int, image_share: float
) -> int:
    """Mean over the steps: decoder weights once, and per page the image rows read and the visible text
    rows.
    """
    shape = model.shape
    size = torch.empty(0, dtype=model.dtype).element_size()
    row = 2 * shape.layers * shape.kv_heads * shape.head_dim * size  # keys and values of one token
    window = model.text_window or tokens
    outputs = sum(min(step, window) for step in range(1, tokens)) / max(1, tokens - 1)
    cache = sum(
        row * (image_share * page.image_tokens + len(model.layout(page, None).ids) + outputs)
        for page in pages
    )
    # The decoder's embedding is hardly read, but the output head, of the same size, is.
    weights = sum(parameter.numel() for parameter in model.decoder.parameters())
    return round(size * weights + cache)


def compare(
    model: ModelAdapter, policy: DecodePolicy, image_tokens: int, tokens: int, batch: int, rounds: int
) -> Comparison:
    """Both policies over the same pages."""
    pages = [noise_page(image_tokens, model.vision, seed) for seed in range(batch)]
    best: dict[str, Measured] = {}
    for _ in range(rounds):
        for one in (DecodePolicy.dense(), policy):
            result = measure(model, one, pages, tokens)
            if one.name not in best or result.tokens_per_second > best[one.name].tokens_per_second:
                best[one.name] = result
    dense, sparse = best["dense"], best[policy.name]
    return Comparison(
        image_tokens=pages[0].image_tokens,
        output_tokens=tokens,
        batch=batch,
        dense=dense,
        sparse=sparse,
        ratio=sparse.tokens_per_second / dense.tokens_per_second,
        byte_limit=dense.bytes_per_step / sparse.bytes_per_step,
    )


def print_table(comparisons: Sequence[Comparison]) -> None:
    """One line per size and policy."""
    print(
        "image tokens  outputs  batch  policy   tokens/s  ms/step  MB/step  image KV read  ratio  byte limit"
    )
    for comparison in comparisons:
        for one in (comparison.dense, comparison.sparse):
            ratio, limit = (
                (1.0, 1.0) if one is comparison.dense else (comparison.ratio, comparison.byte_limit)
            )
            print(
                f"{comparison.image_tokens:12d}  {comparison.output_tokens:7d}  {comparison.batch:5d}"
                f"  {one.policy:7s}  {one.tokens_per_second:8.0f}  {one.milliseconds_per_step:7.2f}"
                f"  {one.bytes_per_step / 1e6:7.1f}  {one.image_kv_read_share:13.1%}"
                f"  {ratio:5.2f}  {limit:10.2f}"
            )


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m fastocr_core.bench.decode", description=__doc__)
    parser.add_argument("--model", default="mini", help="mini, tiny, or a folder with weights")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument(
        "--image-tokens", type=int, nargs="+", help="default: a quarter and most of the maximum"
    )
    parser.add_argument("--output-tokens", type=int, default=200)
    parser.add_argument("--kept-share", type=float, default=0.05)
    parser.add_argument("--warmup-steps", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2)
    chosen = parser.parse_args(arguments)
    model = load(chosen.model, device=chosen.device)
    model.stop_ids = frozenset()
    model.max_output_tokens = max(model.max_output_tokens, chosen.output_tokens)
    policy = DecodePolicy.fastocr(chosen.kept_share, warmup_steps=chosen.warmup_steps)
    most = model.vision.max_image_tokens
    sizes = [min(size, most) for size in chosen.image_tokens or (most // 4, int(most * 0.95))]
    comparisons = [
        compare(model, policy, size, chosen.output_tokens, chosen.batch, chosen.rounds) for size in sizes
    ]
    print_table(comparisons)
    print(
        json.dumps(
            {"model": model.name, "device": str(model.device), "sizes": [asdict(c) for c in comparisons]}
        )
    )


if __name__ == "__main__":
    main()
