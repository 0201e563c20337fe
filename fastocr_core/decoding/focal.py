"""Which layers are focal: checks, the fallback without a profile, and the choice from a page's own warm-up."""

from collections.abc import Sequence

from torch import Tensor


def checked_layers(focal_layers: Sequence[int], layers: int) -> tuple[int, ...]:
    """Ascending, each once. ValueError if there are none or one does not exist."""
    focal = tuple(sorted(set(focal_layers)))
    if not focal or focal[0] < 0 or focal[-1] >= layers:
        raise ValueError(f"focal layers must be some of 0..{layers - 1}, not {tuple(focal_layers)}")
    return focal


def default_focal_count(layers: int) -> int:
    """A seventh of the layers, at least one: 4 of 28, 5 of 36, 2 of 12. The paper's number is not known;
    its published speed-up allows for 4 to 8 of 28.
    """
    return max(1, round(layers / 7))


def default_focal_layers(layers: int) -> tuple[int, ...]:
    """The middle layers of equal parts of the stack: what is left where nobody has profiled the model."""
    count = default_focal_count(layers)
    return tuple((2 * index + 1) * layers // (2 * count) for index in range(count))


def layers_by_ratio(ratios: Sequence[float], count: int) -> tuple[int, ...]:
    """The `count` layers with the highest image attention ratio, no two of them adjacent while others are
    left; ascending. Equal ratios go to the lower layer.

    A neighbour would serve no layer, which is why the plain ranking of the paper is thinned out.
    """
    ranked = sorted(range(len(ratios)), key=lambda layer: (-ratios[layer], layer))
    chosen: list[int] = []
    for layer in ranked:
        if len(chosen) < count and all(abs(layer - other) > 1 for other in chosen):
            chosen.append(layer)
    for layer in ranked:
        if len(chosen) < count and layer not in chosen:
            chosen.append(layer)
    return tuple(sorted(chosen))


class WarmupWatch:
    """Image attention ratio of every layer over a page's warm-up: the softmax mass on image tokens, mean
    over steps and query heads (arXiv 2605.17447 names the ratio; this reading of it is ours).

    `newest` are the pooled scores [kv_heads, image_tokens] of the last step by layer.
    """

    def __init__(self, layers: int) -> None:
        self._mass = [0.0] * layers
        self._steps = [0] * layers
        self.newest: dict[int, Tensor] = {}

    def note(self, layer: int, probabilities: Tensor, pooled_scores: Tensor | None) -> None:
        """One step of one layer: image attention [kv_heads, group, image_tokens]."""
        self._mass[layer] += float(probabilities.sum(2).mean())
        self._steps[layer] += 1
        if pooled_scores is not None:
            self.newest[layer] = pooled_scores

    def ratios(self) -> tuple[float, ...]:
        """By layer; 0.0 where nothing was seen."""
        return tuple(
            mass / steps if steps else 0.0 for mass, steps in zip(self._mass, self._steps, strict=True)
        )

    def focal_layers(self, count: int) -> tuple[int, ...]:
        """The choice."""
        return layers_by_ratio(self.ratios(), count)
