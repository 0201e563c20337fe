"""Counts what attention really reads of a slot cache, without asking anything that does the reading.

The stores of the cache are replaced by tensors that note every `narrow` and `index_select` on them and
refuse every other way of being read during a decode step.
"""

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import torch

from fastocr_core.kv_cache import SlotCache

_WITHOUT_DATA = {"view", "size", "dim", "stride", "unbind", "element_size", "numel", "index_copy_"}


class CountedRows(torch.Tensor):
    """Key or value rows; `counter` and `slot` (None: all slots) are set on the instance."""

    counter: "ReadCounter"
    part: str
    slot: int | None

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        store, name = args[0], getattr(func, "__name__", "")
        with torch._C.DisableTorchFunctionSubclass():
            out = func(*args, **(kwargs or {}))
        counter = getattr(store, "counter", None)
        if counter is None or not counter.stepping or name in _WITHOUT_DATA or name == "__get__":
            if isinstance(out, torch.Tensor) and counter is not None and name == "view":
                out = out.as_subclass(CountedRows)
                out.counter, out.part, out.slot = counter, store.part, store.slot
            return out
        counter.note(store, name, args[1:], kwargs or {})
        return out


class ReadCounter:
    """Rows read by slot and page step, keys and values together, image and text apart.

    `image[slot, step]` and `text[slot, step]` are totals over the layers; steps count from 1.
    """

    def __init__(self, cache: SlotCache) -> None:
        self.image: Counter[tuple[int, int]] = Counter()
        self.text: Counter[tuple[int, int]] = Counter()
        self.cache, self.stepping = cache, False
        for layer in cache.slot_layers:
            for name in ("image_keys", "image_values", "text_keys", "text_values"):
                setattr(layer, name, self._counted(getattr(layer, name), name, None))
            for part in ("image", "text"):
                slots = getattr(layer, f"{part}_of_slot")
                counted = [
                    tuple(self._counted(each, part, slot) for each in pair) for slot, pair in enumerate(slots)
                ]
                setattr(layer, f"{part}_of_slot", counted)
        begin_step, begin_prefill = cache.begin_step, cache.begin_prefill

        def step(call: object, live: Collection[int] | None = None) -> None:
            begin_step(call, live)
            self.stepping = True

        def prefill(*args: Any) -> None:
            self.stepping = False
            begin_prefill(*args)

        cache.begin_step, cache.begin_prefill = step, prefill  # type: ignore[method-assign]

    def note(self, store: CountedRows, name: str, args: Any, kwargs: Any) -> None:
        """One read."""
        counts = self.image if store.part.startswith("image") else self.text
        if name == "narrow" and store.slot is not None:
            axis, start, length = args
            assert (axis, start) == (1, 0)
            counts[store.slot, self._step_of(store.slot)] += store.size(0) * length
        elif name == "index_select":
            axis, rows = args
            assert axis == 0
            per_slot = store.size(0) // len(self.cache.slots)
            for slot, count in Counter((rows // per_slot).tolist()).items():
                counts[slot, self._step_of(slot)] += count
        else:
            raise AssertionError(f"the {store.part} store was read by {name}, which nobody counts")

    def _step_of(self, slot: int) -> int:
        return self.cache.held(slot).outputs

    def _counted(self, rows: torch.Tensor, part: str, slot: int | None) -> CountedRows:
        counted = rows.as_subclass(CountedRows)
        counted.counter, counted.part, counted.slot = self, part, slot
        return counted
