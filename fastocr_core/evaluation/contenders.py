"""Which policies meet in `fastocr eval fixation`, and with which kept shares: nominally the same, and at equal bytes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fastocr_core.config import DEFAULT_KEPT_SHARE, DecodePolicy

KEPT_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)
LAYERS_WHEN_PUBLISHED = 28  # of the models for which FastV's cut was published
# The form in which each was published; the others are read at the usual kept share only.
PUBLISHED = (
    ("fastv", ""),
    ("visionzip", "attention"),
    ("h2o", "dynamic"),
    ("snapkv", "1d"),
    ("pyramidkv", "pyramid"),
)
VARIANTS = (("visionzip", "norm"), ("h2o", "static"), ("snapkv", "2d"), ("pyramidkv", "inverted"))
NO_TOWER_ATTENTION = "not applicable: the vision tower has no attention to rank by"
EXACT_TOKENS = 0.01
TOO_LITTLE = "cannot read that little"


@dataclass(frozen=True, slots=True)
class Contender:
    """One row to be measured: `group` is dense, fastocr, choice, nominal or bytes; `share` the kept share it belongs to.

    Rows of one `series` are a line of the figure, drawn over `level`. `policy` is None where there is nothing to measure;
    `note` says why.
    """

    group: str
    label: str
    share: float
    policy: DecodePolicy | None
    series: str = ""
    level: float = 0.0
    note: str = ""


@dataclass(frozen=True, slots=True)
class FastOcrRead:
    """What fastocr really read at a kept share: its part of the image cache, and means over the pages."""

    share: float
    read_share: float
    image_tokens: float
    output_tokens: float


@dataclass(frozen=True, slots=True)
class FocalChoices:
    """Sets of focal layers to try. `added` are the model's own and then, one by one, the layer that recovers most more;
    `by_mass` recover most attention mass, without regard to the model's own.
    """

    added: tuple[tuple[int, ...], ...]
    by_mass: tuple[tuple[int, ...], ...]


def dense_row() -> Contender:
    """What all are compared with."""
    return Contender("dense", "dense", 1.0, DecodePolicy.dense(), "dense", 1.0)


def fastocr_rows(shares: Sequence[float]) -> Iterator[Contender]:
    """fastocr at every kept share."""
    for share in shares:
        yield Contender("fastocr", "fastocr", share, DecodePolicy.fastocr(share), "fastocr", share)


def choices(
    warmups: Sequence[int],
    focal_sets: Sequence[tuple[int, ...]],
    found: FocalChoices,
    by_page: Sequence[int],
) -> Iterator[Contender]:
    """fastocr at the usual kept share with other warm-ups and focal layers: given sets, those that were found, or so many
    chosen on each page.
    """
    usual = DecodePolicy.fastocr(DEFAULT_KEPT_SHARE)

    def row(label: str, series: str, level: float, policy: DecodePolicy) -> Contender:
        return Contender("choice", f"fastocr, {label}", DEFAULT_KEPT_SHARE, policy, series, level)

    for steps in warmups:
        yield row(f"w = {steps}", "w", steps, replace(usual, warmup_steps=steps))
    sets = (
        (focal_sets, "given", ""), (found.added, "the model's own, then most mass added", "own and more, "),
        (found.by_mass, "most mass", "most mass, "),
    )  # fmt: skip
    for group, series, said in sets:
        for layers in group:
            named = ", ".join(map(str, layers))
            policy = replace(usual, focal_layers=layers)
            yield row(f"|C| = {len(layers)}, {said}layers {named}", series, len(layers), policy)
    for count in by_page:
        policy = replace(usual, focal="per_page", focal_count=count)
        yield row(f"|C| = {count}, most looking, by page", "most looking, by page", count, policy)


def nominal(shares: Sequence[float], layers: int, scored_tower: bool) -> Iterator[Contender]:
    """Every baseline at every kept share; those that do not apply once."""
    if not scored_tower:
        yield Contender("nominal", "visionzip", 0.0, None, note=NO_TOWER_ATTENTION)
    for share in shares:
        for policy in _baselines(share, layers, scored_tower):
            yield Contender("nominal", label_of(policy), share, policy, label_of(policy), share)


def equal_bytes(read: Sequence[FastOcrRead], layers: int, scored_tower: bool) -> Iterator[Contender]:
    """Every baseline at the kept share at which it reads as many bytes as fastocr did."""
    for each in read:
        for policy in _baselines(each.share, layers, scored_tower):
            label = label_of(policy)
            equal = at_read_share(policy, each.read_share, layers, each.image_tokens, each.output_tokens)
            note = "" if equal else TOO_LITTLE
            yield Contender("bytes", label, each.share, equal, label, each.share, note)


def _baselines(share: float, layers: int, scored_tower: bool) -> Iterator[DecodePolicy]:
    names = PUBLISHED + (VARIANTS if share == DEFAULT_KEPT_SHARE else ())
    for name, variant in names:
        if name != "visionzip" or variant == "norm" or scored_tower:
            yield baseline(name, variant, share, layers)


def baseline(name: str, variant: str, share: float, layers: int) -> DecodePolicy:
    """A baseline fitted to the model: FastV leaves as large a part of the stack whole as published, at least one layer."""
    policy = DecodePolicy.named(name, kept_share=share, variant=variant)
    if name == "fastv":
        whole = max(1, round(policy.prune_layer * layers / LAYERS_WHEN_PUBLISHED))
        return replace(policy, prune_layer=whole)
    return policy


def label_of(policy: DecodePolicy) -> str:
    """Name and variant; what is not the published method says so."""
    if policy.name == "fastv":
        return f"fastv, K = {policy.prune_layer}"
    if policy.name == "visionzip":
        return (
            "visionzip"
            if policy.chosen_variant == "attention"
            else "visionzip by token norm (not as published)"
        )
    return f"{policy.name}, {policy.chosen_variant}"


def at_read_share(
    policy: DecodePolicy, share: float, layers: int, image_tokens: float, outputs: float
) -> DecodePolicy | None:
    """The policy with the kept share at which steps read `share` of the image cache on average; None where
    its whole layers alone read more.
    """
    if policy.name == "fastv":
        kept = (share * layers - policy.prune_layer) / max(1, layers - policy.prune_layer)
        if kept <= 0:
            return None
        return replace(policy, kept_share=min(1.0, kept))
    if policy.name == "h2o" and policy.chosen_variant == "dynamic":
        return replace(policy, kept_share=min(1.0, dynamic_share(share, image_tokens, outputs)))
    return replace(policy, kept_share=min(1.0, share))


def dynamic_share(share: float, image_tokens: float, outputs: float) -> float:
    """Kept share of dynamic H2O at which its steps read `share` of the image cache on average.

    With k kept tokens, step t of T sees k + max(0, k - t), never more than the page has: k + k (k - 1) / (2 T) on average
    where T >= k, 2 k - (T + 1) / 2 where T < k and the page is larger than 2 k. The average grows with k, and so is
    solved for k by halving.
    """
    steps = range(1, max(1, round(outputs)) + 1)
    wanted = share * image_tokens * len(steps)
    low, high = 0.0, image_tokens
    while high - low > EXACT_TOKENS:
        kept = (low + high) / 2
        seen = sum(min(image_tokens, kept + max(0.0, kept - step)) for step in steps)
        low, high = (kept, high) if seen < wanted else (low, kept)
    return high / image_tokens
