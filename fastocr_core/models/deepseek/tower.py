"""The vision side: views of one page through SAM, CLIP and the projector, and their tokens in order.

Views are encoded one at a time on a CPU (a batch gains nothing there and holds large attention maps), in
groups on a GPU. Byte-identical tiles of a page are encoded once.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fastocr_core.models.base import ImageEncoding
from fastocr_core.vision.deepseek_tiles import TokenOrder

_VIEWS_AT_ONCE = 16


class PageTower:
    """Encodes pages with the vision part of transformers' `UnlimitedOcrModel`. `views` and `reused_views`
    count what was asked for and what was answered without encoding.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model: Any = model
        self.views = 0
        self.reused_views = 0

    def encode(self, views: Sequence[NDArray[np.uint8]], order: TokenOrder) -> Tensor:
        """Image tokens [image_tokens, hidden], from uint8 views [side, side, 3], tiles first."""
        cells, _, _ = self._cells(views, scored=False)
        return self._ordered(cells, self._model.image_newline, self._model.view_separator, order)

    def encode_scored(self, views: Sequence[NDArray[np.uint8]], order: TokenOrder) -> ImageEncoding:
        """The same with what the last CLIP block gives: attention received, averaged over heads and the
        queries of the view, and keys [image_tokens, head_dim]. Both are 0 for newlines and the separator.
        """
        cells, received, keys = self._cells(views, scored=True)
        nothing = keys.new_zeros(keys.shape[1])
        return ImageEncoding(
            self._ordered(cells, self._model.image_newline, self._model.view_separator, order),
            self._ordered(received[:, None], nothing[:1], nothing[:1], order)[:, 0],
            self._ordered(keys, nothing, nothing, order),
        )

    def _ordered(self, cells: Tensor, newline: Tensor, separator: Tensor, order: TokenOrder) -> Tensor:
        """[cells of all views, d] -> [image_tokens, d]."""
        sources = torch.from_numpy(order.sources()).to(cells.device)
        return torch.cat((cells, newline[None], separator[None])).index_select(0, sources)

    def _cells(self, views: Sequence[NDArray[np.uint8]], scored: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Of all cells, view after view: features [cells, hidden], attention received [cells], keys
        [cells, head_dim]; the last two are empty unless `scored`.
        """
        distinct: dict[tuple[int, bytes], NDArray[np.uint8]] = {}
        wanted = [(view.shape[0], view.tobytes()) for view in views]
        for name, view in zip(wanted, views, strict=True):
            distinct.setdefault(name, view)
        self.views += len(views)
        self.reused_views += len(views) - len(distinct)
        results: dict[tuple[int, bytes], tuple[Tensor, Tensor, Tensor]] = {}
        for side in {view.shape[0] for view in views}:
            names = [name for name in distinct if name[0] == side]
            at_once = 1 if self._device.type == "cpu" else _VIEWS_AT_ONCE
            for first in range(0, len(names), at_once):
                group = names[first : first + at_once]
                encoded = self._encoded([distinct[name] for name in group], scored)
                results |= dict(zip(group, zip(*encoded, strict=True), strict=True))
        features, received, keys = zip(*(results[name] for name in wanted), strict=True)
        return torch.cat(features), torch.cat(received), torch.cat(keys)

    def _encoded(self, views: Sequence[NDArray[np.uint8]], scored: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Views of one size: [views, cells, hidden], [views, cells], [views, cells, head_dim]."""
        pixels = torch.from_numpy(np.stack(views)).to(self._device).permute(0, 3, 1, 2)
        normalised = ((pixels.float() / 255 - 0.5) / 0.5).to(self._model.image_newline.dtype)
        attention = self._model.vision_tower.vision_encoder.encoder.layers[-1].self_attn
        inputs: list[Tensor] = []
        watch = attention.register_forward_pre_hook(
            lambda _, __, named: inputs.append(named["hidden_states"]), with_kwargs=True
        )
        try:
            joined = self._model.vision_tower(normalised).last_hidden_state  # [views, cells, CLIP + SAM]
        finally:
            watch.remove()
        features = self._model.multi_modal_projector(joined)
        if scored:
            return features, *_last_attention(attention, inputs[0])
        empty = features.new_zeros(len(views), 0)
        return features, empty, empty[..., None]

    @property
    def _device(self) -> torch.device:
        device: torch.device = self._model.image_newline.device
        return device


def _last_attention(attention: Any, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Attention received and mean key of every cell from the input [views, 1 + cells, d] of an attention
    block; the class token looks too, but is no cell.
    """
    shape = (*hidden.shape[:2], attention.num_heads, attention.head_dim)
    query = attention.q_proj(hidden).view(shape).transpose(1, 2)  # [views, heads, 1 + cells, head_dim]
    key = attention.k_proj(hidden).view(shape).transpose(1, 2)
    scores = (query.float() @ key.float().transpose(2, 3)) * attention.scale
    received = scores.softmax(-1).mean((1, 2))[:, 1:]  # [views, cells]
    return received, key.float().mean(1)[:, 1:]
