"""SnapKV (arXiv 2404.14469) on image tokens: the last prompt rows vote, votes are smoothed, the rest goes.

The votes of the last `window` prompt rows are their softmax, summed over the rows. Image tokens inside the
window compete like all others: "the window is kept" of the original is "text is kept" here. Variants: `1d`
averages votes along the token order as published, which on a raster smooths sideways only; `2d` averages
over the grid.
"""

from torch import Tensor
from torch.nn.functional import avg_pool1d, avg_pool2d

from fastocr_core.config import DecodePolicy
from fastocr_core.decoding.base import ImageGrid, Policy, PrefillView
from fastocr_core.decoding.eviction import EvictionPolicy, SlotSets, summed_votes
from fastocr_core.decoding.prompt_attention import image_attention
from fastocr_core.models.base import ModelAdapter


class SnapKvPolicy(EvictionPolicy):
    """Static sets, chosen at the end of the prompt."""

    def votes_of(self, layer: int, view: PrefillView) -> Tensor:
        """The window's part of this chunk."""
        from_row = max(0, view.prompt_entries - self._settings.window)
        return summed_votes(image_attention(view, from_row), view)

    def settled(self, votes: Tensor, page: SlotSets) -> Tensor:
        """Smoothed; zeros beyond the ends count, as in the published code."""
        kernel = self._settings.kernel
        if self._settings.chosen_variant == "2d" and page.grid and page.grid.fits(page.image_tokens):
            return smoothed_on_grid(votes, page.grid, kernel)
        return smoothed_along(votes, kernel)


def smoothed_along(votes: Tensor, kernel: int) -> Tensor:
    """[kv_heads, image_tokens] averaged over `kernel` neighbours in token order."""
    return avg_pool1d(votes[:, None], kernel, stride=1, padding=kernel // 2)[:, 0]


def smoothed_on_grid(votes: Tensor, grid: ImageGrid, kernel: int) -> Tensor:
    """[kv_heads, image_tokens] averaged over kernel x kernel cells; tokens that are no cell stay as they
    are.
    """
    cells = votes.as_strided(
        (votes.shape[0], grid.rows, grid.columns),
        (votes.stride(0), grid.row_step, 1),
        votes.storage_offset() + grid.first,
    )  # [kv_heads, rows, columns], a view
    smooth = votes.clone()
    target = smooth.as_strided(cells.shape, (smooth.stride(0), grid.row_step, 1), grid.first)
    target.copy_(avg_pool2d(cells[:, None], kernel, stride=1, padding=kernel // 2)[:, 0])
    return smooth


def build(settings: DecodePolicy, model: ModelAdapter, slots: int, floor: int) -> Policy:
    """Nothing depends on the model but its layers."""
    return SnapKvPolicy(slots, settings, floor, model.shape.layers)
