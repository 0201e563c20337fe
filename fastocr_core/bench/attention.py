"""One decode step of attention on this machine, three ways in one process: `python -m fastocr_core.bench.attention`.

Dense by torch's SDPA with `enable_gqa`, dense by the `gather` backend (grouped products), and sparse by the
same backend. Shapes of `mini`, Qwen2.5-VL-7B and dots.ocr; random numbers. Rounds alternate and the fastest
of each counts, which keeps other load on the machine out of the ratios. Prints a table and one JSON line last.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from fastocr_core.attention.base import Selection, Step
from fastocr_core.attention.gather import GatherAttention
from fastocr_core.kv_cache import SlotCache
from fastocr_core.models.base import DecoderShape, PromptLayout

# Name, query heads, KV heads, head size, image tokens.
SHAPES: tuple[tuple[str, int, int, int, tuple[int, ...]], ...] = (
    ("mini", 6, 6, 32, (700, 2000)),
    ("Qwen2.5-VL-7B", 28, 4, 128, (1260, 4956)),
    ("dots.ocr", 12, 2, 128, (1518, 4956)),
)
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Measured:
    """Milliseconds of one layer for the whole batch. `grouped_ratio` is SDPA over grouped; `gather_ratio` the
    faster of these two dense ways over the sparse one. `gather_gigabytes_per_second`: rows that the sparse
    way reads, over its time.
    """

    shape: str
    dtype: str
    image_tokens: int
    batch: int
    sdpa_milliseconds: float
    grouped_milliseconds: float
    gather_milliseconds: float
    grouped_ratio: float
    gather_ratio: float
    gather_gigabytes_per_second: float


class FixedSets:
    """A policy whose sets never change and which wants no scores."""

    def __init__(self, sets: tuple[Tensor | None, ...]) -> None:
        self._selection = Selection(sets)

    def selection(self, layer: int) -> Selection:
        """The given sets."""
        return self._selection

    def wants_scores(self, layer: int, slot: int) -> bool:
        """Never."""
        return False

    def take_scores(self, layer: int, slot: int, probabilities: Tensor) -> None:
        """Not asked for."""


def measure(
    shape: tuple[str, int, int, int, int], dtype: str, batch: int, text: int, kept_share: float, rounds: int
) -> Measured:
    """One shape (name, query heads, KV heads, head size, image tokens) with `text` visible text rows."""
    name, query_heads, kv_heads, head_dim, image = shape
    generator = torch.Generator().manual_seed(1)
    like = torch.empty(0, dtype=DTYPES[dtype])
    decoder = DecoderShape(1, query_heads, kv_heads, head_dim, query_heads * head_dim, 1)
    cache = SlotCache(decoder, batch, image, 1, text - 1, None, like)
    for _ in range(batch):
        slot = cache.allocate(PromptLayout((0,), 0, image, torch.zeros(1, image + 1)))
        cache.held(slot).outputs = text - 1
    store = cache.slot_layers[0]
    for part in (store.image_keys, store.image_values, store.text_keys, store.text_values):
        part.normal_(generator=generator)
    keys = torch.cat((store.image_keys, store.text_keys), 2)
    values = torch.cat((store.image_values, store.text_values), 2)
    query = torch.randn(batch, query_heads, 1, head_dim, generator=generator).to(like.dtype)
    kept, scaling = max(16, round(kept_share * image)), head_dim**-0.5
    sets = [torch.rand(kv_heads, image, generator=generator).topk(kept, 1).indices for _ in range(batch)]
    live = tuple(range(batch))
    dense = Step(live, FixedSets((None,) * batch), {})
    sparse = Step(live, FixedSets(tuple(chosen.sort(1).values for chosen in sets)), {})
    backend = GatherAttention()
    seconds = _fastest(
        {
            "sdpa": lambda: scaled_dot_product_attention(query, keys, values, enable_gqa=True, scale=scaling),
            "grouped": lambda: backend.attend(0, query, scaling, cache, dense),
            "gather": lambda: backend.attend(0, query, scaling, cache, sparse),
        },
        rounds,
    )
    read = 2 * batch * kv_heads * (kept + text) * head_dim * like.element_size()
    return Measured(
        shape=name,
        dtype=dtype,
        image_tokens=image,
        batch=batch,
        sdpa_milliseconds=1e3 * seconds["sdpa"],
        grouped_milliseconds=1e3 * seconds["grouped"],
        gather_milliseconds=1e3 * seconds["gather"],
        grouped_ratio=seconds["sdpa"] / seconds["grouped"],
        gather_ratio=min(seconds["sdpa"], seconds["grouped"]) / seconds["gather"],
        gather_gigabytes_per_second=read / seconds["gather"] / 1e9,
    )


def _fastest(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, work in ways.items():
            begun = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - begun)
    return best


def print_table(rows: Sequence[Measured]) -> None:
    """One line per shape, size and dtype."""
    print(
        "shape          dtype  image tokens  batch  SDPA gqa ms  grouped ms  gather ms  SDPA/grouped  dense/gather  GB/s"
    )
    for row in rows:
        print(
            f"{row.shape:14} {row.dtype:5}  {row.image_tokens:12d}  {row.batch:5d}  {row.sdpa_milliseconds:11.2f}"
            f"  {row.grouped_milliseconds:10.2f}  {row.gather_milliseconds:9.2f}  {row.grouped_ratio:11.1f}x"
            f"  {row.gather_ratio:11.1f}x  {row.gather_gigabytes_per_second:4.1f}"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m fastocr_core.bench.attention", description=__doc__)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--text-tokens", type=int, default=300)
    parser.add_argument("--kept-share", type=float, default=0.05)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--shapes", nargs="+", choices=[shape[0] for shape in SHAPES])
    parser.add_argument("--image-tokens", type=int, nargs="+", help="instead of each shape's own")
    chosen = parser.parse_args(arguments)
    with torch.inference_mode():
        rows = [
            measure(
                (name, heads, kv_heads, head_dim, image),
                dtype,
                chosen.batch,
                chosen.text_tokens,
                chosen.kept_share,
                chosen.rounds,
            )
            for name, heads, kv_heads, head_dim, sizes in SHAPES
            if chosen.shapes is None or name in chosen.shapes
            for image in chosen.image_tokens or sizes
            for dtype in DTYPES
        ]
    print_table(rows)
    facts = {"bench": "attention", "kept_share": chosen.kept_share, "text_tokens": chosen.text_tokens}
    print(json.dumps(facts | {"threads": torch.get_num_threads(), "rows": [asdict(row) for row in rows]}))


if __name__ == "__main__":
    main()
