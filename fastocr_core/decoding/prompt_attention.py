"""Attention of prompt rows on the image, recomputed from queries and keys block by block.

Full maps of large pages do not fit into memory (20,000 rows squared), so nothing here holds more than one
block of rows.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from fastocr_core.decoding.base import PrefillView

BLOCK_ROWS = 128


def image_attention(view: PrefillView, from_row: int = 0, block_rows: int = BLOCK_ROWS) -> Iterator[Tensor]:
    """Softmax of the view's prompt rows `from_row` and later, the image part of it.

    Each block is float32 [kv_heads, group, rows, image_tokens]; image tokens that are not in the prompt so
    far have 0, like all that a row cannot see because it comes before them.
    """
    kv_heads, entries, head_dim = view.keys.shape
    query_heads, rows, _ = view.query.shape
    query = view.query.view(kv_heads, query_heads // kv_heads, rows, head_dim)
    keys = view.keys.float().transpose(1, 2)[:, None]  # [kv_heads, 1, head_dim, entries]
    start = view.image_start
    present = min(max(entries - start, 0), view.image_tokens)
    columns = torch.arange(entries, device=view.keys.device)
    for first in range(max(0, from_row - view.first_row), rows, block_rows):
        block = query[:, :, first : first + block_rows].float()
        scores = block @ keys * view.scaling  # [kv_heads, group, rows, entries]
        place = view.first_row + first + torch.arange(block.shape[2], device=columns.device)
        scores = scores.masked_fill(columns[None, :] > place[:, None], -torch.inf)
        image = scores.softmax(3)[..., start : start + present]
        yield torch.nn.functional.pad(image, (0, view.image_tokens - present))
