"""Measures of single steps under a held pen: agreement with dense, recovered attention, true and strongest tokens seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fastocr_core.config import DecodePolicy
from fastocr_core.decoding.scores import strongest
from fastocr_core.evaluation.forced import ForcedStep, Sets, held_pens
from fastocr_core.models.base import ModelAdapter
from fastocr_core.vision.prepared import PreparedPage


@dataclass(frozen=True, slots=True, eq=False)
class DensePage:
    """A page as the dense policy read it: `tokens` it wrote and what it chose under the held pen (one more), its image
    attention float16 [layers, kv_heads, group, image_tokens] at some steps, and the true image token of characters, by the
    index of the token.
    """

    page: PreparedPage
    tokens: tuple[int, ...]
    choices: tuple[int, ...]
    attention: Mapping[int, Tensor]
    cells: Mapping[int, int]


@dataclass(slots=True)
class StepMeasures:
    """Sums over steps of one or more pages, and over how many steps; the shares are None where no step was measured."""

    steps: int = 0
    agreeing: int = 0
    mass_steps: int = 0
    mass_sum: float = 0.0
    hit_steps: int = 0
    hit_sum: float = 0.0
    strongest_steps: int = 0
    strongest_sum: float = 0.0

    def add(self, other: "StepMeasures") -> None:
        """Take in another page."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def agreement(self) -> float | None:
        """Share of steps whose choice is that of the dense policy after the same prefix."""
        return self.agreeing / self.steps if self.steps else None

    @property
    def mass(self) -> float | None:
        """Share of the dense image attention that lies on what was seen; mean over layers (1 where all was seen), heads
        and sampled steps.
        """
        return self.mass_sum / self.mass_steps if self.mass_steps else None

    @property
    def hit_rate(self) -> float | None:
        """Share of characters whose true cell was seen; mean over the heads of the layers that left something out."""
        return self.hit_sum / self.hit_steps if self.hit_steps else None

    @property
    def strongest_rate(self) -> float | None:
        """Share of a dense layer's own strongest tokens, as many as were seen, that were among them; mean over the heads of
        the layers that left something out, and sampled steps.
        """
        return self.strongest_sum / self.strongest_steps if self.strongest_steps else None


@dataclass(frozen=True, slots=True)
class LayerFocus:
    """How narrowly each layer looks when nothing is left out, sums by layer over sampled steps.

    `mass` is the part of the image attention on the layer's own strongest tokens, `hits` whether the true cell of the next
    character is one of them (both means over heads).
    """

    steps: int
    mass: tuple[float, ...]
    hit_steps: int
    hits: tuple[float, ...]


def dense_page(
    model: ModelAdapter, page: PreparedPage, tokens: Sequence[int], cells: Mapping[int, int], stride: int
) -> DensePage:
    """Hold the pen of the dense policy along its own text; attention is kept at every `stride`-th step."""
    heard: dict[int, Tensor] = {}

    def observe(policy: int, step: ForcedStep) -> None:
        if step.attention is not None:
            heard[step.index] = step.attention.half()

    def sampled(index: int) -> bool:
        return index % stride == 0

    (choices,) = held_pens(model, [DecodePolicy.dense()], page, tokens, observe, sampled, sampled)
    return DensePage(page, tuple(tokens), tuple(choices), heard, dict(cells))


def measure_steps(
    model: ModelAdapter, policies: Sequence[DecodePolicy], dense: DensePage, skipped: int
) -> list[StepMeasures]:
    """One page, all policies in one batch. The first `skipped` steps are left out, for all policies alike, since some
    read them densely.

    ValueError where a policy does not apply to this model.
    """
    measured = [StepMeasures() for _ in policies]

    def wanted(index: int) -> bool:
        return index >= skipped and (index in dense.attention or index in dense.cells)

    def observe(policy: int, step: ForcedStep) -> None:
        if step.sets is not None:
            _note(measured[policy], step.sets, dense.attention.get(step.index), dense.cells.get(step.index))

    choices = held_pens(model, policies, dense.page, dense.tokens, observe, wanted=wanted)
    for into, chosen in zip(measured, choices, strict=True):
        pairs = list(zip(chosen, dense.choices, strict=True))[skipped:]
        into.steps = len(pairs)
        into.agreeing = sum(one == other for one, other in pairs)
    return measured


def _note(into: StepMeasures, sets: Sets, attention: Tensor | None, cell: int | None) -> None:
    if attention is not None:
        into.mass_steps += 1
        into.mass_sum += recovered_mass(sets, attention)
        shared = strongest_seen(sets, attention)
        if shared is not None:
            into.strongest_steps += 1
            into.strongest_sum += shared
    hit = None if cell is None else hit_share(sets, cell)
    if hit is not None:
        into.hit_steps += 1
        into.hit_sum += hit


def recovered_mass(sets: Sets, attention: Tensor) -> float:
    """Share of image attention [layers, kv_heads, group, image_tokens] on the sets, mean over layers and heads."""
    shares = []
    for layer, chosen in enumerate(sets):
        if chosen is None:
            shares.append(1.0)
            continue
        mass = attention[layer].float()
        group = mass.shape[1]
        rows = chosen.cpu()[:, None].expand(-1, group, -1)
        found = mass.gather(2, rows).sum(2) / mass.sum(2).clamp(min=1e-9)
        shares.append(min(1.0, float(found.mean())))
    return sum(shares) / len(shares)


def strongest_seen(sets: Sets, attention: Tensor) -> float | None:
    """Share of each layer's own strongest tokens that its set holds, mean over heads and the layers that left something
    out; None where no layer did.
    """
    shares = []
    for layer, chosen in enumerate(sets):
        if chosen is not None:
            own = strongest(attention[layer].float().mean(1), chosen.shape[1])
            seen = torch.zeros(attention.shape[1], attention.shape[3], dtype=torch.bool)
            seen.scatter_(1, chosen.cpu(), True)
            shares.append(float(seen.gather(1, own).float().mean()))
    return sum(shares) / len(shares) if shares else None


def hit_share(sets: Sets, cell: int) -> float | None:
    """Share of heads, over the layers that left something out, that could see `cell`; None where no layer did."""
    seen = [float((chosen == cell).any(1).float().mean()) for chosen in sets if chosen is not None]
    return float(torch.tensor(seen).mean()) if seen else None


def layer_focus(dense: DensePage, kept: int, skipped: int) -> LayerFocus:
    """Of a page that was read densely, with `kept` strongest tokens for each head."""
    steps = [(index, attention.float()) for index, attention in dense.attention.items() if index >= skipped]
    masses, hits = [], []
    for index, attention in steps:
        top = attention.topk(min(kept, attention.shape[3]), dim=3)
        masses.append((top.values.sum(3) / attention.sum(3).clamp(min=1e-9)).mean((1, 2)))  # [layers]
        if index in dense.cells:
            hits.append((top.indices == dense.cells[index]).any(3).float().mean((1, 2)))
    layers = (0.0,) * (steps[0][1].shape[0] if steps else 0)
    return LayerFocus(
        len(masses),
        tuple(torch.stack(masses).sum(0).tolist()) if masses else layers,
        len(hits),
        tuple(torch.stack(hits).sum(0).tolist()) if hits else layers,
    )
