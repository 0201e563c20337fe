"""Ways to attend over one fixed cache in a benchmark step: SDPA in its variants, the own dense kernel, and
fastocr with its focal layers, all over the same keys and values.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from fastocr_core.attention.split_attention import CachedRows, RowSets, plan_splits, split_attention
from fastocr_core.bench.gpu_shapes import BenchShape

SDPA_BACKENDS: dict[str, SDPBackend] = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}


class BenchCache:
    """Random keys and values of `batch` pages of equal length; image rows first, then text rows.

    One piece per layer, [batch, kv_heads, image + text, head_dim], so that SDPA and the own kernels read the
    very same bytes.
    """

    def __init__(self, shape: BenchShape, batch: int, device: torch.device, dtype: torch.dtype) -> None:
        self.shape, self.batch = shape, batch
        size = (batch, shape.kv_heads, shape.image_tokens + shape.text_tokens, shape.head_dim)
        self.keys = [torch.empty(size, device=device, dtype=dtype).normal_() for _ in range(shape.layers)]
        self.values = [torch.empty(size, device=device, dtype=dtype).normal_() for _ in range(shape.layers)]
        image = torch.full((batch,), shape.image_tokens, device=device, dtype=torch.int32)
        text = torch.full((batch,), shape.text_tokens, device=device, dtype=torch.int32)
        self.rows = [self._rows(layer, image, text) for layer in range(shape.layers)]

    def store(self, layer: int, key: Tensor, value: Tensor) -> None:
        """Overwrite the last text row, so that the length stays as it is."""
        self.keys[layer][:, :, -1] = key
        self.values[layer][:, :, -1] = value

    def _rows(self, layer: int, image: Tensor, text: Tensor) -> CachedRows:
        split, keys, values = self.shape.image_tokens, self.keys[layer], self.values[layer]
        parts = (keys[:, :, :split], values[:, :, :split], keys[:, :, split:], values[:, :, split:])
        return CachedRows(*parts, image, text)


def sdpa_attend(cache: BenchCache, backend: str, packed: bool) -> Callable[[int, Tensor], Tensor]:
    """Dense attention by torch. `packed` makes the query heads of a group rows of one query."""
    shape, kernel = cache.shape, SDPA_BACKENDS[backend]

    def attend(layer: int, query: Tensor) -> Tensor:
        batch = len(query)
        rows = (
            query.reshape(batch, shape.kv_heads, -1, shape.head_dim) if packed else query[:, :, None]
        )  # [batch, heads, rows, head_dim]
        with sdpa_kernel(kernel):
            output = scaled_dot_product_attention(
                rows, cache.keys[layer], cache.values[layer], enable_gqa=not packed
            )
        return output.reshape(batch, shape.query_heads, shape.head_dim)

    return attend


class SparseAttend:
    """The own kernels with everything on the device: dense where `focal` is empty, else fastocr.

    Focal layers write group-reduced scores with the normalisers of the step before, and the strongest
    `kept` rows of every KV head become the set of the layers after them.
    """

    def __init__(self, cache: BenchCache, focal: tuple[int, ...], kept: int) -> None:
        shape, batch, device = cache.shape, cache.batch, cache.keys[0].device
        self._cache, self._focal, self._kept = cache, frozenset(focal), kept
        processors = 8
        if device.type == "cuda":
            processors = torch.cuda.get_device_properties(device).multi_processor_count
        self._dense_plan = plan_splits(
            batch, shape.kv_heads, shape.image_tokens, shape.text_tokens, processors
        )
        self._sparse_plan = plan_splits(batch, shape.kv_heads, kept, shape.text_tokens, processors)
        spread = torch.linspace(0, shape.image_tokens - 1, kept, device=device).int()
        rows = spread.expand(batch, shape.kv_heads, kept).contiguous()
        self._everything = RowSets(rows, torch.full((batch,), -1, device=device, dtype=torch.int32))
        self._sets = RowSets(rows, torch.full((batch,), kept, device=device, dtype=torch.int32))
        heads = (batch, shape.query_heads)
        self._normalisers = {layer: torch.zeros(heads, device=device) for layer in focal}

    def __call__(self, layer: int, query: Tensor) -> Tensor:
        """Attention of one layer: [batch, query_heads, head_dim] -> the same shape."""
        rows, scaling = self._cache.rows[layer], self._cache.shape.head_dim**-0.5
        if not self._focal:
            return split_attention(query, scaling, rows, self._everything, self._dense_plan).output
        if layer not in self._focal:
            return split_attention(query, scaling, rows, self._sets, self._sparse_plan).output
        normaliser = self._normalisers[layer]
        attended = split_attention(
            query, scaling, rows, self._everything, self._dense_plan, scores="group", shift=normaliser
        )
        assert attended.scores is not None
        normaliser.copy_(attended.normaliser)
        strongest = attended.scores.topk(self._kept, dim=-1, sorted=False).indices
        self._sets.rows.copy_(strongest.sort(dim=-1).values)
        return attended.output

    def chosen_rows(self) -> Tensor:
        """The newest sets, int32 [batch, kv_heads, kept]."""
        return self._sets.rows


def kept_rows(shape: BenchShape, kept_share: float) -> int:
    """Image rows that a sparse layer looks at."""
    return min(shape.image_tokens, max(1, round(kept_share * shape.image_tokens)))
