"""The gather backend in plain torch: reads only the selected image rows.

Every slot is computed alone, in shapes that follow from its own lengths, so a page's numbers cannot depend
on its neighbours. The query heads of a group are the rows of one matrix product per KV head: keys and values
are read once, never repeated. Image and text scores are joined before one softmax in fp32: cheaper here than
merging two partial softmaxes, and the same by definition.
"""

import torch
from torch import Tensor

from fastocr_core.attention.base import AttentionBackend, Selection, Step
from fastocr_core.kv_cache import SlotCache, SlotLayer


class GatherAttention(AttentionBackend):
    """Dense slots read their image rows in place, sparse slots gather them with one index_select per layer.

    `gathered_rows` counts the image rows that went through the gather path since the start.
    """

    name = "gather"

    def __init__(self) -> None:
        self.gathered_rows = 0
        # Row numbers of the newest selection: layers between two focal layers share it.
        self._flat_of: tuple[Selection, tuple[int, ...]] | None = None
        self._flat_rows: Tensor | None = None

    def cache_replaced(self) -> None:
        """Row numbers depend on the cache's capacity."""
        self._flat_of = self._flat_rows = None

    def attend(self, layer: int, query: Tensor, scaling: float, cache: SlotCache, step: Step) -> Tensor:
        """See `AttentionBackend.attend`. Image attention is handed on in fp32 or better."""
        slots, query_heads, _, head_dim = query.shape
        store = cache.slot_layers[layer]
        kv_heads = store.image_keys.shape[1]
        # In half precision a scaled query would be rounded once more; there the scores are scaled, in fp32.
        scaled = query * scaling if query.dtype.itemsize > 2 else query
        grouped = scaled.view(slots, kv_heads, query_heads // kv_heads, head_dim).unbind(0)
        gathered = self._gather(step.policy.selection(layer), step.live, store, cache)
        outputs = [torch.zeros_like(grouped[0])] * slots
        for slot in step.live:
            image_tokens = cache.held(slot).image_tokens
            if slot in gathered:
                keys, values = gathered[slot]  # [kv_heads, kept, head_dim]
            else:
                keys, values = store.image_of_slot[slot]
                keys, values = keys.narrow(1, 0, image_tokens), values.narrow(1, 0, image_tokens)
            text = cache.text_rows(slot)
            text_keys, text_values = store.text_of_slot[slot]
            outputs[slot], image = _attend_parts(
                grouped[slot],
                scaling,
                (keys, values),
                (text_keys.narrow(1, 0, text), text_values.narrow(1, 0, text)),
            )
            step.count(slot, kv_heads * keys.shape[1], kv_heads * image_tokens)
            if step.wants(layer, slot):
                step.emit(layer, slot, image)
        return torch.stack(outputs).view(slots, 1, query_heads, head_dim)

    def _gather(
        self, selection: Selection, live: tuple[int, ...], store: SlotLayer, cache: SlotCache
    ) -> dict[int, tuple[Tensor, Tensor]]:
        """Selected image rows by live slot: keys and values, each [kv_heads, kept, head_dim]."""
        sparse = [(slot, chosen) for slot in live if (chosen := selection.sets[slot]) is not None]
        if not sparse:
            return {}
        if self._flat_of is None or self._flat_of[0] is not selection or self._flat_of[1] != live:
            self._flat_rows = _flat_rows(sparse, cache.image_capacity)
            self._flat_of = selection, live
        assert self._flat_rows is not None
        head_dim = store.image_keys.shape[3]
        keys = store.image_keys.view(-1, head_dim).index_select(0, self._flat_rows)
        values = store.image_values.view(-1, head_dim).index_select(0, self._flat_rows)
        self.gathered_rows += len(keys)
        sizes = [chosen.numel() for _, chosen in sparse]
        pieces = zip(sparse, keys.split_with_sizes(sizes), values.split_with_sizes(sizes), strict=True)
        return {
            slot: (key.view(*chosen.shape, head_dim), value.view(*chosen.shape, head_dim))
            for (slot, chosen), key, value in pieces
        }


def _flat_rows(sparse: list[tuple[int, Tensor]], image_capacity: int) -> Tensor:
    """Row numbers in the flattened image store [slots * kv_heads * image_capacity, head_dim]."""
    kv_heads = sparse[0][1].shape[0]
    heads = torch.arange(kv_heads, device=sparse[0][1].device)[:, None] * image_capacity  # [kv_heads, 1]
    return torch.cat(
        [(chosen + heads + slot * kv_heads * image_capacity).flatten() for slot, chosen in sparse]
    )


def _attend_parts(
    query: Tensor, scaling: float, image: tuple[Tensor, Tensor], text: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """One slot: query [kv_heads, group, head_dim] over keys and values of both parts, each [kv_heads, rows,
    head_dim]; scaled already unless in half precision.

    Returns the output [kv_heads, group, head_dim] and the image part of the attention, [kv_heads, group,
    image rows], in fp32 or better.
    """
    image_keys, image_values = image
    text_keys, text_values = text
    image_scores = torch.bmm(query, image_keys.transpose(1, 2))  # [kv_heads, group, image rows]
    text_scores = torch.bmm(query, text_keys.transpose(1, 2))  # [kv_heads, group, text rows]
    scores = torch.cat((image_scores, text_scores), dim=2)
    if scores.dtype.itemsize <= 2:
        scores = scores.float().mul_(scaling)
    attention = scores.softmax(dim=2)
    seen, said = attention.split_with_sizes((image_keys.shape[1], text_keys.shape[1]), dim=2)
    output = torch.bmm(seen.to(query.dtype), image_values)
    return torch.baddbmm(output, said.to(query.dtype), text_values), seen
