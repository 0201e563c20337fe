"""The masked reference: slow, written for being obviously right. The oracle of every other backend.

Everything cached is read; what the selection leaves out is masked.
"""

import torch
from torch import Tensor

from fastocr_core.attention.base import AttentionBackend, Step
from fastocr_core.kv_cache import SlotCache


class MaskedAttention(AttentionBackend):
    """Dense attention over image and text rows under a boolean mask."""

    name = "masked"

    def attend(self, layer: int, query: Tensor, scaling: float, cache: SlotCache, step: Step) -> Tensor:
        """See `AttentionBackend.attend`. Counts the rows that the mask lets through."""
        slots, query_heads, _, head_dim = query.shape
        store = cache.slot_layers[layer]
        kv_heads = store.image_keys.shape[1]
        output = query.new_zeros(slots, 1, query_heads, head_dim)
        chosen_sets = step.policy.selection(layer).sets
        for slot in step.live:
            image_tokens, text = cache.held(slot).image_tokens, cache.text_rows(slot)
            keys = torch.cat((store.image_keys[slot, :, :image_tokens], store.text_keys[slot, :, :text]), 1)
            values = torch.cat(
                (store.image_values[slot, :, :image_tokens], store.text_values[slot, :, :text]), 1
            )
            allowed = torch.ones(keys.shape[:2], dtype=torch.bool, device=keys.device)  # [kv_heads, rows]
            chosen = chosen_sets[slot]
            if chosen is not None:
                allowed[:, :image_tokens] = False
                allowed.scatter_(1, chosen, True)
            group = query_heads // kv_heads
            probabilities = []
            for head in range(query_heads):
                scores = keys[head // group] @ query[slot, head, 0] * scaling  # [rows]
                probability = scores.masked_fill(~allowed[head // group], -torch.inf).softmax(0)
                output[slot, 0, head] = probability @ values[head // group]
                probabilities.append(probability[:image_tokens])
            step.count(slot, int(allowed[:, :image_tokens].sum()), kv_heads * image_tokens)
            if step.wants(layer, slot):
                image = torch.stack(probabilities).view(kv_heads, group, image_tokens)
                if chosen is not None:
                    image = image.gather(2, chosen[:, None].expand(-1, group, -1))
                step.emit(layer, slot, image)
        return output
