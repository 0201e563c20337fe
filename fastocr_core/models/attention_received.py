"""How much attention each row of a block with full attention receives, without ever holding its whole map.

The score by which VisionZip (arXiv 2412.04467, section 3.2) chooses tokens for towers without a class token.
"""

import torch
from torch import Tensor

_MAP_ENTRIES_AT_ONCE = 1 << 24


def attention_received(query: Tensor, key: Tensor, scaling: float) -> Tensor:
    """Mean over heads and queries of softmax(query key^T scaling): [heads, rows, head_dim] twice -> [rows].

    float32; sums to 1. The map is computed some queries at a time.
    """
    heads, rows, _ = query.shape
    step = max(1, _MAP_ENTRIES_AT_ONCE // (heads * rows))
    total = torch.zeros(rows, dtype=torch.float32, device=query.device)
    columns = key.float().transpose(1, 2)  # [heads, head_dim, rows]
    for block in torch.split(query, step, dim=1):
        total += torch.bmm(block.float() * scaling, columns).softmax(-1).sum((0, 1))
    return total / (heads * rows)
