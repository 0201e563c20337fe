"""Chooses focal layers by the attention mass that their fixations recover in the layers they serve.

Exact, by dynamic programming over the stack for each deepest focal layer, which the layers before the
first one depend on. The idea of choosing by recovered mass is Kascade's (arXiv 2512.16391).
"""

from collections.abc import Sequence

from fastocr_core.decoding.measuring import LayerMasses


def recovered_mass(masses: LayerMasses, focal_layers: Sequence[int]) -> float:
    """Image attention mass, summed over layers, that decoding with these focal layers would see.

    A focal layer sees its own mass whole; a layer after it what lies on its set; layers before the first
    one what lies on the deepest one's set of the step before.
    """
    focal = sorted(focal_layers)
    total = 0.0
    for layer in range(len(masses.mass)):
        servers = [each for each in focal if each <= layer]
        total += masses.same[servers[-1]][layer] if servers else masses.previous[focal[-1]][layer]
    return total


def recovered_share(masses: LayerMasses, focal_layers: Sequence[int]) -> float:
    """The same as a share of all image attention; 1.0 where the model does not look at the image at all."""
    everything = sum(masses.mass)
    return recovered_mass(masses, focal_layers) / everything if everything else 1.0


def best_focal_layers(masses: LayerMasses, count: int) -> tuple[int, ...]:
    """The `count` layers with the largest recovered mass; ascending. ValueError for an impossible count."""
    layers = len(masses.mass)
    if not 1 <= count <= layers:
        raise ValueError(f"between 1 and {layers} focal layers can be chosen, not {count}")
    served = [
        [sum(masses.same[focal][focal:end]) for end in range(layers + 1)] for focal in range(layers)
    ]  # [focal][end]: what `focal` recovers in the layers from itself up to `end`, exclusive
    best: tuple[float, tuple[int, ...]] | None = None
    for deepest in range(count - 1, layers):
        chain = _best_chain(masses, served, deepest, count)
        if best is None or chain[0] > best[0]:
            best = chain
    assert best is not None
    return best[1]


def _best_chain(
    masses: LayerMasses, served: Sequence[Sequence[float]], deepest: int, count: int
) -> tuple[float, tuple[int, ...]]:
    """The best `count` layers that end with `deepest`, and their recovered mass."""
    layers = len(masses.mass)
    lead = [sum(masses.previous[deepest][:first]) for first in range(layers)]
    # By last layer so far: mass recovered before it, and the layers.
    chains: dict[int, tuple[float, tuple[int, ...]]] = {
        first: (lead[first], (first,)) for first in range(deepest + 1)
    }
    for _ in range(count - 1):
        longer: dict[int, tuple[float, tuple[int, ...]]] = {}
        for layer in range(deepest + 1):
            options = [
                (mass + served[last][layer], (*chosen, layer))
                for last, (mass, chosen) in chains.items()
                if last < layer
            ]
            if options:
                longer[layer] = max(options)
        chains = longer
    mass, chosen = chains[deepest]
    return mass + served[deepest][layers], chosen
