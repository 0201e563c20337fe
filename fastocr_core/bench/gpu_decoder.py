"""A decoder of plain torch layers with random weights, one step at a time: the shapes of a real model without
its checkpoint.

Projections are fused as serving engines fuse them, so that the dense baseline is not slowed down by them.
Every shape is fixed and nothing waits for the host, so that a CUDA graph can hold a step.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from fastocr_core.bench.gpu_shapes import BenchShape

Attend = Callable[[int, Tensor], Tensor]  # layer, query [batch, query_heads, head_dim] -> the same shape
Store = Callable[[int, Tensor, Tensor], None]  # layer, new keys and values [batch, kv_heads, head_dim]
_EPSILON = 1e-6


class BenchDecoder:
    """Random bf16 weights of one shape on one device (fp32 on a CPU). Not trained, not for reading."""

    def __init__(self, shape: BenchShape, device: torch.device, dtype: torch.dtype) -> None:
        self.shape, self.device, self.dtype = shape, device, dtype
        self._generator = torch.Generator(device=device).manual_seed(2605)
        width = shape.head_dim
        self.embedding = self._made(shape.vocabulary, shape.hidden, scale=1.0)
        self.head = self._made(shape.hidden, shape.vocabulary)
        heads = shape.query_heads + 2 * shape.kv_heads
        self.to_heads = [self._made(shape.hidden, heads * width) for _ in range(shape.layers)]
        self.to_hidden = [self._made(shape.query_heads * width, shape.hidden) for _ in range(shape.layers)]
        self.gain = torch.ones(shape.hidden, device=device, dtype=dtype)
        experts = shape.experts
        dense = shape.layers if experts is None else experts.dense_layers
        self.up = [self._made(shape.hidden, 2 * shape.ffn_width) for _ in range(dense)]
        self.down = [self._made(shape.ffn_width, shape.hidden) for _ in range(dense)]
        self.router: list[Tensor] = []
        if experts is not None:
            sparse, shared = shape.layers - dense, experts.shared * experts.width
            self.router = [self._made(shape.hidden, experts.routed) for _ in range(sparse)]
            self.shared_up = [self._made(shape.hidden, 2 * shared) for _ in range(sparse)]
            self.shared_down = [self._made(shared, shape.hidden) for _ in range(sparse)]
            ups = (experts.routed, shape.hidden, 2 * experts.width)
            downs = (experts.routed, experts.width, shape.hidden)
            self.expert_up = [self._made(*ups) for _ in range(sparse)]
            self.expert_down = [self._made(*downs) for _ in range(sparse)]
        self.grouped_experts = experts is not None and self._has_grouped_products()
        angles = torch.linspace(0.1, 1.0, width // 2, device=device)
        self._cosine, self._sine = angles.cos().to(dtype), angles.sin().to(dtype)

    def step(self, ids: Tensor, attend: Attend, store: Store) -> Tensor:
        """One token per page, int64 [batch] -> the tokens after them. The position is the same in every step."""
        shape = self.shape
        hidden = self.embedding[ids]  # [batch, hidden]
        sizes = [shape.query_heads, shape.kv_heads, shape.kv_heads]
        for layer in range(shape.layers):
            heads = (self._normed(hidden) @ self.to_heads[layer]).view(len(ids), -1, shape.head_dim)
            query, key, value = torch.split(heads, sizes, dim=1)
            store(layer, self._rotated(key), value)
            attended = attend(layer, self._rotated(query))
            hidden = hidden + attended.reshape(len(ids), -1) @ self.to_hidden[layer]
            hidden = hidden + self._feed_forward(layer, self._normed(hidden))
        return (self._normed(hidden) @ self.head).argmax(-1)

    def prompt(self, length: int) -> Tensor:
        """The causal forward of one prompt of so many tokens; the first output token, int64 [1]."""
        shape = self.shape
        hidden = self.embedding[torch.arange(length, device=self.device) % shape.vocabulary]
        sizes = [shape.query_heads, shape.kv_heads, shape.kv_heads]
        for layer in range(shape.layers):
            heads = (self._normed(hidden) @ self.to_heads[layer]).view(length, -1, shape.head_dim)
            query, key, value = (part.transpose(0, 1)[None] for part in torch.split(heads, sizes, dim=1))
            attended = functional.scaled_dot_product_attention(
                self._rotated(query), self._rotated(key), value, is_causal=True, enable_gqa=True
            )
            hidden = hidden + attended[0].transpose(0, 1).reshape(length, -1) @ self.to_hidden[layer]
            hidden = hidden + self._feed_forward(layer, self._normed(hidden))
        return (self._normed(hidden[-1:]) @ self.head).argmax(-1)

    def _made(self, *shape: int, scale: float | None = None) -> Tensor:
        tensor = torch.empty(shape, device=self.device, dtype=self.dtype)
        return tensor.normal_(0.0, scale or shape[-2] ** -0.5, generator=self._generator)

    def _normed(self, hidden: Tensor) -> Tensor:
        return functional.rms_norm(hidden, (self.shape.hidden,), self.gain, _EPSILON)

    def _rotated(self, heads: Tensor) -> Tensor:
        first, second = heads.chunk(2, dim=-1)
        turned = (first * self._cosine - second * self._sine, second * self._cosine + first * self._sine)
        return torch.cat(turned, dim=-1)

    def _feed_forward(self, layer: int, hidden: Tensor) -> Tensor:
        dense = len(self.up)
        if layer < dense:
            return _gated(hidden @ self.up[layer]) @ self.down[layer]
        sparse = layer - dense
        shared = _gated(hidden @ self.shared_up[sparse]) @ self.shared_down[sparse]
        return shared + self._experts(sparse, hidden)

    def _experts(self, sparse: int, hidden: Tensor) -> Tensor:
        """Routed experts: grouped products over the experts reached, or over all of them where torch has none."""
        experts = self.shape.experts
        assert experts is not None
        up, down = self.expert_up[sparse], self.expert_down[sparse]
        weight, chosen = (hidden @ self.router[sparse]).float().softmax(-1).topk(experts.active, dim=-1)
        if not self.grouped_experts:
            all_experts = torch.bmm(_gated(torch.matmul(hidden, up)), down)  # [routed, tokens, hidden]
            share = torch.zeros(len(hidden), experts.routed, device=self.device, dtype=self.dtype)
            share.scatter_(1, chosen, weight.to(self.dtype))
            return torch.einsum("eth,te->th", all_experts, share)
        order = chosen.flatten().argsort()  # picks in the order of their experts
        rows = hidden[order // experts.active]
        reached = torch.zeros(experts.routed, device=self.device, dtype=torch.int32)
        reached.scatter_add_(0, chosen.flatten(), torch.ones_like(chosen.flatten(), dtype=torch.int32))
        ends = reached.cumsum(0, dtype=torch.int32)
        result = torch._grouped_mm(_gated(torch._grouped_mm(rows, up, offs=ends)), down, offs=ends)
        weighted = result * weight.flatten()[order, None].to(self.dtype)
        return torch.zeros_like(hidden).index_add_(0, order // experts.active, weighted)

    def _has_grouped_products(self) -> bool:
        """Whether this torch has them for this device and dtype: tried on the real shapes, two tokens."""
        self.grouped_experts = True
        try:
            self._experts(0, torch.zeros(2, self.shape.hidden, device=self.device, dtype=self.dtype))
        except (AttributeError, NotImplementedError, RuntimeError):
            return False
        return True


def _gated(both: Tensor) -> Tensor:
    """Gate and value side by side in the last dimension."""
    gate, value = both.chunk(2, dim=-1)
    return functional.silu(gate) * value
