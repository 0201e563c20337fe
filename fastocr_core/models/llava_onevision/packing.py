"""Lays the features of LLaVA-OneVision's views out as the decoder sees them: the squeezed page, then the
stitched canvas without its margins, a newline after each row.
"""

import torch
from torch import Tensor, nn

from fastocr_core.vision.llava_view import CanvasPlan


def packed(features: Tensor, newline: Tensor, plan: CanvasPlan) -> Tensor:
    """[views, patches, width] and the newline [width] -> [image tokens, width].

    View 0 is the squeezed page, the others the tiles in rows. A canvas with too many patches is shrunk
    bilinearly.
    """
    side, width = plan.patches_per_side, features.shape[2]
    tiles = features[1:].view(plan.tile_rows, plan.tile_columns, side, side, width)
    canvas = tiles.transpose(1, 2).reshape(plan.tile_rows * side, plan.tile_columns * side, width)
    inside = canvas[
        plan.cut_rows : canvas.shape[0] - plan.cut_rows, plan.cut_columns : canvas.shape[1] - plan.cut_columns
    ]
    if inside.shape[:2] != (plan.rows, plan.columns):
        channels_first = inside.permute(2, 0, 1)[None]
        shrunk = nn.functional.interpolate(channels_first, (plan.rows, plan.columns), mode="bilinear")
        inside = shrunk[0].permute(1, 2, 0)
    ends = newline.to(features).expand(plan.rows, 1, width)
    return torch.cat((features[0], torch.cat((inside, ends), dim=1).reshape(-1, width)))


def newline_tokens(plan: CanvasPlan) -> tuple[int, ...]:
    """Which image tokens are newlines."""
    base = plan.patches_per_side**2
    return tuple(base + (row + 1) * (plan.columns + 1) - 1 for row in range(plan.rows))
