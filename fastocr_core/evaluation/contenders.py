"""Which policies meet in `fastocr eval fixation`, and with which kept shares: nominally the same, and at equal bytes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fastocr_core.bench.policies import BASELINES, at_read_share, label_of
from fastocr_core.config import DEFAULT_KEPT_SHARE, DecodePolicy

KEPT_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)
LAYERS_WHEN_PUBLISHED = 28  # of the models for which FastV's cut was published


@dataclass(frozen=True, slots=True)
class Contender:
    """One row to be measured: `group` is dense, fastocr, choice, nominal or bytes; `share` the kept share it belongs to.

    `policy` is None where none of this kind reads that little.
    """

    group: str
    label: str
    share: float
    policy: DecodePolicy | None


@dataclass(frozen=True, slots=True)
class FastOcrRead:
    """What fastocr really read at a kept share: its part of the image cache, and means over the pages."""

    share: float
    read_share: float
    image_tokens: float
    output_tokens: float


def fastocr_rows(shares: Sequence[float]) -> Iterator[Contender]:
    """fastocr at every kept share."""
    for share in shares:
        yield Contender("fastocr", "fastocr", share, DecodePolicy.fastocr(share))


def choices(
    warmups: Sequence[int], focal_sets: Sequence[tuple[int, ...]], focal_counts: Sequence[int]
) -> Iterator[Contender]:
    """fastocr at the usual kept share with other warm-ups and focal layers: given sets, or so many chosen on each page."""
    usual = DecodePolicy.fastocr(DEFAULT_KEPT_SHARE)
    for steps in warmups:
        yield Contender(
            "choice", f"fastocr, w = {steps}", DEFAULT_KEPT_SHARE, replace(usual, warmup_steps=steps)
        )
    for layers in focal_sets:
        named = ", ".join(map(str, layers))
        yield Contender(
            "choice",
            f"fastocr, focal layers {named}",
            DEFAULT_KEPT_SHARE,
            replace(usual, focal_layers=layers),
        )
    for count in focal_counts:
        policy = replace(usual, focal="per_page", focal_count=count)
        yield Contender("choice", f"fastocr, {count} focal layers by page", DEFAULT_KEPT_SHARE, policy)


def nominal(shares: Sequence[float], layers: int, scored_tower: bool) -> Iterator[Contender]:
    """Every baseline at every kept share."""
    for share in shares:
        for name, variant in BASELINES:
            policy = baseline(name, variant, share, layers, scored_tower)
            yield Contender("nominal", label_of(policy), share, policy)


def equal_bytes(read: Sequence[FastOcrRead], layers: int, scored_tower: bool) -> Iterator[Contender]:
    """Every baseline at the kept share at which it reads as many bytes as fastocr did."""
    for each in read:
        for name, variant in BASELINES:
            policy = baseline(name, variant, each.share, layers, scored_tower)
            equal = at_read_share(policy, each.read_share, layers, each.image_tokens, each.output_tokens)
            yield Contender("bytes", label_of(policy), each.share, equal)


def baseline(name: str, variant: str, share: float, layers: int, scored_tower: bool) -> DecodePolicy:
    """A baseline fitted to the model: FastV leaves as large a part of the stack whole as published, at least one layer;
    VisionZip ranks by the length of the embeddings where the tower has no attention, and is named so.
    """
    if name == "visionzip" and not scored_tower:
        variant = "norm"
    policy = DecodePolicy.named(name, kept_share=share, variant=variant)
    if name == "fastv":
        whole = max(1, round(policy.prune_layer * layers / LAYERS_WHEN_PUBLISHED))
        return replace(policy, prune_layer=whole)
    return policy
