"""Three measures of single steps under a held pen: agreement with dense, recovered attention mass, fixation hits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fastocr_core.config import DecodePolicy
from fastocr_core.evaluation.forced import ForcedStep, Sets, forced_choices
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
    """Sums over steps of one or more pages; the shares are None where no step was measured."""

    steps: int = 0
    agreeing: int = 0
    masses: list[float] = field(default_factory=list)
    hits: list[float] = field(default_factory=list)

    @property
    def agreement(self) -> float | None:
        """Share of steps whose choice is that of the dense policy after the same prefix."""
        return self.agreeing / self.steps if self.steps else None

    @property
    def mass(self) -> float | None:
        """Share of the dense image attention that lies on what was seen; mean over layers (1 where all was seen), heads
        and sampled steps.
        """
        return sum(self.masses) / len(self.masses) if self.masses else None

    @property
    def hit_rate(self) -> float | None:
        """Share of characters whose true cell was seen; mean over the heads of the layers that left something out."""
        return sum(self.hits) / len(self.hits) if self.hits else None


def dense_page(
    model: ModelAdapter, page: PreparedPage, tokens: Sequence[int], cells: Mapping[int, int], stride: int
) -> DensePage:
    """Hold the pen of the dense policy along its own text; attention is kept at every `stride`-th step."""
    heard: dict[int, Tensor] = {}

    def observe(step: ForcedStep) -> None:
        if step.attention is not None:
            heard[step.index] = step.attention.half()

    choices = forced_choices(
        model, DecodePolicy.dense(), page, tokens, observe, lambda index: index % stride == 0
    )
    return DensePage(page, tuple(tokens), tuple(choices), heard, dict(cells))


def measure_steps(
    model: ModelAdapter, settings: DecodePolicy, dense: DensePage, skipped: int, into: StepMeasures
) -> None:
    """Add one page. The first `skipped` steps are left out, for all policies alike, since some read them densely.

    ValueError where the policy does not apply to this model.
    """

    def observe(step: ForcedStep) -> None:
        if step.index < skipped or step.sets is None:
            return
        attention = dense.attention.get(step.index)
        if attention is not None:
            into.masses.append(recovered_mass(step.sets, attention))
        if step.index in dense.cells:
            hit = hit_share(step.sets, dense.cells[step.index])
            if hit is not None:
                into.hits.append(hit)

    choices = forced_choices(model, settings, dense.page, dense.tokens, observe)
    pairs = list(zip(choices, dense.choices, strict=True))[skipped:]
    into.steps += len(pairs)
    into.agreeing += sum(one == other for one, other in pairs)


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


def hit_share(sets: Sets, cell: int) -> float | None:
    """Share of heads, over the layers that left something out, that could see `cell`; None where no layer did."""
    seen = [float((chosen == cell).any(1).float().mean()) for chosen in sets if chosen is not None]
    return float(torch.tensor(seen).mean()) if seen else None
