"""Plain settings of the reader: how to decode, and how much at once.

Frozen dataclasses of the standard library only; no torch, so that a driver or a command line can build and
hash them.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

Pooling = Literal["kv_max", "kv_mean", "layer_max", "layer_mean"]
POOLINGS: tuple[Pooling, ...] = ("kv_max", "kv_mean", "layer_max", "layer_mean")
POLICY_NAMES: tuple[str, ...] = ("dense", "fastocr")


@dataclass(frozen=True, slots=True)
class DecodePolicy:
    """Which image tokens a decode step may look at. Build with `dense()`, `fastocr()` or `named()`.

    `kept_share` is the paper's tau; `floor` the least number of image tokens kept, None for the model's own
    default; `focal_layers` the layers that look at everything and choose, None for the model's stored
    profile; `pooling` how a focal layer's heads vote (one set per KV head or one per layer, by maximum or
    mean), None for the model's own way; `reuse` lets the layers before the first focal layer use the
    previous step's fixation (off: they look at everything).
    """

    name: str = "dense"
    kept_share: float = 1.0
    floor: int | None = None
    warmup_steps: int = 16
    focal_layers: tuple[int, ...] | None = None
    pooling: Pooling | None = None
    reuse: bool = True

    def __post_init__(self) -> None:
        if self.name not in POLICY_NAMES:
            raise ValueError(f"unknown decode policy {self.name!r}; known: {', '.join(POLICY_NAMES)}")
        if not 0.0 < self.kept_share <= 1.0:
            raise ValueError(f"kept_share must lie in (0, 1], not {self.kept_share}")
        if self.floor is not None and self.floor < 1:
            raise ValueError(f"floor must be at least 1, not {self.floor}")
        if self.warmup_steps < 1:
            raise ValueError("warmup_steps must be at least 1: the last dense step seeds the first fixation")
        layers = self.focal_layers
        if layers is not None and (not layers or min(layers) < 0):
            raise ValueError("focal_layers must name at least one layer, counted from 0")
        if self.pooling is not None and self.pooling not in POOLINGS:
            raise ValueError(f"unknown pooling {self.pooling!r}; known: {', '.join(POOLINGS)}")

    @classmethod
    def dense(cls) -> "DecodePolicy":
        """Every step looks at every image token."""
        return cls()

    @classmethod
    def fastocr(
        cls,
        kept_share: float = 0.05,
        floor: int | None = None,
        warmup_steps: int = 16,
        focal_layers: tuple[int, ...] | None = None,
        pooling: Pooling | None = None,
        reuse: bool = True,
    ) -> "DecodePolicy":
        """Focal-guided pruning with cross-step fixation reuse (arXiv 2605.17447)."""
        return cls("fastocr", kept_share, floor, warmup_steps, focal_layers, pooling, reuse)

    @classmethod
    def named(cls, name: str, **settings: Any) -> "DecodePolicy":
        """The policy of that name with its defaults, changed by `settings`; unknown settings raise
        ValueError.
        """
        known = {field.name for field in fields(cls)} - {"name"}
        unknown = sorted(set(settings) - known)
        if unknown:
            raise ValueError(f"unknown setting of a decode policy: {', '.join(unknown)}")
        if name == "fastocr":
            return cls.fastocr(**settings)
        return replace(cls(name), **settings)


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """How much an engine takes on.

    `token_budget` bounds the cached tokens (image, prompt and the longest output) of all pages decoded at
    once, None for no bound but the slots; a single page always fits. `max_output_tokens` lowers the model's
    own limit. `stop_loops` ends a page that repeats itself while its gaze stands still. `pages_ahead` is
    how many pages beyond the slots `Engine.read` takes from its input.
    """

    token_budget: int | None = None
    max_output_tokens: int | None = None
    stop_loops: bool = True
    pages_ahead: int = 8

    def __post_init__(self) -> None:
        for name in ("token_budget", "max_output_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if self.pages_ahead < 0:
            raise ValueError("pages_ahead must not be negative")
