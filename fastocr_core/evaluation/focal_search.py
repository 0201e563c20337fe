"""Which sets of focal layers a study tries, from how much attention they would recover on its own pages."""

from collections.abc import Sequence

from fastocr_core.config import DEFAULT_KEPT_SHARE
from fastocr_core.decoding.focal import default_focal_layers
from fastocr_core.decoding.focal_choice import best_focal_layers, recovered_mass
from fastocr_core.decoding.measuring import LayerMasses
from fastocr_core.evaluation.contenders import FocalChoices
from fastocr_core.models.base import ModelAdapter
from fastocr_core.profile import measure_layers
from fastocr_core.vision.prepared import PreparedPage

MEASURED_TOKENS = 300


def focal_choices(
    model: ModelAdapter, pages: Sequence[PreparedPage], counts: Sequence[int], max_output_tokens: int | None
) -> FocalChoices:
    """Read the beginnings of `pages` densely and choose. Counts the model has no layers for are left out."""
    possible = [count for count in counts if 1 <= count <= model.shape.layers]
    if not possible:
        return FocalChoices((), ())
    tokens = min(MEASURED_TOKENS, max_output_tokens or MEASURED_TOKENS)
    masses, _ = measure_layers(
        model, pages, DEFAULT_KEPT_SHARE, model.default_floor, model.default_pooling, len(pages), tokens
    )
    own = model.focal_layers or default_focal_layers(model.shape.layers)
    return FocalChoices(
        tuple(grown(masses, own, count) for count in possible if count > len(own)),
        tuple(best_focal_layers(masses, count) for count in possible),
    )


def grown(masses: LayerMasses, own: Sequence[int], count: int) -> tuple[int, ...]:
    """`own` and, one by one, the layer with which most is recovered, until there are `count`; ascending."""
    chosen = list(own)
    while len(chosen) < count:
        others = [layer for layer in range(len(masses.mass)) if layer not in chosen]
        chosen.append(max(others, key=lambda layer: recovered_mass(masses, [*chosen, layer])))
    return tuple(sorted(chosen))
