"""Leads the attention of an ordinary transformers text model to our backends.

The function is registered under a name with the transformers attention interface (no mask is registered:
every page is prefilled alone, unpadded). Our cache puts the running step or prompt into the attention
module's keyword arguments; a forward without our cache gets plain causal attention.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface

from fastocr_core.attention.base import AttentionBackend, Step
from fastocr_core.attention.prefill import PromptCall, causal_attention, prompt_attention
from fastocr_core.kv_cache import STEP_KEY, SlotCache

# transformers takes a name with "flash" in it for a kernel to download.
ATTENTION_NAME = "fastocr_slots"


@dataclass(frozen=True, slots=True)
class DecodeCall:
    """What the attention function needs in a decode step."""

    backend: AttentionBackend
    cache: SlotCache
    step: Step


def slot_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """`query` [B, query_heads, T, head_dim], keys and values not repeated; [B, T, query_heads, head_dim]."""
    call = kwargs.get(STEP_KEY)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer: Any = getattr(module, "layer_idx", None)
    if isinstance(call, DecodeCall):
        return call.backend.attend(layer, query, scale, call.cache, call.step), None
    if isinstance(call, PromptCall):
        output = prompt_attention(layer, query, key, value, scale, call)
    else:
        output = causal_attention(query, key, value, scale, attention_mask)
    return output.transpose(1, 2).contiguous(), None


def hook_decoder(decoder: nn.Module) -> None:
    """Let `decoder` call `slot_attention` from now on."""
    AttentionInterface.register(ATTENTION_NAME, slot_attention)
    set_implementation: Any = decoder.set_attn_implementation
    set_implementation(ATTENTION_NAME)
    decoder.eval()
