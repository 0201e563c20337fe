"""The text decoder of the embedded reader: layers as in Qwen2.5-VL (Bai et al. 2025), three rotary axes, in plain torch.

The same numbers as `Qwen2_5_VLTextModel` of transformers in float32, bit for bit (tests/parity/test_mini_decoder.py), and
the same names of weights. It is written out because importing that class takes most of the time in which `mini` is loaded.
Attention is called as transformers does it, so that the engine and the training can put their own in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fastocr_core.models.norm import RootMeanSquareNorm

ROTARY_BASE = 1e4
NORM_EPSILON = 1e-6
INITIAL_DEVIATION = 0.02

Attention = Callable[..., tuple[Tensor, object]]


@dataclass(frozen=True, slots=True)
class DecoderSize:
    """Sides of the weights. rotary_pairs: how many of the head_dim / 2 frequency pairs turn with each position axis."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    inner: int
    rotary_pairs: tuple[int, int, int]

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads


@dataclass(frozen=True, slots=True)
class DecoderOutput:
    """last_hidden_state: [B, T, hidden], normalised."""

    last_hidden_state: Tensor


class GatedLayer(nn.Module):
    """The feed-forward part: down(silu(gate(x)) * up(x))."""

    def __init__(self, size: DecoderSize) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(size.hidden, size.inner, bias=False)
        self.up_proj = nn.Linear(size.hidden, size.inner, bias=False)
        self.down_proj = nn.Linear(size.inner, size.hidden, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        shown: Tensor = self.down_proj(functional.silu(self.gate_proj(hidden)) * self.up_proj(hidden))
        return shown


class SelfAttention(nn.Module):
    """Projections and rotation; `attend` does the rest."""

    def __init__(self, size: DecoderSize, layer: int) -> None:
        super().__init__()
        self.layer_idx, self.head_dim = layer, size.head_dim
        self.scaling = size.head_dim**-0.5
        self.attend: Attention = plain_attention
        self.q_proj = nn.Linear(size.hidden, size.hidden)
        self.k_proj = nn.Linear(size.hidden, size.hidden)
        self.v_proj = nn.Linear(size.hidden, size.hidden)
        self.o_proj = nn.Linear(size.hidden, size.hidden, bias=False)

    def forward(self, hidden: Tensor, turns: tuple[Tensor, Tensor], cache: Any) -> Tensor:
        """`turns`: cosines and sines [B, T, head_dim]; what the cache adds to the keywords goes to the attention."""
        batch, length, _ = hidden.shape
        query, key, value = (
            project(hidden).view(batch, length, -1, self.head_dim).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        query, key = rotated(query, *turns), rotated(key, *turns)
        keywords: dict[str, Any] = {}
        if cache is not None:
            key, value = cache.update(key, value, self.layer_idx, kwargs=keywords)
        seen, _ = self.attend(self, query, key, value, None, scaling=self.scaling, **keywords)
        shown: Tensor = self.o_proj(seen.reshape(batch, length, -1))
        return shown


class DecoderLayer(nn.Module):
    """Attention and feed-forward part, each on normalised input and added to it."""

    def __init__(self, size: DecoderSize, layer: int) -> None:
        super().__init__()
        self.self_attn = SelfAttention(size, layer)
        self.mlp = GatedLayer(size)
        self.input_layernorm = RootMeanSquareNorm(size.hidden, NORM_EPSILON)
        self.post_attention_layernorm = RootMeanSquareNorm(size.hidden, NORM_EPSILON)

    def forward(self, hidden: Tensor, turns: tuple[Tensor, Tensor], cache: Any) -> Tensor:
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), turns, cache)
        shown: Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return shown


class TextDecoder(nn.Module):
    """Embeddings of tokens, the layers, the last norm."""

    def __init__(self, size: DecoderSize, padding_token: int) -> None:
        super().__init__()
        self.size = size
        self.embed_tokens = nn.Embedding(size.vocabulary, size.hidden, padding_token)
        self.layers = nn.ModuleList(DecoderLayer(size, index) for index in range(size.layers))
        self.norm = RootMeanSquareNorm(size.hidden, NORM_EPSILON)
        exponents = torch.arange(0, size.head_dim, 2, dtype=torch.float) / size.head_dim
        self.register_buffer("frequencies", 1.0 / ROTARY_BASE**exponents, persistent=False)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0.0, INITIAL_DEVIATION)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(
        self,
        inputs_embeds: Tensor,
        position_ids: Tensor,
        cache: Any = None,
        use_cache: bool = True,
    ) -> DecoderOutput:
        """[B, T, hidden] at positions int64 [3, B, T].

        A cache is given new keys and values as those of transformers are; `use_cache` False leaves it alone.
        """
        cache = cache if use_cache else None
        hidden, turns = inputs_embeds, self.turns(position_ids, inputs_embeds.dtype)
        for layer in self.layers:
            hidden = layer(hidden, turns, cache)
        return DecoderOutput(self.norm(hidden))

    def turns(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosines and sines [B, T, head_dim] of the rotary angles: each axis turns its own frequency pairs."""
        angles = (
            positions[..., None].float() * self.get_buffer("frequencies").float()
        )  # [3, B, T, head_dim / 2]
        pieces = [
            piece[axis]
            for axis, piece in enumerate(torch.split(angles, list(self.size.rotary_pairs), dim=-1))
        ]
        angle = torch.cat(pieces, dim=-1)
        angle = torch.cat([angle, angle], dim=-1)
        return angle.cos().to(dtype), angle.sin().to(dtype)

    def set_attn_implementation(self, name: str) -> None:
        """Use the attention function that is registered with transformers under `name`. KeyError where there is none."""
        # the engine imports it anyway; loading must not
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        for module in self.modules():
            if isinstance(module, SelfAttention):
                module.attend = ALL_ATTENTION_FUNCTIONS[name]


def rotated(heads: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """[B, heads, T, head_dim], each pair of a number in the first half and one in the second turned by its angle."""
    first, second = heads.chunk(2, dim=-1)
    turned: Tensor = heads * cosines[:, None] + torch.cat([-second, first], dim=-1) * sines[:, None]
    return turned


def plain_attention(
    module: SelfAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    scaling: float,
    **_: Any,
) -> tuple[Tensor, None]:
    """Causal attention [B, T, heads, head_dim] of a whole text; ValueError where a cache has added to it."""
    if key.shape[2] != query.shape[2]:
        raise ValueError(
            "plain attention reads a text in one go; with a cache set an attention that knows it"
        )
    seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling)
    return seen.transpose(1, 2).contiguous(), None
