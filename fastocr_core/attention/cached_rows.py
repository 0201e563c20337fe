"""Attention of one new token over a cache that is one piece: everything, or chosen rows and a tail.

The counterpart of the slot backends for caches that transformers keeps.
"""

import torch
from torch import Tensor


def attend_all(
    query: Tensor, keys: Tensor, values: Tensor, scaling: float, visible: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`query` [kv_heads, group, head_dim] over `keys` and `values` [kv_heads, rows, head_dim], of which only
    `visible` (bool [rows], None for all) count.

    The output [kv_heads, group, head_dim] and the attention [kv_heads, group, rows] in fp32 or better.
    """
    scores = _scores(query, keys, scaling)
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    attention = scores.softmax(2)
    return torch.bmm(attention.to(query.dtype), values), attention


def attend_chosen(
    query: Tensor, keys: Tensor, values: Tensor, scaling: float, chosen: Tensor, tail: int
) -> tuple[Tensor, Tensor]:
    """As `attend_all`, but over the rows `chosen` (int64 [kv_heads, n]) and all from row `tail` on.

    The attention is [kv_heads, group, n + rows - tail]: first the chosen rows in the order given.
    """
    chosen_keys, chosen_values = rows_of(keys, chosen), rows_of(values, chosen)
    tail_keys, tail_values = keys[:, tail:], values[:, tail:]
    scores = torch.cat((_scores(query, chosen_keys, scaling), _scores(query, tail_keys, scaling)), dim=2)
    attention = scores.softmax(2)
    weights = attention.to(query.dtype)
    count = chosen.shape[1]
    output = torch.bmm(weights[:, :, :count], chosen_values)
    return torch.baddbmm(output, weights[:, :, count:], tail_values), attention


def rows_of(store: Tensor, chosen: Tensor) -> Tensor:
    """Rows of each head of `store` [kv_heads, rows, head_dim]: [kv_heads, n, head_dim].

    One index_select over flattened rows, more than twice as fast as gather on a CPU, also where the heads lie
    apart in a larger buffer.
    """
    heads, rows, head_dim = store.shape
    if store.stride(2) != 1 or store.stride(1) != head_dim or store.stride(0) % head_dim:
        return store.gather(1, chosen[:, :, None].expand(-1, -1, head_dim))
    apart = store.stride(0) // head_dim  # rows from head to head
    flat = store.as_strided(((heads - 1) * apart + rows, head_dim), (head_dim, 1))
    index = chosen + torch.arange(heads, device=chosen.device)[:, None] * apart
    return flat.index_select(0, index.flatten()).view(heads, chosen.shape[1], head_dim)


def _scores(query: Tensor, keys: Tensor, scaling: float) -> Tensor:
    """[kv_heads, group, rows], in fp32 or better."""
    if query.dtype.itemsize <= 2:
        return torch.bmm(query, keys.transpose(1, 2)).float().mul_(scaling)
    return torch.bmm(query * scaling, keys.transpose(1, 2))
