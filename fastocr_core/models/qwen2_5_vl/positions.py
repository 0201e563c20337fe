"""M-RoPE of Qwen2.5-VL: the three rotary coordinates (time, height, width) of every entry of a prompt.

Source: Qwen2-VL, arXiv 2409.12191, section 2.1.
"""

import torch
from torch import Tensor


def prompt_positions(before: int, rows: int, columns: int, after: int) -> Tensor:
    """int64 [3, before + rows * columns + after]: text, an image of rows x columns tokens, text.

    Text advances all coordinates by one. An image that begins at p has time p, height p + row and width
    p + column; the text after it goes on at p + max(rows, columns).
    """
    height = torch.arange(rows).repeat_interleave(columns) + before
    width = torch.arange(columns).repeat(rows) + before
    image = torch.stack((torch.full_like(height, before), height, width))  # [3, rows * columns]
    head = torch.arange(before).expand(3, -1)
    tail = (torch.arange(after) + before + max(rows, columns)).expand(3, -1)
    return torch.cat((head, image, tail), dim=1)
