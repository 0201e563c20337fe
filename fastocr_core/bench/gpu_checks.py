"""Correctness on the machine at hand, before anything is timed: the kernels against double precision, the
`triton` backend against the masked oracle, sparse steps against dense ones, and a whole engine.
"""

import torch
from torch import Tensor

from fastocr_core.attention import attention_backend
from fastocr_core.attention.base import ReadCount, Selection, Step
from fastocr_core.bench.gpu_attention import BenchCache, SparseAttend
from fastocr_core.bench.gpu_decoder import BenchDecoder
from fastocr_core.bench.gpu_shapes import BenchShape
from fastocr_core.kv_cache import SlotCache
from fastocr_core.models.base import DecoderShape, PromptLayout

# Of outputs near 0.1 in size: rounding of bf16 results, and of fp32 sums.
TOLERANCE = {torch.float32: 2e-4, torch.bfloat16: 2e-2}


class FixedSets:
    """A policy with given sets, which keeps the image attention that it is handed."""

    def __init__(self, sets: tuple[Tensor | None, ...]) -> None:
        self._selection = Selection(sets)
        self.scores: dict[int, Tensor] = {}

    def selection(self, layer: int) -> Selection:
        """The same in every layer."""
        return self._selection

    def wants_scores(self, layer: int, slot: int) -> bool:
        """Always."""
        return True

    def take_scores(self, layer: int, slot: int, probabilities: Tensor) -> None:
        """Keep them."""
        self.scores[slot] = probabilities


def backend_error(shape: BenchShape, device: torch.device, dtype: torch.dtype, seed: int = 0) -> float:
    """Largest difference of outputs and image attention between `triton` in `dtype` and the masked oracle in
    fp64 on the same numbers; four slots of mixed lengths, dense and sparse, one of them empty.

    RuntimeError if rows are counted differently.
    """
    generator = torch.Generator().manual_seed(seed)
    decoder = DecoderShape(
        1, shape.query_heads, shape.kv_heads, shape.head_dim, shape.hidden, shape.vocabulary
    )
    image, text = shape.image_tokens, shape.text_tokens
    held = ((image, text), (image // 2 + 1, 3), (image // 3 + 1, text // 2 + 1))
    caches = []
    for like in (
        torch.empty(0, device=device, dtype=dtype),
        torch.empty(0, device=device, dtype=torch.float64),
    ):
        cache = SlotCache(decoder, 4, image, 4, text, None, like)
        for image_tokens, fed in held:
            slot = cache.allocate(PromptLayout((0,), 0, image_tokens, torch.zeros(1, image_tokens + 1)))
            cache.held(slot).outputs = fed
        caches.append(cache)
    fast_store, exact_store = (cache.slot_layers[0] for cache in caches)
    for part in ("image_keys", "image_values", "text_keys", "text_values"):
        numbers = torch.randn(getattr(fast_store, part).shape, generator=generator)
        getattr(fast_store, part).copy_(numbers)
        getattr(exact_store, part).copy_(getattr(fast_store, part))
    sets: list[Tensor | None] = [None] * 4
    for slot in (1, 2):
        tokens = held[slot][0]
        order = torch.rand(shape.kv_heads, tokens, generator=generator).topk(tokens // 4 + 1, 1).indices
        sets[slot] = order.sort(1).values.to(device)
    query = torch.randn(4, shape.query_heads, 1, shape.head_dim, generator=generator).to(device, dtype)
    outputs, policies, counts = [], [], []
    for name, cache, asked in (("triton", caches[0], query), ("masked", caches[1], query.double())):
        policies.append(FixedSets(tuple(sets)))
        counts.append({slot: ReadCount() for slot in range(3)})
        step = Step((0, 1, 2), policies[-1], counts[-1])
        scaling = shape.head_dim**-0.5
        outputs.append(attention_backend(name).attend(0, asked, scaling, cache, step).double())
    if counts[0] != counts[1]:
        raise RuntimeError(f"rows counted differ: {counts[0]} and {counts[1]}")
    errors = [(outputs[0] - outputs[1]).abs().max()]
    errors += [(policies[0].scores[slot] - policies[1].scores[slot]).abs().max() for slot in range(3)]
    return float(torch.stack([error.double() for error in errors]).max())


def steps_agree(shape: BenchShape, decoder: BenchDecoder, cache: BenchCache) -> dict[str, bool]:
    """Decode steps with everything kept against the own dense kernel, and chosen sets that are valid.

    With everything kept the tokens must be equal. After a sparse step every set must hold distinct rows of
    the image in ascending order.
    """
    ids = torch.arange(cache.batch, device=decoder.device) % shape.vocabulary
    dense = decoder.step(ids, SparseAttend(cache, (), 1), cache.store)
    everything = SparseAttend(cache, shape.focal_layers, shape.image_tokens)
    kept = decoder.step(ids, everything, cache.store)
    few = SparseAttend(cache, shape.focal_layers, max(1, shape.image_tokens // 20))
    decoder.step(ids, few, cache.store)
    rows = few.chosen_rows()
    ascending = bool((rows[..., 1:] > rows[..., :-1]).all())
    within = bool(((rows >= 0) & (rows < shape.image_tokens)).all())
    return {
        "everything_kept_is_dense": bool(torch.equal(dense, kept)),
        "sets_are_valid": ascending and within,
    }


def engine_agrees(device: torch.device, pages: int, tokens: int) -> bool:
    """The toy model reads pages to the same tokens with `triton` and with `masked`, densely and sparsely."""
    from fastocr_core.bench.decode import noise_page
    from fastocr_core.config import DecodePolicy, EngineLimits
    from fastocr_core.engine import Engine
    from fastocr_core.models import load

    model = load("tiny", device=str(device))
    views = [noise_page(24 + 8 * page, model.vision, page) for page in range(pages)]
    for policy in (DecodePolicy.dense(), DecodePolicy.fastocr(0.3, floor=1, warmup_steps=2)):
        read = []
        for backend in ("triton", "masked"):
            limits = EngineLimits(max_output_tokens=tokens)
            with Engine(model, policy, pages, limits, backend) as engine:
                results = list(engine.read(views))
            if any(result.error for result in results):
                raise RuntimeError(f"a page failed: {[result.error for result in results]}")
            read.append([result.tokens for result in results])
        if read[0] != read[1]:
            return False
    return True
