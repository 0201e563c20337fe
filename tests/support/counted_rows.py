"""Counts what attention really reads of a slot cache, without asking anything that does the reading.

The stores of the cache are replaced by tensors that note every `narrow` and `index_select` on them and
refuse every other way of being read during a decode step.
"""

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import torch

from fastocr_core.kv_cache import SlotCache
from fastocr_core.models.base import PromptLayout

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
    """Rows read by page and page step, keys and values together, image and text apart.

    `image[page, step]` and `text[page, step]` are totals over the layers. Pages count from 0 in the order in
    which they were taken in, which is the order of submission: a page that ends before the next one comes leaves
    its slot to that one, so slots tell no pages apart. Steps count from 1.
    """

    def __init__(self, cache: SlotCache) -> None:
        self.image: Counter[tuple[int, int]] = Counter()
        self.text: Counter[tuple[int, int]] = Counter()
        self.cache, self.stepping = cache, False
        self._pages = 0
        self._page_in: dict[int, int] = {}  # by slot
        for layer in cache.slot_layers:
            for name in ("image_keys", "image_values", "text_keys", "text_values"):
                setattr(layer, name, self._counted(getattr(layer, name), name, None))
            for part in ("image", "text"):
                slots = getattr(layer, f"{part}_of_slot")
                counted = [
                    tuple(self._counted(each, part, slot) for each in pair) for slot, pair in enumerate(slots)
                ]
                setattr(layer, f"{part}_of_slot", counted)
        begin_step, begin_prefill, allocate = cache.begin_step, cache.begin_prefill, cache.allocate

        def take_in(layout: PromptLayout) -> int:
            slot = allocate(layout)
            self._page_in[slot] = self._pages
            self._pages += 1
            return slot

        def step(call: object, live: Collection[int] | None = None) -> None:
            begin_step(call, live)
            self.stepping = True

        def prefill(*args: Any) -> None:
            self.stepping = False
            begin_prefill(*args)

        cache.begin_step, cache.begin_prefill, cache.allocate = step, prefill, take_in  # type: ignore[method-assign]

    def note(self, store: CountedRows, name: str, args: Any, kwargs: Any) -> None:
        """One read."""
        counts = self.image if store.part.startswith("image") else self.text
        if name == "narrow" and store.slot is not None:
            axis, start, length = args
            assert (axis, start) == (1, 0)
            counts[self._step_of(store.slot)] += store.size(0) * length
        elif name == "index_select":
            axis, rows = args
            assert axis == 0
            per_slot = store.size(0) // len(self.cache.slots)
            for slot, count in Counter((rows // per_slot).tolist()).items():
                counts[self._step_of(slot)] += count
        else:
            raise AssertionError(f"the {store.part} store was read by {name}, which nobody counts")

    def _step_of(self, slot: int) -> tuple[int, int]:
        """Page and step of what a slot holds now."""
        return self._page_in[slot], self.cache.held(slot).outputs

    def _counted(self, rows: torch.Tensor, part: str, slot: int | None) -> CountedRows:
        counted = rows.as_subclass(CountedRows)
        counted.counter, counted.part, counted.slot = self, part, slot
        return counted
