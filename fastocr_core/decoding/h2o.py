"""H2O, heavy hitters (arXiv 2306.14048), on image tokens: what has been looked at most so far stays.

Votes are the softmax summed over all prompt rows. Variant `static`, the cheap and common form: the k
heaviest image tokens stay. Variant `dynamic`: a cache of h + r tokens, h = r = k as the original splits
it. The recent tokens are text, which is never evicted; as long as fewer than r outputs have been written,
image tokens fill their places, so k + r - t image tokens are left at step t, and k from step r on. Every
step adds its own attention to the votes of the tokens still there. Eviction is for good.
"""

from collections.abc import Sequence

from torch import Tensor

from fastocr_core.config import DecodePolicy
from fastocr_core.decoding.base import ImageGrid, Policy, PrefillView
from fastocr_core.decoding.eviction import EvictionPolicy, summed_votes
from fastocr_core.decoding.prompt_attention import image_attention
from fastocr_core.decoding.scores import strongest
from fastocr_core.models.base import ModelAdapter


class HeavyHitterPolicy(EvictionPolicy):
    """Votes of all rows; the dynamic variant goes on voting and evicting while it decodes."""

    def __init__(self, slots: int, settings: DecodePolicy, floor: int, layers: int) -> None:
        super().__init__(slots, settings, floor, layers)
        self._dynamic = settings.chosen_variant == "dynamic"
        self._steps = [0] * slots

    def votes_of(self, layer: int, view: PrefillView) -> Tensor:
        """All rows of this chunk."""
        return summed_votes(image_attention(view), view)

    def admit(self, slot: int, image_tokens: int, grid: ImageGrid | None = None) -> None:
        """Start counting outputs."""
        super().admit(slot, image_tokens, grid)
        self._steps[slot] = 0

    def layer_budget(self, layer: int, image_tokens: int) -> int:
        """After the prompt."""
        return self.left_at(0, image_tokens)

    def left_at(self, step: int, image_tokens: int) -> int:
        """Image tokens that a head has left in the step number `step`, 0 being the end of the prompt."""
        heavy = self.budget(image_tokens)
        return min(image_tokens, heavy + max(0, heavy - step)) if self._dynamic else heavy

    def before_step(self, live: Sequence[int]) -> None:
        """Evict what the last step's votes leave over."""
        if not self._dynamic:
            return
        for slot in live:
            self._steps[slot] += 1
            page = self.held(slot)
            left = self.left_at(self._steps[slot], page.image_tokens)
            for layer, chosen in enumerate(page.kept):
                votes = page.votes[layer]
                if chosen is not None and votes is not None and chosen.shape[1] > left:
                    stay = strongest(votes.gather(1, chosen), left)  # positions in the old set
                    self.keep(layer, slot, chosen.gather(1, stay))

    def wants_scores(self, layer: int, slot: int) -> bool:
        """Every layer, while there is still something to evict."""
        return self._dynamic and self._steps[slot] < self.budget(self.held(slot).image_tokens)

    def take_scores(self, layer: int, slot: int, probabilities: Tensor) -> None:
        """Add a step's attention [kv_heads, group, left] to the votes."""
        page = self.held(slot)
        votes, chosen = page.votes[layer], page.kept[layer]
        assert votes is not None
        assert chosen is not None
        votes.scatter_add_(1, chosen, probabilities.mean(1).to(votes.dtype))

    def extra_bytes(self, image_tokens: int) -> int:
        """The dynamic variant keeps a float32 vote for each image token besides the indices."""
        scores = 4 * image_tokens * self._layers if self._dynamic else 0
        return super().extra_bytes(image_tokens) + scores


def build(settings: DecodePolicy, model: ModelAdapter, slots: int, floor: int) -> Policy:
    """Nothing depends on the model but its layers."""
    return HeavyHitterPolicy(slots, settings, floor, model.shape.layers)
