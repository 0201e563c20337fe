"""Causal attention over a prompt, whole or in chunks, and what a policy may see and mask of it.

A chunk's queries look at all entries up to their own, so the cut changes the shapes of the sums but not
what is summed.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from fastocr_core.decoding.base import ImageGrid, Policy, PrefillView
from fastocr_core.models.base import PromptLayout


@dataclass(frozen=True, slots=True)
class PromptCall:
    """What the attention function needs for a piece of one page's prompt, from entry `first_row` on."""

    policy: Policy
    slot: int
    layout: PromptLayout
    grid: ImageGrid
    first_row: int


def causal_attention(
    query: Tensor, keys: Tensor, values: Tensor, scaling: float, mask: Tensor | None = None
) -> Tensor:
    """`query` [B, query_heads, rows, head_dim] are the last rows of keys and values [B, kv_heads, entries,
    head_dim]; the result has the query's shape. `mask` (bool or additive) replaces the causal one.
    """
    rows, entries = query.shape[2], keys.shape[2]
    bias = causal_lower_right(rows, entries) if mask is None and 1 < rows < entries else mask
    return scaled_dot_product_attention(
        query,
        keys,
        values,
        attn_mask=bias,
        is_causal=mask is None and rows == entries and rows > 1,
        scale=scaling,
        enable_gqa=query.shape[1] != keys.shape[1],
    )


def prompt_attention(
    layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float, call: PromptCall
) -> Tensor:
    """One layer of a piece of a prompt, [1, query_heads, rows, head_dim] over all entries so far."""
    policy, layout = call.policy, call.layout
    visible = policy.prefill_visible(layer, call.slot)
    if policy.observes_prefill(layer):
        view = PrefillView(
            query=query[0],
            keys=keys[0],
            first_row=call.first_row,
            scaling=scaling,
            image_start=layout.image_start,
            image_tokens=layout.image_tokens,
            grid=call.grid,
            prompt_entries=len(layout.ids) + layout.image_tokens,
        )
        policy.take_prefill(layer, call.slot, view)
    mask = None if visible is None else visible_mask(visible, layout, query.shape[2], keys.shape[2])
    return causal_attention(query, keys, values, scaling, mask)


def visible_mask(visible: Tensor, layout: PromptLayout, rows: int, entries: int) -> Tensor:
    """Bool [rows, entries] for the last `rows` of `entries`: causal, without the image tokens that are not
    `visible` [image_tokens]. Every row sees itself, so that none is empty.
    """
    seen = visible.new_ones(len(layout.ids) + layout.image_tokens)
    seen[layout.image_start : layout.image_start + layout.image_tokens] = visible
    entry = torch.arange(entries, device=visible.device)
    own = entry[entries - rows :, None]  # [rows, 1]
    return ((entry < own) & seen[:entries]) | (entry == own)
