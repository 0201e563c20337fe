"""The `triton` backend: gathers the selected image rows inside the kernel, for CUDA devices.

Nothing is copied out of the cache, and nothing waits for the device within a step: lengths are sent once per
step, sets once per selection. Without a GPU it runs only in triton's interpreter, for tests.
"""

import torch
from torch import Tensor

from fastocr_core.attention.base import AttentionBackend, Selection, Step
from fastocr_core.kv_cache import SlotCache

try:
    from fastocr_core.attention import split_attention as split
except ModuleNotFoundError as failure:  # said when the backend is asked for, not when it is listed
    if (failure.name or "").split(".")[0] != "triton":
        raise
    split = None  # type: ignore[assignment]

MISSING = "the backend `triton` needs the package triton, which is not installed here; use `gather`"
_PROCESSORS_OF_A_CPU = 8  # in the interpreter: enough for several splits


class TritonAttention(AttentionBackend):
    """Split-K attention over image and text in one launch, merged by log-sum-exp in a second.

    RuntimeError where triton is missing. `gathered_rows` counts the image rows read through sets.
    """

    name = "triton"

    def __init__(self) -> None:
        if split is None:
            raise RuntimeError(MISSING)
        self.gathered_rows = 0
        self._plans: dict[tuple[int, ...], split.SplitPlan] = {}
        self._lengths: tuple[Step, Tensor] | None = None
        self._sets: tuple[Selection, tuple[int, ...], split.RowSets] | None = None

    def cache_replaced(self) -> None:
        """Lengths and padded sets are those of the old cache."""
        self._lengths = self._sets = None

    def attend(self, layer: int, query: Tensor, scaling: float, cache: SlotCache, step: Step) -> Tensor:
        """See `AttentionBackend.attend`. Image attention is handed on in fp32."""
        if split.needs_cuda() and not query.is_cuda:
            raise RuntimeError(
                f"the backend `triton` needs a CUDA device, the model is on {query.device}; use `gather`"
            )
        slots, query_heads, _, head_dim = query.shape
        store = cache.slot_layers[layer]
        kv_heads = store.image_keys.shape[1]
        selection = step.policy.selection(layer)
        lengths = self._lengths_of(step, cache, query.device)  # [2, slots]
        wanting = [slot for slot in step.live if step.wants(layer, slot)]
        attended = split.split_attention(
            query[:, :, 0],
            scaling,
            split.CachedRows(
                store.image_keys,
                store.image_values,
                store.text_keys,
                store.text_values,
                lengths[0],
                lengths[1],
            ),
            self._sets_of(selection, step.live, cache, kv_heads, query.device),
            self._plan(slots, kv_heads, cache, query.device),
            scores="heads" if wanting else "none",
        )
        self._count(selection, step, kv_heads, cache)
        for slot in wanting:
            assert attended.scores is not None
            chosen = selection.sets[slot]
            seen = cache.held(slot).image_tokens if chosen is None else chosen.shape[1]
            logarithm = attended.scores[slot, :, :seen] - attended.normaliser[slot, :, None]
            step.emit(layer, slot, logarithm.exp2().view(kv_heads, query_heads // kv_heads, seen))
        return attended.output.view(slots, 1, query_heads, head_dim)

    def _count(self, selection: Selection, step: Step, kv_heads: int, cache: SlotCache) -> None:
        """Rows by the sizes of the sets, which the host knows."""
        for slot in step.live:
            chosen, cached = selection.sets[slot], kv_heads * cache.held(slot).image_tokens
            read = cached if chosen is None else chosen.numel()
            self.gathered_rows += 0 if chosen is None else read
            step.count(slot, read, cached)

    def _lengths_of(self, step: Step, cache: SlotCache, device: torch.device) -> Tensor:
        """Image and visible text rows of every slot, int32 [2, slots]; zero where no page goes on."""
        if self._lengths is None or self._lengths[0] is not step:
            rows = [[0] * len(cache.slots), [0] * len(cache.slots)]
            for slot in step.live:
                rows[0][slot], rows[1][slot] = cache.held(slot).image_tokens, cache.text_rows(slot)
            self._lengths = step, _sent(rows, device)
        return self._lengths[1]

    def _sets_of(
        self,
        selection: Selection,
        live: tuple[int, ...],
        cache: SlotCache,
        kv_heads: int,
        device: torch.device,
    ) -> "split.RowSets":
        """The sets padded to one tensor; layers between two focal layers share a selection."""
        if self._sets is not None and self._sets[0] is selection and self._sets[1] == live:
            return self._sets[2]
        kept = [-1] * len(cache.slots)
        shape = (len(cache.slots), kv_heads, cache.image_capacity)
        rows = torch.empty(shape, dtype=torch.int32, device=device)
        for slot in live:
            chosen = selection.sets[slot]
            if chosen is not None:
                kept[slot] = chosen.shape[1]
                rows[slot, :, : chosen.shape[1]] = chosen
        sets = split.RowSets(rows, _sent(kept, device))
        self._sets = selection, live, sets
        return sets

    def _plan(self, slots: int, kv_heads: int, cache: SlotCache, device: torch.device) -> "split.SplitPlan":
        """By capacities, not by what the slots hold: see `plan_splits`."""
        text_capacity = cache.slot_layers[0].text_keys.shape[2]
        key = (slots, kv_heads, cache.image_capacity, text_capacity)
        if key not in self._plans:
            processors = _PROCESSORS_OF_A_CPU
            if device.type == "cuda":
                processors = torch.cuda.get_device_properties(device).multi_processor_count
            self._plans[key] = split.plan_splits(*key, processors)
        return self._plans[key]


def _sent(numbers: list[int] | list[list[int]], device: torch.device) -> Tensor:
    """int32 on the device, without waiting for it."""
    held = torch.tensor(numbers, dtype=torch.int32)
    if device.type == "cuda":
        return held.pin_memory().to(device, non_blocking=True)
    return held
