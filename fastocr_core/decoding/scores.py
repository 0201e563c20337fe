"""How attention becomes a choice of image tokens: pooling over heads, budgets, the strongest tokens."""

import math

import torch
from torch import Tensor

from fastocr_core.config import Pooling


def share_budget(kept_share: float, floor: int, image_tokens: int) -> int:
    """k = max(ceil(kept_share * N), floor), at most N."""
    # The small term undoes products such as 0.05 * 560 = 28.000000000000004.
    return min(image_tokens, max(math.ceil(kept_share * image_tokens - 1e-9), floor))


def pooled(probabilities: Tensor, pooling: Pooling) -> Tensor:
    """[kv_heads, group, image_tokens] -> [kv_heads, image_tokens], over the group or over all heads of the
    layer.
    """
    kv_heads = probabilities.shape[0]
    if pooling == "kv_max":
        return probabilities.amax(1)
    if pooling == "kv_mean":
        return probabilities.mean(1)
    layer = probabilities.amax((0, 1)) if pooling == "layer_max" else probabilities.mean((0, 1))
    return layer.expand(kv_heads, -1)


def strongest(scores: Tensor, kept: int) -> Tensor:
    """The `kept` largest of [kv_heads, image_tokens] by head, int64 [kv_heads, kept], ascending, so that
    keeping all of them reads rows in storage order.
    """
    if kept >= scores.shape[1]:
        return torch.arange(scores.shape[1], device=scores.device).expand(scores.shape[0], -1)
    return scores.topk(kept, dim=1, sorted=False).indices.sort(dim=1).values


def top_p_count(scores: Tensor, share: float, least: int, most: int) -> int:
    """How many of the strongest tokens every head needs to hold `share` of its image attention.

    `scores` is [kv_heads, image_tokens]; the answer lies between `least` and `most`. One number for all
    heads, the largest needed, since a set has as many tokens in every head.
    """
    if least >= most:
        return most
    sums = scores.topk(most, dim=1).values.cumsum(1)  # [kv_heads, most]
    wanted = scores.sum(1, keepdim=True) * share
    needed = int((sums < wanted).sum(1).max()) + 1
    return min(max(needed, least), most)
