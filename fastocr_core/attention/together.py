"""The backend for many pages at once: all sparse slots of a step in a handful of products.

`gather` computes every slot alone, so that no page's numbers depend on its neighbours; with small models most of the time
goes into starting these small products. Here sparse slots are padded to one length and computed together, which
may move a last bit. For measurements, not for production runs; dense slots, which are bound by memory, go
the usual way.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fastocr_core.attention.base import Selection, Step
from fastocr_core.attention.gather import GatherAttention
from fastocr_core.kv_cache import SlotCache, SlotLayer


@dataclass(frozen=True, slots=True, eq=False)
class Picked:
    """Image rows of the sparse slots under one selection.

    `rows` are row numbers in the flattened image store, [slots * kv_heads * most]; a slot that keeps fewer than `most`
    repeats row 0 of its own.
    """

    selection: Selection
    slots: tuple[int, ...]
    kept: tuple[int, ...]
    rows: Tensor


class TogetherAttention(GatherAttention):
    """Fewer than two sparse slots are left to `gather`."""

    name = "together"

    def __init__(self) -> None:
        super().__init__()
        # By layer, since a policy may choose for each layer alone; `_newest` is shared by layers that are served alike.
        self._picked: dict[int, Picked] = {}
        self._newest: Picked | None = None
        # By layer: the rows of a selection that did not change since the last step need not be read again.
        self._copies: dict[int, tuple[Picked, Tensor, Tensor]] = {}
        self._bias: tuple[tuple[tuple[int, ...], tuple[int, ...]], Tensor] | None = None

    def cache_replaced(self) -> None:
        """Row numbers and copies belong to the old cache."""
        super().cache_replaced()
        self._newest = self._bias = None
        self._picked.clear()
        self._copies.clear()

    def attend(self, layer: int, query: Tensor, scaling: float, cache: SlotCache, step: Step) -> Tensor:
        """See `AttentionBackend.attend`, but for the last bit."""
        selection = step.policy.selection(layer)
        sparse = tuple(slot for slot in step.live if selection.sets[slot] is not None)
        if len(sparse) < 2:
            return super().attend(layer, query, scaling, cache, step)
        dense = tuple(slot for slot in step.live if selection.sets[slot] is None)
        output = super().attend(layer, query, scaling, cache, replace(step, live=dense))
        store = cache.slot_layers[layer]
        picked = self._rows_of(layer, selection, sparse, cache)
        text_rows = tuple(cache.text_rows(slot) for slot in sparse)
        image = self._image(layer, picked, store)
        text = store.text_keys[:, :, : max(text_rows)], store.text_values[:, :, : max(text_rows)]
        index = None if len(sparse) == len(query) else torch.tensor(sparse, device=query.device)
        bias = self._padding(picked, text_rows, image[0])
        found, attention = _attend(query[:, :, 0], scaling, image, text, index, bias)
        if index is None:
            output = found[:, None]
        else:
            output[index, 0] = found
        self._report(layer, picked, attention, cache, step)
        return output

    def _report(self, layer: int, picked: Picked, attention: Tensor, cache: SlotCache, step: Step) -> None:
        """Count rows, and hand `attention` [slots, kv_heads, group, rows] to whoever wants it."""
        kv_heads = attention.shape[1]
        for row, (slot, kept) in enumerate(zip(picked.slots, picked.kept, strict=True)):
            step.count(slot, kv_heads * kept, kv_heads * cache.held(slot).image_tokens)
            if step.wants(layer, slot):
                step.emit(layer, slot, attention[row, :, :, :kept])

    def _rows_of(self, layer: int, selection: Selection, sparse: tuple[int, ...], cache: SlotCache) -> Picked:
        for known in (self._picked.get(layer), self._newest):
            if known is not None and known.selection is selection and known.slots == sparse:
                self._picked[layer] = known
                return known
        sets = [chosen for slot in sparse if (chosen := selection.sets[slot]) is not None]
        kept = tuple(chosen.shape[1] for chosen in sets)
        most = max(kept)
        padded = torch.stack([_padded(chosen, most) for chosen in sets])  # [slots, kv_heads, most]
        kv_heads = padded.shape[1]
        heads = torch.arange(kv_heads, device=padded.device)
        slots = torch.tensor(sparse, device=padded.device)
        first = (slots[:, None] * kv_heads + heads) * cache.image_capacity  # [slots, kv_heads]
        picked = Picked(selection, sparse, kept, (padded + first[:, :, None]).flatten())
        self._newest = self._picked[layer] = picked
        return picked

    def _image(self, layer: int, picked: Picked, store: SlotLayer) -> tuple[Tensor, Tensor]:
        """Keys and values of the picked rows, each [slots * kv_heads, most, head_dim]."""
        known = self._copies.get(layer)
        if known is not None and known[0] is picked:
            return known[1], known[2]
        kv_heads, head_dim = store.image_keys.shape[1], store.image_keys.shape[3]
        shape = (len(picked.slots) * kv_heads, -1, head_dim)
        keys = store.image_keys.view(-1, head_dim).index_select(0, picked.rows).view(shape)
        values = store.image_values.view(-1, head_dim).index_select(0, picked.rows).view(shape)
        self.gathered_rows += len(picked.rows)
        self._copies[layer] = picked, keys, values
        return keys, values

    def _padding(self, picked: Picked, text_rows: tuple[int, ...], like: Tensor) -> Tensor | None:
        """-inf for rows that are only padding, [slots * kv_heads, 1, rows]; None where there are none."""
        if min(picked.kept) == max(picked.kept) and min(text_rows) == max(text_rows):
            return None
        key = (picked.kept, text_rows)
        if self._bias is None or self._bias[0] != key:
            kv_heads = len(like) // len(picked.slots)
            bias = torch.zeros(len(picked.slots), max(picked.kept) + max(text_rows), device=like.device)
            for row, (kept, text) in enumerate(zip(picked.kept, text_rows, strict=True)):
                bias[row, kept : max(picked.kept)] = -torch.inf
                bias[row, max(picked.kept) + text :] = -torch.inf
            self._bias = key, bias.repeat_interleave(kv_heads, 0)[:, None]
        return self._bias[1]


def _padded(chosen: Tensor, most: int) -> Tensor:
    """int64 [kv_heads, kept] -> [kv_heads, most]."""
    return torch.nn.functional.pad(chosen, (0, most - chosen.shape[1])) if chosen.shape[1] < most else chosen


def _attend(
    query: Tensor,
    scaling: float,
    image: tuple[Tensor, Tensor],
    text: tuple[Tensor, Tensor],
    index: Tensor | None,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """`query` [all slots, query_heads, head_dim] over text keys and values [all slots, kv_heads, rows, head_dim], which are
    read in place, and over image keys and values [slots * kv_heads, most, head_dim] of the slots in `index` (None for all).

    The output of these slots [slots, query_heads, head_dim], and the image part of their attention [slots, kv_heads,
    group, most], fp32 or better.
    """
    every, query_heads, head_dim = query.shape
    kv_heads, rows = text[0].shape[1], text[0].shape[2]
    half = query.dtype.itemsize <= 2
    grouped = (query if half else query * scaling).view(every, kv_heads, -1, head_dim)
    said = torch.bmm(grouped.flatten(0, 1), text[0].flatten(0, 1).transpose(1, 2)).view(
        every, kv_heads, -1, rows
    )
    if index is not None:
        grouped, said = grouped[index], said[index]
    slots = len(grouped)
    seen = torch.bmm(grouped.flatten(0, 1), image[0].transpose(1, 2))  # [slots * kv_heads, group, most]
    scores = torch.cat((seen, said.flatten(0, 1)), dim=2)
    if half:
        scores = scores.float().mul_(scaling)
    if bias is not None:
        scores += bias
    attention = scores.softmax(2)
    seen, said = attention.split_with_sizes((image[0].shape[1], rows), dim=2)
    output = torch.bmm(seen.to(query.dtype), image[1]).view(slots, query_heads, head_dim)
    weights = said.to(query.dtype).view(slots, kv_heads, -1, rows)
    if index is not None:
        weights = weights.new_zeros(every, *weights.shape[1:]).index_copy_(0, index, weights)
    added = torch.bmm(weights.flatten(0, 1), text[1].flatten(0, 1)).view(every, query_heads, head_dim)
    output = output + (added if index is None else added[index])
    return output, seen.view(slots, kv_heads, -1, seen.shape[2])
