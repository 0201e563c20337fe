"""One run of transformers' `generate()` under sparse decoding: where the image is, and what each row looks
at.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fastocr_core.attention.base import ReadCount
from fastocr_core.attention.cached_rows import attend_all, attend_chosen
from fastocr_core.config import DecodePolicy
from fastocr_core.decoding.fastocr import FastOcrPolicy


@dataclass(frozen=True, slots=True)
class Plan:
    """What is decided once for a model."""

    settings: DecodePolicy
    focal_layers: tuple[int, ...]
    layers: int
    image_id: int


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """Cached entries of one row of the batch up to the end of its prompt: `image` and `text` are their
    numbers (int64), `visible` is bool [entries] or None where nothing is padding.
    """

    image: Tensor
    text: Tensor
    visible: Tensor | None


class Generation:
    """State of the rows of one batch and one cache. Not thread-safe, as `generate` itself.

    `steps` counts decode steps, `gathered_rows` image rows that were picked out of the cache.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.reads = ReadCount()
        self.stepping = False
        self.steps = self.gathered_rows = 0
        self._is_image: Tensor | None = None  # bool [B, entries]
        self._rows: list[Row] = []
        self._live: tuple[int, ...] = ()
        self._prompt_entries = self._entries = 0
        self._policy = self._new_policy(0)

    def take_prompt(self, ids: Tensor, cached: int, mask: Tensor | None) -> None:
        """A prompt or a piece of one, `ids` [B, T] after `cached` entries; `mask` [B, cached + T] is 0 for
        padding. What was decided for an earlier prompt is decided anew.
        """
        image = ids == self.plan.image_id
        if self._is_image is None:
            before = image.new_zeros(len(ids), cached)
        else:
            # entries undone since are forgotten, entries generated since are text
            before = self._is_image[:, :cached]
            before = torch.cat((before, image.new_zeros(len(ids), cached - before.shape[1])), dim=1)
        self._is_image = torch.cat((before, image), dim=1)
        entries = self._is_image.shape[1]
        visible = None if mask is None or bool(mask[:, :entries].all()) else mask[:, :entries].bool()
        self._rows = [
            self._row(flags, None if visible is None else visible[row])
            for row, flags in enumerate(self._is_image)
        ]
        self._policy = self._new_policy(len(ids))
        self._live = tuple(row for row, entry in enumerate(self._rows) if len(entry.image))
        for row in self._live:
            self._policy.admit(row, len(self._rows[row].image))
        self._prompt_entries = self._entries = entries
        self.stepping = False

    def begin_step(self, cached: int) -> None:
        """A step that appends to `cached` entries. A step that was undone is not counted again."""
        self.stepping = True
        if cached + 1 > self._entries:
            self.steps += 1
            self._policy.before_step(self._live)
        self._entries = cached + 1

    def attend(
        self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float
    ) -> Tensor | None:
        """One layer of a step: query [B, query_heads, 1, head_dim] over keys and values [B, kv_heads, rows,
        head_dim]; [B, 1, query_heads, head_dim], or None where all rows are dense and unwatched.

        A layer with a window keeps the prompt whole and fewer entries after it.
        """
        sets = self._policy.selection(layer).sets
        watched = [row for row in self._live if self._policy.wants_scores(layer, row)]
        _, heads, _, head_dim = query.shape
        kv_heads = keys.shape[1]
        for row in self._live:
            self._count(row, sets[row], kv_heads)
        if not watched and all(chosen is None for chosen in sets):
            return None
        end = min(keys.shape[2], self._entries)
        outputs = []
        for row, entry in enumerate(self._rows):
            grouped = query[row].view(kv_heads, heads // kv_heads, head_dim)
            key, value = keys[row, :, :end], values[row, :, :end]
            chosen = sets[row]
            if chosen is None:
                output, attention = attend_all(grouped, key, value, scaling, self._visible(entry, end))
                image = attention[:, :, entry.image] if row in watched else attention
            else:
                text = entry.text.expand(kv_heads, -1)
                index = torch.cat((entry.image[chosen], text), dim=1)
                output, attention = attend_chosen(grouped, key, value, scaling, index, self._prompt_entries)
                image = attention[:, :, : chosen.shape[1]]
                self.gathered_rows += chosen.numel()
            if row in watched:
                self._policy.take_scores(layer, row, image)
            outputs.append(output.reshape(1, heads, head_dim))
        return torch.stack(outputs)

    def _count(self, row: int, chosen: Tensor | None, kv_heads: int) -> None:
        if not self._policy.warming_up(row):
            cached = kv_heads * len(self._rows[row].image)
            self.reads.cached += cached
            self.reads.read += cached if chosen is None else chosen.numel()

    def _visible(self, entry: Row, end: int) -> Tensor | None:
        """Bool [end]: the prompt without its padding, and all that came after it."""
        if entry.visible is None:
            return None
        after = entry.visible.new_ones(end - len(entry.visible))
        return torch.cat((entry.visible, after))

    def _new_policy(self, rows: int) -> FastOcrPolicy:
        plan, settings = self.plan, self.plan.settings
        floor = settings.floor or 1
        return FastOcrPolicy(
            rows, settings, plan.focal_layers, floor, plan.layers, settings.pooling or "kv_max"
        )

    @staticmethod
    def _row(is_image: Tensor, visible: Tensor | None) -> Row:
        text = ~is_image if visible is None else ~is_image & visible
        return Row(is_image.nonzero().flatten(), text.nonzero().flatten(), visible)
