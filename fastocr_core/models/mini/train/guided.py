"""Attention of the decoder during training: the reading mask, guidance of some heads, and fixation as at inference.

Registered with transformers under its own name. Keeps the image logits of the guided heads for the loss. With
`fixate`, outputs of all layers but the focal one see only a few image tokens, so that the reader is used to sparse decoding.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface

NAME = "mini_guided"
GUIDED_LAYERS = (2, 3, 4)
GUIDED_HEADS = 4  # one head of 32 numbers cannot carry what a cell of 192 holds
FOCAL_LAYER = 2
WARMUP_OUTPUTS = 16
LEAST_KEPT = 16


@dataclass(slots=True)
class Glance:
    """What one forward pass shares among its layers. masks are bool [1 or B, 1, T, S] for the
    T outputs behind the image tokens, True = may look; image tokens see those before them.

    before: mask of the layers before the focal one when fixating (set by the caller); chosen: mask of the layers
    after it (set by the focal layer). kept_share 0 means no fixation.
    """

    image_tokens: int
    mask: Tensor
    kept_share: float = 0.0
    before: Tensor | None = None
    chosen: Tensor | None = None


def show(decoder: nn.Module, glance: Glance) -> None:
    """Hand `glance` to every attention module of the decoder."""
    for layer in decoder.layers:  # type: ignore[union-attr]
        layer.self_attn.glance = glance


def guided_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """SDPA under the glance's mask; leaves `module.guide_logits` [B, heads, T, image] for guided layers."""
    glance: Glance = module.glance  # type: ignore[assignment]
    layer, image, scaling = int(module.layer_idx), glance.image_tokens, float(options["scaling"])  # type: ignore[arg-type]
    mask = glance.mask
    if glance.kept_share and layer == FOCAL_LAYER:
        with torch.no_grad():
            glance.chosen = _choose(query[:, :, image:], key[:, :, :image], scaling, glance)
    elif glance.kept_share:
        other = glance.before if layer < FOCAL_LAYER else glance.chosen
        mask = mask if other is None else other
    if layer in GUIDED_LAYERS:
        pointing = query[:, :GUIDED_HEADS, image:] @ key[:, :GUIDED_HEADS, :image].transpose(2, 3)
        module.guide_logits = pointing.float() * scaling  # [B, heads, T, image]
    # two calls: the first needs no mask and skips half of the products, the largest part of a step
    shown = functional.scaled_dot_product_attention(
        query[:, :, :image], key[:, :, :image], value[:, :, :image], is_causal=True, scale=scaling
    )
    written = functional.scaled_dot_product_attention(
        query[:, :, image:], key, value, attn_mask=mask, scale=scaling
    )
    return torch.cat([shown, written], dim=2).transpose(1, 2).contiguous(), None


def register() -> str:
    AttentionInterface.register(NAME, guided_attention)
    return NAME


def _choose(query: Tensor, key: Tensor, scaling: float, glance: Glance) -> Tensor:
    """Top image tokens of each output, pooled over heads by maximum; query [B, H, T, D], key [B, H, N, D]."""
    scores = (query @ key.transpose(2, 3)).float().mul(scaling).softmax(-1).amax(1)  # [B, T, N]
    kept = min(max(math.ceil(glance.kept_share * scores.shape[-1]), LEAST_KEPT), scores.shape[-1])
    chosen = torch.zeros(scores.shape, dtype=torch.bool).scatter_(2, scores.topk(kept, dim=2).indices, True)
    return with_image_part(glance.mask, chosen)


def with_image_part(mask: Tensor, chosen: Tensor) -> Tensor:
    """`mask` with the image part of outputs beyond the warm-up replaced by chosen bool [B, T, N]."""
    batch, _, image = chosen.shape
    combined = mask.expand(batch, 1, -1, -1).clone()
    combined[:, 0, WARMUP_OUTPUTS:, :image] = chosen[:, WARMUP_OUTPUTS:]
    return combined


def around(cells: Tensor, rows: int, columns: int) -> Tensor:
    """Cells within two rows and three columns of each given flat cell; int64 [B, T] (-1: everything) -> bool [B, T, N]."""
    row, column = cells // columns, cells % columns
    near_row = (torch.arange(rows) - row.unsqueeze(-1)).abs() <= 2  # [B, T, rows]
    near_column = (torch.arange(columns) - column.unsqueeze(-1)).abs() <= 3
    near = (near_row.unsqueeze(-1) & near_column.unsqueeze(-2)).flatten(2)
    return near | (cells < 0).unsqueeze(-1)


def reading_mask(image_tokens: int, text_tokens: int, window: int) -> Tensor:
    """bool [1, 1, T, S], True = may look: outputs see the whole image, BEGIN and the last `window` outputs."""
    index = torch.arange(image_tokens + text_tokens)
    own = index[image_tokens:, None]
    allowed = (index <= own) & ((index > own - window) | (index <= image_tokens))
    return allowed[None, None]
