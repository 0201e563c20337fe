"""Many policies in one batch: every slot is under a policy of its own.

For measurements, where dozens of policies read the same few pages and one batch of all of them is several times as fast
as one batch each. Not a policy to read an archive with.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

from fastocr_core.attention.base import Selection
from fastocr_core.decoding.base import ImageGrid, Policy, PrefillView
from fastocr_core.models.base import ImageEncoding, PromptLayout


class SideBySidePolicy(Policy):
    """`next_policy` gives the policy of the page that comes in next, made for a single slot; it is asked right before the
    page's image is compressed.
    """

    needs_whole_prompt = True  # some need it, and none minds

    def __init__(self, slots: int, layers: int, next_policy: Callable[[], Policy], scored: bool) -> None:
        self.needs_scored_encoding = scored
        self._next = next_policy
        self._arriving: Policy | None = None
        self._inner: list[Policy | None] = [None] * slots
        self._selections: list[Selection] = [Selection((None,) * slots)] * layers

    def compress(self, encoding: ImageEncoding, layout: PromptLayout) -> tuple[Tensor, PromptLayout]:
        """As the page's own policy does."""
        self._arriving = self._next()
        return self._arriving.compress(encoding, layout)

    def observes_prefill(self, layer: int) -> bool:
        """Where any policy looks."""
        return any(inner.observes_prefill(layer) for inner in self._inner if inner is not None)

    def take_prefill(self, layer: int, slot: int, view: PrefillView) -> None:
        """Only for the policy that looks at this layer."""
        inner = self.of(slot)
        if inner.observes_prefill(layer):
            inner.take_prefill(layer, 0, view)

    def prefill_visible(self, layer: int, slot: int) -> Tensor | None:
        """Of the page's own policy."""
        return self.of(slot).prefill_visible(layer, 0)

    def budget(self, image_tokens: int) -> int:
        """There is no common one: all of them, which is the most."""
        return image_tokens

    def admit(self, slot: int, image_tokens: int, grid: ImageGrid | None = None) -> None:
        """The page whose image was compressed last."""
        assert self._arriving is not None, "no page was compressed"
        self._inner[slot], self._arriving = self._arriving, None
        self.of(slot).admit(0, image_tokens, grid)

    def admitted(self, slot: int) -> None:
        """The prompt is cached."""
        self.of(slot).admitted(0)

    def release(self, slot: int) -> None:
        """Forget the page and its policy."""
        inner, self._inner[slot] = self._inner[slot], None
        if inner is not None:
            inner.release(0)

    def before_step(self, live: Sequence[int]) -> None:
        """A step of every page."""
        for slot in live:
            self.of(slot).before_step((0,))

    def warming_up(self, slot: int) -> bool:
        """Of the page's own policy."""
        return self.of(slot).warming_up(0)

    def look_around(self, slot: int) -> bool:
        """As the page's own policy says."""
        return self.of(slot).look_around(0)

    def selection(self, layer: int) -> Selection:
        """Set by set from the policies; the same object while no set changed."""
        sets = tuple(None if inner is None else inner.selection(layer).sets[0] for inner in self._inner)
        for known in (self._selections[layer], self._selections[layer - 1]):
            if all(one is other for one, other in zip(sets, known.sets, strict=True)):
                self._selections[layer] = known
                return known
        self._selections[layer] = Selection(sets)
        return self._selections[layer]

    def wants_scores(self, layer: int, slot: int) -> bool:
        """Of the page's own policy."""
        return self.of(slot).wants_scores(layer, 0)

    def take_scores(self, layer: int, slot: int, probabilities: Tensor) -> None:
        """For the page's own policy."""
        self.of(slot).take_scores(layer, 0, probabilities)

    def resident_share(self, slot: int) -> float:
        """Of the page's own policy."""
        return self.of(slot).resident_share(0)

    def of(self, slot: int) -> Policy:
        """The policy of a slot that must be taken."""
        inner = self._inner[slot]
        assert inner is not None, f"slot {slot} is empty"
        return inner
