"""A cache layer for transformers' `generate` that appends in place.

The stock dynamic layer joins all keys and values anew in every step: reading and writing the whole cache
would eat up what sparse attention saves.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer

# Rows of room beyond what is needed, at least; else a quarter more.
LEAST_ROOM = 256


class GrowingLayer(DynamicLayer):  # type: ignore[misc]
    """`keys` and `values` are views of buffers with room for more rows.

    Whoever replaces them (reordering, selecting, moving to another device) ends that; the next update makes
    new buffers.
    """

    keys: Any
    values: Any

    def __init__(self) -> None:
        super().__init__()
        self._rooms: list[Tensor | None] = [None, None]

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append [B, kv_heads, T, head_dim]; all keys and values so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        rows = self.get_seq_length()
        self.keys = self._appended(0, self.keys, key_states, rows)
        self.values = self._appended(1, self.values, value_states, rows)
        return self.keys, self.values

    def reset(self) -> None:
        """Forget everything."""
        self._rooms = [None, None]
        super().reset()

    def _appended(self, which: int, held: Tensor, new: Tensor, rows: int) -> Tensor:
        """`held` [B, kv_heads, rows, head_dim] (anything without elements at first) and `new` after it."""
        wanted = rows + new.shape[2]
        room = self._rooms[which]
        if (
            room is None
            or room.shape[2] < wanted
            or room.shape[:2] != new.shape[:2]
            or (rows > 0 and held.data_ptr() != room.data_ptr())
        ):
            shape = (*new.shape[:2], wanted + max(LEAST_ROOM, wanted // 4), new.shape[3])
            room = torch.empty(shape, dtype=new.dtype, device=new.device)
            if rows:
                room[:, :, :rows] = held
            self._rooms[which] = room
        room[:, :, rows:wanted] = new
        return room[:, :, :wanted]


def let_grow(cache: Any) -> None:
    """Let the empty dynamic layers of a transformers cache append in place; other kinds are left alone."""
    if getattr(cache, "offloading", False):
        return
    if getattr(cache, "layer_class_to_replicate", None) is DynamicLayer:
        cache.layer_class_to_replicate = GrowingLayer
    for index, layer in enumerate(cache.layers):
        if type(layer) is DynamicLayer and not layer.is_initialized:
            cache.layers[index] = GrowingLayer()
