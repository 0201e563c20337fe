"""Attention of the decoder during training: the inference mask as one tensor, and guidance of two heads towards the truth.

Registered with transformers under its own name; keeps the image logits of head 0 of the guided layers for the loss.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface

NAME = "mini_guided"
GUIDED_LAYERS = (2, 4)


def guided_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """SDPA; leaves `module.guide_logits` [B, T, image] for guided layers (text queries, head 0, image keys)."""
    image_tokens = int(module.image_tokens)
    scaling = float(options["scaling"])
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        layer_mask: Tensor | None = attention_mask
    else:
        layer_mask = attention_mask
    override = getattr(module, "mask_override", None)
    if override is not None:
        layer_mask = override
    if int(module.layer_idx) in GUIDED_LAYERS:
        pointed = query[:, 0, image_tokens:] @ key[:, 0, :image_tokens].transpose(1, 2)
        module.guide_logits = pointed.float() * scaling
    output = functional.scaled_dot_product_attention(query, key, value, attn_mask=layer_mask, scale=scaling)
    return output.transpose(1, 2).contiguous(), None


def register() -> str:
    AttentionInterface.register(NAME, guided_attention)
    return NAME


def reading_mask(image_tokens: int, text_tokens: int, window: int) -> Tensor:
    """bool [1, 1, S, S], True = may look: causal; outputs see the whole image, BEGIN and the last `window` outputs."""
    length = image_tokens + text_tokens
    index = torch.arange(length)
    allowed = index[None, :] <= index[:, None]
    first_output = image_tokens + 1
    recent = index[None, :] > index[:, None] - window
    allowed &= recent | (index[None, :] < first_output)
    return allowed[None, None]
