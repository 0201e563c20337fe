"""Scores of image tokens from the vision tower of Qwen2.5-VL: attention received and keys in its last block
with full attention.

The tower works window by window, in an order of its own; results come back in raster order.
"""

from typing import Any

import torch
from torch import Tensor

from fastocr_core.models.attention_received import attention_received


def last_full_block(tower: Any) -> Any:
    """The last block whose patches all see each other."""
    return tower.blocks[max(tower.fullatt_block_indexes)]


def window_order(rows: int, columns: int, window: int) -> Tensor:
    """Raster indices of the tokens of a rows x columns grid in the tower's order: windows of window x window
    tokens in raster order, cut at the edges, each in raster order. int64 [rows * columns]
    """
    row = torch.arange(rows).repeat_interleave(columns) // window
    column = torch.arange(columns).repeat(rows) // window
    return torch.argsort(row * (columns // window + 1) + column, stable=True)


def scores_and_keys(
    tower: Any, hidden: Tensor, rotary: tuple[Tensor, Tensor], rows: int, columns: int
) -> tuple[Tensor, Tensor]:
    """Attention received [rows * columns] and keys [rows * columns, head_dim], means over heads and patches.

    `hidden` [patches, width] is what the attention of `last_full_block` was given, `rotary` its cosines and
    sines [patches, head_dim]. Keys are taken before rotation: they tell what a patch shows, not where.
    """
    attention = last_full_block(tower).attn
    heads = int(attention.num_heads)
    query, key, _ = (
        attention.qkv(hidden).view(len(hidden), 3, heads, -1).unbind(1)
    )  # [patches, heads, head_dim]
    query_turned, key_turned = (_rotated(part, *rotary).transpose(0, 1) for part in (query, key))
    received = attention_received(query_turned, key_turned, float(attention.scaling))  # [patches]
    merged = int(tower.spatial_merge_size)
    window = int(tower.window_size) // merged // int(tower.patch_size)
    order = window_order(rows, columns, window).to(hidden.device)
    per_token = received.view(-1, merged * merged).mean(1)  # in the tower's order
    keys = key.float().mean(1).view(len(order), merged * merged, -1).mean(1)
    raster = torch.argsort(order)
    return per_token[raster], keys[raster]


def _rotated(part: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary positions in two halves: [patches, heads, head_dim]"""
    low, high = part.float().chunk(2, dim=-1)
    turned = torch.cat((-high, low), dim=-1)
    return part.float() * cosine[:, None].float() + turned * sine[:, None].float()
