"""2-D dilation of a fixation: the grid neighbours of the strongest hits are kept before weaker hits are.

Ours, not the paper's. Text moves along a line and then down one, so what is read next is more likely beside
the strongest hit than among the tokens that happen to have the next scores.
"""

import torch
from torch import Tensor

from fastocr_core.decoding.base import ImageGrid

ROW_REACH, COLUMN_REACH = 1, 2
NEIGHBOURHOOD = (2 * ROW_REACH + 1) * (2 * COLUMN_REACH + 1)


def neighbour_table(grid: ImageGrid, image_tokens: int) -> Tensor:
    """int64 [image_tokens, 15]: the tokens of the cells within one row and two columns, the token itself
    included; where there is no such cell, and for tokens that are no cell, the token itself.
    """
    table = torch.arange(image_tokens)[:, None].repeat(1, NEIGHBOURHOOD)
    if not grid.fits(image_tokens):
        return table
    stride = grid.row_step
    rows, columns = torch.arange(grid.rows)[:, None], torch.arange(grid.columns)[None, :]
    tokens = grid.first + rows * stride + columns  # [rows, columns]
    offsets = [
        (down, right)
        for down in range(-ROW_REACH, ROW_REACH + 1)
        for right in range(-COLUMN_REACH, COLUMN_REACH + 1)
    ]
    for index, (down, right) in enumerate(offsets):
        inside = (rows + down).clamp(0, grid.rows - 1) == rows + down
        inside = inside & ((columns + right).clamp(0, grid.columns - 1) == columns + right)
        table[tokens, index] = torch.where(inside, tokens + down * stride + right, tokens)
    return table


def dilated(scores: Tensor, kept: int, table: Tensor) -> Tensor:
    """`kept` tokens of [kv_heads, image_tokens] by head, ascending: first the neighbourhoods of the
    strongest hits, then by score.

    As many hits are dilated as fill at most half of the budget, at least one; where their neighbourhoods
    do not fit, the hits come first and then the stronger neighbours.
    """
    hits = max(1, kept // (2 * NEIGHBOURHOOD))
    seeds = scores.topk(min(hits, scores.shape[1]), dim=1).indices  # [kv_heads, hits]
    # Attention is at most 1, so whole numbers keep the three ranks apart; double keeps small scores apart.
    ranked = scores.double()
    rank = torch.zeros_like(ranked).scatter_(1, table[seeds].flatten(1), 2.0).scatter_(1, seeds, 4.0)
    return (ranked + rank).topk(kept, dim=1, sorted=False).indices.sort(dim=1).values
