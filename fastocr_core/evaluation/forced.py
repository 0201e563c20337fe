"""Reading with the pen held: a policy is fed a given text token by token, and says at each step what it would have written.

That separates the single step from where an earlier slip leads: every policy sees the same prefix.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from fastocr_core.attention import attention_backend
from fastocr_core.attention.base import ReadCount, Selection, Step
from fastocr_core.config import DecodePolicy
from fastocr_core.decoding import build_policy
from fastocr_core.decoding.base import Policy
from fastocr_core.forward import DecoderForward
from fastocr_core.kv_cache import SlotCache
from fastocr_core.models.base import ImageEncoding, ModelAdapter, PromptLayout
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
def forced_choices(
    model: ModelAdapter,
    settings: DecodePolicy,
    page: PreparedPage,
    tokens: Sequence[int],
    observe: Callable[[ForcedStep], None],
    listen: Callable[[int], bool] = lambda index: False,
) -> list[int]:
    """The choice of every step: entry i is what the policy writes after `tokens[:i]`; one more than tokens.

    `observe` is called after each step, with attention where `listen` says so of the index. ValueError where the
    policy does not apply to this model.
    """
    watch = Watch(build_policy(settings, model, 1))
    policy = cast(Policy, watch)
    whole = model.layout(page, None)
    scored = policy.needs_scored_encoding
    encoding = model.encode_scored(page) if scored else ImageEncoding(model.encode(page))
    image, layout = policy.compress(encoding, whole)
    cache = SlotCache(
        model.shape, 1, layout.image_tokens, len(layout.ids), len(tokens) + 1, model.text_window,
        torch.empty(0, device=model.device, dtype=model.dtype),
    )  # fmt: skip
    backend = attention_backend("gather")
    forward = DecoderForward(model, cache, backend, policy)
    slot = cache.allocate(layout)
    grid = model.image_grid(page)
    policy.admit(slot, layout.image_tokens, grid)
    prompt = forward.prompt(slot, image, layout, grid)
    first = forward.prefill(prompt, prompt.left, model.ban(()))
    assert first is not None
    policy.admitted(slot)
    chosen = [first.token]
    kept = kept_tokens(whole, layout)
    positions = layout.positions[:, -1:].to(model.device)
    for index, token in enumerate(tokens, start=1):
        policy.before_step((slot,))
        watch.begin(listen(index))
        counts = {} if policy.warming_up(slot) else {slot: ReadCount()}
        fed = torch.tensor([token], device=model.device)
        positions = model.next_positions(positions, fed)
        step = Step((slot,), policy, counts)
        choice = forward.step(fed, positions, step, {slot: model.ban(list(tokens[:index]))})[0]
        chosen.append(choice.token)
        observe(ForcedStep(index, _page_sets(watch, kept, whole, model), _heard(watch, model)))
    policy.release(slot)
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
