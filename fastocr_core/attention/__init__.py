"""Attention over the slot cache; `attention_backend` gives a backend by name."""

from fastocr_core.attention.base import AttentionBackend
from fastocr_core.attention.gather import GatherAttention
from fastocr_core.attention.reference import MaskedAttention
from fastocr_core.attention.together import TogetherAttention

BACKEND_NAMES: tuple[str, ...] = ("gather", "together", "triton", "masked")


def attention_backend(name: str) -> AttentionBackend:
    """A fresh backend. ValueError for an unknown name, RuntimeError for one that cannot run here."""
    if name == GatherAttention.name:
        return GatherAttention()
    if name == TogetherAttention.name:
        return TogetherAttention()
    if name == MaskedAttention.name:
        return MaskedAttention()
    if name == "triton":
        from fastocr_core.attention.triton_gather import TritonAttention  # loads triton where there is one

        return TritonAttention()
    raise ValueError(f"unknown attention backend {name!r}; known: {', '.join(BACKEND_NAMES)}")
