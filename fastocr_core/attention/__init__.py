"""Attention over the slot cache; `attention_backend` gives a backend by name."""

from fastocr_core.attention.base import AttentionBackend
from fastocr_core.attention.gather import GatherAttention
from fastocr_core.attention.reference import MaskedAttention

BACKENDS: dict[str, type[AttentionBackend]] = {
    GatherAttention.name: GatherAttention,
    MaskedAttention.name: MaskedAttention,
}


def attention_backend(name: str) -> AttentionBackend:
    """A fresh backend. ValueError for an unknown name."""
    if name not in BACKENDS:
        raise ValueError(f"unknown attention backend {name!r}; known: {', '.join(BACKENDS)}")
    return BACKENDS[name]()
