"""The static cache of the engine: one slot per page being decoded.

Per layer and slot, the image rows of keys and values lie apart from the text rows. Both are stored heads
first, [slots, kv_heads, tokens, head_dim]: a head's rows are contiguous for the dense kernel, and one
(head, token) row is one contiguous piece for the gather. On a CPU this order made dense attention three
times as fast as tokens first.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from fastocr_core.models.base import DecoderShape, PromptLayout

STEP_KEY = "slot_step"


class SlotLayer(CacheLayerMixin):  # type: ignore[misc]
    """Keys and values of one decoder layer for all slots."""

    is_sliding = False

    def __init__(
        self, shape: DecoderShape, slots: int, image_capacity: int, text_capacity: int, like: Tensor
    ) -> None:
        super().__init__()
        image = (slots, shape.kv_heads, image_capacity, shape.head_dim)
        text = (slots, shape.kv_heads, text_capacity, shape.head_dim)
        self.image_keys, self.image_values = like.new_zeros(image), like.new_zeros(image)
        self.text_keys, self.text_values = like.new_zeros(text), like.new_zeros(text)
        # Views of single slots, made once: a step takes hundreds of them.
        self.image_of_slot = list(zip(self.image_keys.unbind(0), self.image_values.unbind(0), strict=True))
        self.text_of_slot = list(zip(self.text_keys.unbind(0), self.text_values.unbind(0), strict=True))
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: everything is allocated at once."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Rows are written by `SlotCache.update`, which knows the slots."""
        raise RuntimeError("a slot layer is written through its SlotCache")

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """The engine's attention needs no mask from transformers."""
        return query_length, 0

    def get_seq_length(self) -> int:
        """Positions always come from the engine, never from a common length."""
        return 0

    def get_max_length(self) -> int:
        """Image and text capacity of one slot."""
        return int(self.image_keys.shape[2] + self.text_keys.shape[2])


@dataclass(slots=True)
class Slot:
    """What a slot holds: `image_tokens` image rows, `prompt_tokens` text rows of the prompt, `outputs` fed
    so far.
    """

    image_tokens: int
    prompt_tokens: int
    outputs: int = 0


