"""Reading with the pen held: policies are fed a given text token by token, and say at each step what they would have written.

That separates the single step from where an earlier slip leads: every policy sees the same prefix.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from fastocr_core.attention import attention_backend
from fastocr_core.attention.base import Selection, Step
from fastocr_core.config import DecodePolicy
from fastocr_core.decoding import build_policy
from fastocr_core.decoding.base import Policy
from fastocr_core.decoding.side_by_side import SideBySidePolicy
from fastocr_core.forward import DecoderForward
from fastocr_core.kv_cache import SlotCache
from fastocr_core.models.base import ModelAdapter, PromptLayout
from fastocr_core.vision.prepared import PreparedPage

Sets = tuple[Tensor | None, ...]  # by layer: image tokens seen, int64 [kv_heads, kept], None for all


@dataclass(frozen=True, slots=True, eq=False)
class ForcedStep:
    """What one step saw. `index` is that of the token it writes; `sets` are image tokens of the page by layer, None where
    they cannot be told. `attention` is the image attention of all layers [layers, kv_heads, group, image_tokens], if
    asked for.
    """

    index: int
    sets: Sets | None
    attention: Tensor | None


class Watch:
    """Stands before a policy: notes what each layer was allowed to see, and its attention while `listening`."""

    def __init__(self, inner: Policy) -> None:
        self._inner = inner
        self.listening = False
        self.sets: dict[int, Tensor | None] = {}
        self.attention: dict[int, Tensor] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def selection(self, layer: int) -> Selection:
        """Of the policy; what is asked for first in a step is what the layer reads with."""
        chosen = self._inner.selection(layer)
        self.sets.setdefault(layer, chosen.sets[0])
        return chosen

    def wants_scores(self, layer: int, slot: int) -> bool:
        """Also whatever is listened to."""
        return self.listening or self._inner.wants_scores(layer, slot)

    def take_scores(self, layer: int, slot: int, probabilities: Tensor) -> None:
        """Note, and hand on what the policy wanted."""
        if self.listening:
            self.attention[layer] = probabilities
        if self._inner.wants_scores(layer, slot):
            self._inner.take_scores(layer, slot, probabilities)

    def begin(self, listening: bool) -> None:
        """A step begins."""
        self.listening = listening
        self.sets.clear()
        self.attention.clear()


@torch.inference_mode()
def held_pens(
    model: ModelAdapter,
    policies: Sequence[DecodePolicy],
    page: PreparedPage,
    tokens: Sequence[int],
    observe: Callable[[int, ForcedStep], None],
    listen: Callable[[int], bool] = lambda index: False,
    wanted: Callable[[int], bool] = lambda index: True,
) -> list[list[int]]:
    """All policies along the same text in one batch. By policy the choice of every step: entry i is what it writes after
    `tokens[:i]`; one more than tokens.

    `observe` is called with the number of the policy after each step whose index is `wanted`, with attention where `listen`
    says so of the index. ValueError where a policy does not apply to this model.
    """
    slots = range(len(policies))
    watches = [Watch(build_policy(settings, model, 1)) for settings in policies]
    coming = iter(watches)
    policy = SideBySidePolicy(len(slots), model.shape.layers, lambda: cast(Policy, next(coming)), scored=True)
    whole, grid = model.layout(page, None), model.image_grid(page)
    cache = SlotCache(
        model.shape, len(slots), whole.image_tokens, len(whole.ids), len(tokens) + 1, model.text_window,
        torch.empty(0, device=model.device, dtype=model.dtype),
    )  # fmt: skip
    forward = DecoderForward(model, cache, attention_backend("together"), policy)
    encoding = model.encode_scored(page)
    chosen: list[list[int]] = []
    layouts: list[PromptLayout] = []
    for _ in slots:
        image, layout = policy.compress(encoding, whole)
        slot = cache.allocate(layout)
        policy.admit(slot, layout.image_tokens, grid)
        prompt = forward.prompt(slot, image, layout, grid)
        first = forward.prefill(prompt, prompt.left, model.ban(()))
        assert first is not None, "the prompt came whole"
        policy.admitted(slot)
        chosen.append([first.token])
        layouts.append(layout)
    kept = [kept_tokens(whole, layout) for layout in layouts]
    positions = torch.stack([layout.positions[:, -1] for layout in layouts], dim=1).to(model.device)
    for index, token in enumerate(tokens, start=1):
        policy.before_step(slots)
        for watch in watches:
            watch.begin(listen(index))
        fed = torch.full((len(slots),), token, device=model.device)
        positions = model.next_positions(positions, fed)
        banned = model.ban(list(tokens[:index]))
        choices = forward.step(fed, positions, Step(tuple(slots), policy, {}), dict.fromkeys(slots, banned))
        for slot in slots:
            chosen[slot].append(choices[slot].token)
            if wanted(index):
                sets = _page_sets(watches[slot], kept[slot], whole, model)
                observe(slot, ForcedStep(index, sets, _heard(watches[slot], model)))
    return chosen


def kept_tokens(whole: PromptLayout, layout: PromptLayout) -> Tensor | None:
    """Image tokens of the page that a compressed prompt holds, int64 [kept]; all of them if none was left out.

    Found by their positions; None where these do not tell tokens apart.
    """
    if layout.image_tokens == whole.image_tokens:
        return torch.arange(whole.image_tokens)
    places = _image_places(whole)
    number = {place: index for index, place in enumerate(places)}
    if len(number) < len(places):
        return None
    return torch.tensor([number[place] for place in _image_places(layout)])


def _image_places(layout: PromptLayout) -> list[tuple[int, ...]]:
    image = layout.positions[:, layout.image_start : layout.image_start + layout.image_tokens]
    return [tuple(column) for column in image.T.tolist()]


def _page_sets(watch: Watch, kept: Tensor | None, whole: PromptLayout, model: ModelAdapter) -> Sets | None:
    if kept is None:
        return None
    compressed = len(kept) < whole.image_tokens
    sets: list[Tensor | None] = []
    for layer in range(model.shape.layers):
        chosen = watch.sets.get(layer)
        if chosen is not None:
            sets.append(kept[chosen.cpu()])
        else:
            sets.append(kept.expand(model.shape.kv_heads, -1) if compressed else None)
    return tuple(sets)


def _heard(watch: Watch, model: ModelAdapter) -> Tensor | None:
    """Attention of all layers, where every layer saw the whole image."""
    if len(watch.attention) < model.shape.layers:
        return None
    layers = [watch.attention[layer] for layer in range(model.shape.layers)]
    if len({layer.shape for layer in layers}) > 1:
        return None
    return torch.stack(layers).cpu()
