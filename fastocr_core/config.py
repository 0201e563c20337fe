"""Plain settings of the reader: how to decode, and how much at once.

Frozen dataclasses of the standard library only; no torch, so that a driver or a command line can build and
hash them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal

Pooling = Literal["kv_max", "kv_mean", "layer_max", "layer_mean"]
POOLINGS: tuple[Pooling, ...] = ("kv_max", "kv_mean", "layer_max", "layer_mean")
Focal = Literal["profile", "per_page"]
# Every policy with its variants, the default first. A policy is one module of this name in
# `fastocr_core.decoding` that offers `build`, and one entry here.
POLICY_VARIANTS: dict[str, tuple[str, ...]] = {
    "dense": (),
    "fastocr": (),
    "fastv": (),
    "visionzip": ("attention", "norm"),
    "h2o": ("static", "dynamic"),
    "snapkv": ("1d", "2d"),
    "pyramidkv": ("pyramid", "inverted"),
}
POLICY_NAMES: tuple[str, ...] = tuple(POLICY_VARIANTS)
DEFAULT_KEPT_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class DecodePolicy:
    """Which image tokens a decode step may look at. Build with `dense()`, `fastocr()` or `named()`.

    All policies: `kept_share` is the paper's tau, `floor` the least number of image tokens kept (None for
    the model's own default).

    fastocr: `warmup_steps` dense steps come first. `focal_layers` are the layers that look at everything
    and choose, None for the model's stored profile; `focal="per_page"` ranks the layers by image attention
    in every page's own warm-up instead and takes `focal_count` of them (None for as many as the profile
    has). `pooling` is how a focal layer's heads vote (one set per KV head or one per layer, by maximum or
    mean), None for the model's own way; `reuse` lets the layers before the first focal layer use the
    previous step's fixation (off: they look at everything). `dilate` adds the grid neighbours of the
    strongest hits, the rest goes by score. `top_p` keeps as few tokens as hold that share of the image
    attention, between the floor and what `kept_share` allows. `confirm_end` lets a page end only on a step that
    sees everything: a sparse step that would end it is done again.

    Baselines: `variant` is one of `POLICY_VARIANTS`, "" for the first. `prune_layer` (fastv) is the first
    layer without the rest, `contextual_share` (visionzip) the share of the kept tokens that stand for
    merged ones, `window` and `kernel` (snapkv, pyramidkv) the prompt rows that vote and the width of the
    smoothing.
    """

    name: str = "dense"
    kept_share: float = 1.0
    floor: int | None = None
    warmup_steps: int = 16
    focal_layers: tuple[int, ...] | None = None
    pooling: Pooling | None = None
    reuse: bool = True
    focal: Focal = "profile"
    focal_count: int | None = None
    dilate: bool = False
    top_p: float | None = None
    confirm_end: bool = True
    variant: str = ""
    prune_layer: int = 2
    contextual_share: float = 0.15625  # 10 of 64, as published
    window: int = 32
    kernel: int = 5

    def __post_init__(self) -> None:
        if self.name not in POLICY_NAMES:
            raise ValueError(f"unknown decode policy {self.name!r}; known: {', '.join(POLICY_NAMES)}")
        for refusal in (*self._wrong_sizes(), *self._wrong_choices()):
            raise ValueError(refusal)

    def _wrong_sizes(self) -> Iterator[str]:
        """What is wrong with the numbers, a sentence each."""
        if not 0.0 < self.kept_share <= 1.0:
            yield f"kept_share must lie in (0, 1], not {self.kept_share}"
        if self.floor is not None and self.floor < 1:
            yield f"floor must be at least 1, not {self.floor}"
        if self.warmup_steps < 1:
            yield "warmup_steps must be at least 1: the last dense step seeds the first fixation"
        if self.focal_layers is not None and (not self.focal_layers or min(self.focal_layers) < 0):
            yield "focal_layers must name at least one layer, counted from 0"
        if self.top_p is not None and not 0.0 < self.top_p <= 1.0:
            yield f"top_p must lie in (0, 1], not {self.top_p}"
        if not 0.0 <= self.contextual_share < 1.0:
            yield f"contextual_share must lie in [0, 1), not {self.contextual_share}"
        for name in ("focal_count", "prune_layer", "window", "kernel"):
            value = getattr(self, name)
            if value is not None and value < 1:
                yield f"{name} must be at least 1, not {value}"
        if self.kernel % 2 == 0:
            yield f"kernel must be odd, so that it has a middle, not {self.kernel}"

    def _wrong_choices(self) -> Iterator[str]:
        """What is wrong with the words, a sentence each."""
        if self.pooling is not None and self.pooling not in POOLINGS:
            yield f"unknown pooling {self.pooling!r}; known: {', '.join(POOLINGS)}"
        if self.focal not in ("profile", "per_page"):
            yield f"focal must be profile or per_page, not {self.focal!r}"
        if self.focal == "per_page" and self.focal_layers is not None:
            yield "focal_layers cannot be given where every page chooses its own"
        variants = POLICY_VARIANTS[self.name]
        if self.variant and self.variant not in variants:
            known = ", ".join(variants) or "none"
            yield f"{self.name} has no variant {self.variant!r}; known: {known}"

    @property
    def chosen_variant(self) -> str:
        """The variant in force; "" where the policy has none."""
        return self.variant or next(iter(POLICY_VARIANTS[self.name]), "")

    @classmethod
    def dense(cls) -> "DecodePolicy":
        """Every step looks at every image token."""
        return cls()

    @classmethod
    def fastocr(
        cls,
        kept_share: float = DEFAULT_KEPT_SHARE,
        floor: int | None = None,
        warmup_steps: int = 16,
        focal_layers: tuple[int, ...] | None = None,
        pooling: Pooling | None = None,
        reuse: bool = True,
        focal: Focal = "profile",
        focal_count: int | None = None,
        dilate: bool = False,
        top_p: float | None = None,
        confirm_end: bool = True,
    ) -> "DecodePolicy":
        """Focal-guided pruning with cross-step fixation reuse (arXiv 2605.17447)."""
        return cls(
            "fastocr", kept_share, floor, warmup_steps, focal_layers, pooling, reuse, focal, focal_count,
            dilate, top_p, confirm_end,
        )  # fmt: skip

    @classmethod
    def named(cls, name: str, **settings: Any) -> "DecodePolicy":
        """The policy of that name with its defaults (dense keeps all, others a twentieth), changed by
        `settings`; a name, setting or value that does not exist raises ValueError.
        """
        unknown = sorted(set(settings) - ({field.name for field in fields(cls)} - {"name"}))
        if unknown:
            raise ValueError(f"unknown setting of a decode policy: {', '.join(unknown)}")
        if name != "dense":
            settings = {"kept_share": DEFAULT_KEPT_SHARE} | settings
        return cls(name, **settings)


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """How much an engine takes on.

    `token_budget` bounds the cached tokens (image, prompt and the longest output) of all pages decoded at
    once, None for no bound but the slots; a single page always fits. `max_output_tokens` lowers the model's
    own limit. `stop_loops` ends a page that repeats itself while its gaze stands still. `pages_ahead` is
    how many pages beyond the slots `Engine.read` takes from its input. `prefill_chunk` is how many entries of
    a prompt go through the decoder between two steps of the pages being decoded; smaller keeps those pages
    moving, larger reads the prompt faster. A page that is not finished `seconds_per_page` after it was taken in
    ends as an error (TimeoutError), None for no limit; a single step that never returns is not ended by it. Of a page
    read in parts every part has this time, and after one that failed no other is begun.
    """

    token_budget: int | None = None
    max_output_tokens: int | None = None
    stop_loops: bool = True
    pages_ahead: int = 8
    prefill_chunk: int = 1024
    seconds_per_page: float | None = 900.0

    def __post_init__(self) -> None:
        for name in ("token_budget", "max_output_tokens", "prefill_chunk"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if self.pages_ahead < 0:
            raise ValueError("pages_ahead must not be negative")
        if self.seconds_per_page is not None and not self.seconds_per_page > 0:
            raise ValueError(f"seconds_per_page must be positive, not {self.seconds_per_page}")