class SlotCache(Cache):  # type: ignore[misc]
    """Slots with their rows; `update` writes either a piece of one page's prompt or one row of every slot.

    Output number i of a slot is stored at text row `prompt_tokens + i % text_window`: the text part is a
    ring when there is a window, and rows never move. Order does not matter to attention, since rotary
    positions are in the keys.
    """

    def __init__(
        self,
        shape: DecoderShape,
        slots: int,
        image_capacity: int,
        prompt_capacity: int,
        output_capacity: int,
        text_window: int | None,
        like: Tensor,
    ) -> None:
        self.window = min(text_window or output_capacity, output_capacity)
        self.image_capacity, self.prompt_capacity = image_capacity, prompt_capacity
        text_capacity = prompt_capacity + self.window
        self.slot_layers = [
            SlotLayer(shape, slots, image_capacity, text_capacity, like) for _ in range(shape.layers)
        ]
        super().__init__(layers=self.slot_layers)
        self.slots: list[Slot | None] = [None] * slots
        # First flattened text row of every slot and head, [slots, kv_heads].
        self._first_rows = (
            torch.arange(slots * shape.kv_heads, device=like.device).view(slots, -1) * text_capacity
        )
        self._prefill: tuple[int, PromptLayout, int] | None = None
        self._write_rows: Tensor | None = None
        self._step: object = None

    def allocate(self, layout: PromptLayout) -> int:
        """Take the lowest free slot for a page. ValueError if the page does not fit, IndexError if none is
        free.
        """
        if layout.image_tokens > self.image_capacity:
            raise ValueError(f"{layout.image_tokens} image tokens exceed the slot's {self.image_capacity}")
        if len(layout.ids) > self.prompt_capacity:
            raise ValueError(
                f"a prompt of {len(layout.ids)} tokens exceeds the slot's {self.prompt_capacity}"
            )
        index = next(index for index, slot in enumerate(self.slots) if slot is None)
        self.slots[index] = Slot(layout.image_tokens, len(layout.ids))
        return index

    def free(self, index: int) -> None:
        """Give a slot back; its rows are overwritten by the next page."""
        self.slots[index] = None

    @property
    def free_slots(self) -> int:
        """How many pages could be taken in now."""
        return sum(slot is None for slot in self.slots)

    def held(self, index: int) -> Slot:
        """The page in a slot that must be taken."""
        slot = self.slots[index]
        assert slot is not None, f"slot {index} is empty"
        return slot

    def text_rows(self, index: int) -> int:
        """Visible text rows of a slot: the prompt and the outputs within the window."""
        slot = self.held(index)
        return slot.prompt_tokens + min(slot.outputs, self.window)

    def bytes_in_use(self) -> int:
        """Bytes of the keys and values of all pages held now; what is allocated is more. Any thread may ask."""
        rows = 0
        for slot in list(self.slots):
            if slot is not None:
                rows += slot.image_tokens + slot.prompt_tokens + min(slot.outputs, self.window)
        keys = self.slot_layers[0].image_keys  # [slots, kv_heads, image capacity, head_dim]
        row_bytes = 2 * keys.shape[1] * keys.shape[3] * keys.element_size()
        return rows * row_bytes * len(self.slot_layers)

    def begin_prefill(self, index: int, layout: PromptLayout, step: object, first_row: int = 0) -> None:
        """The next forward is a piece of one page's prompt, [1, T], from entry `first_row` on; `step` reaches
        the attention function.
        """
        self._prefill, self._step = (index, layout, first_row), step

    def begin_step(self, step: object, live: Collection[int] | None = None) -> None:
        """The next forward is one token per slot, [slots, 1].

        Only `live` slots go on (None: every slot that holds a page). The others write to the row of their
        first output, which that output overwrites before anyone reads it.
        """
        rows = []
        for index, slot in enumerate(self.slots):
            if slot is None:
                rows.append(0)
            elif live is not None and index not in live:
                rows.append(slot.prompt_tokens)
            else:
                rows.append(slot.prompt_tokens + slot.outputs % self.window)
                slot.outputs += 1
        written = torch.tensor(rows, device=self._first_rows.device)[:, None]
        self._write_rows = (self._first_rows + written).flatten()  # [slots * kv_heads]
        self._prefill, self._step = None, step

    def end_forward(self) -> None:
        """The forward that was begun is over, or failed. What it was about points back to this cache: kept, the two would
        hold hundreds of megabytes until garbage is collected, which nobody does on account of memory.
        """
        self._step = None

    def step_keywords(self) -> dict[str, object]:
        """The running step as keyword arguments, which a decoder hands down to its attention function."""
        return {STEP_KEY: self._step}

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Store new keys and values, [1, kv_heads, T, head_dim] or [slots, kv_heads, 1, head_dim].

        Returns, for a piece of a prompt, all entries of the page so far in prompt order; for a step, what was
        given. `kwargs["kwargs"]` is the live dict of the attention module; what is put there arrives at the
        attention function, which is how it learns about the step. Before transformers 5.24 there is no such
        dict: the caller of the decoder passes `step_keywords` along.
        """
        if "kwargs" in kwargs:
            kwargs["kwargs"][STEP_KEY] = self._step
        layer = self.slot_layers[layer_idx]
        if self._prefill is not None:
            keys = self._store_prompt(layer.image_keys, layer.text_keys, key_states)
            return keys, self._store_prompt(layer.image_values, layer.text_values, value_states)
        assert self._write_rows is not None, "no step has begun"
        for text, new in ((layer.text_keys, key_states), (layer.text_values, value_states)):
            head_dim = new.shape[3]
            text.view(-1, head_dim).index_copy_(0, self._write_rows, new.reshape(-1, head_dim))
        return key_states, value_states

    def _store_prompt(self, image: Tensor, text: Tensor, new: Tensor) -> Tensor:
        """Store a piece of a prompt, [1, kv_heads, T, head_dim], in `image` and `text`; the entries so far."""
        assert self._prefill is not None
        index, layout, first = self._prefill
        rows, last = new[0], first + new.shape[2]
        for begin, end, store, row in _parts(layout, last):
            begin_new = max(begin, first)
            if begin_new < end:
                start = row + begin_new - begin
                store_rows = (image if store == "image" else text)[index, :, start : row + end - begin]
                store_rows.copy_(rows[:, begin_new - first : end - first])
        if first == 0:
            return new
        pieces = [
            (image if store == "image" else text)[index, :, row : row + end - begin]
            for begin, end, store, row in _parts(layout, last)
        ]
        return torch.cat(pieces, dim=1)[None]


def _parts(layout: PromptLayout, last: int) -> list[tuple[int, int, str, int]]:
    """The first `last` entries of a prompt: begin, end, where they are stored, and from which row on."""
    image, after = layout.image_start, layout.image_start + layout.image_tokens
    whole = ((0, image, "text", 0), (image, after, "image", 0), (after, last, "text", image))
    return [(begin, min(end, last), store, row) for begin, end, store, row in whole if begin < min(end, last)]
