"""What a study of fixation measures, and what of it cannot be meant."""

from collections.abc import Iterator
from dataclasses import dataclass

from fastocr_core.config import DecodePolicy
from fastocr_core.evaluation.contenders import KEPT_SHARES

GROUPS = ("choice", "nominal", "bytes")
BASELINE_GROUPS = ("nominal", "bytes")
WARMUP_STEPS = DecodePolicy.fastocr().warmup_steps


@dataclass(frozen=True, slots=True)
class FixationSettings:
    """What is measured. `groups` are of GROUPS; baselines read `baseline_pages` of the pages (None: all).

    `focal_counts` are the |C| to try, `page_focal_counts` those whose layers each page chooses itself. `forced_pages`
    pages are read with the pen held, up to `forced_steps` tokens of each, attention compared at every `stride`-th
    step (0 pages: no held pen). `batch` readings are decoded at once. ValueError, in one sentence, for what cannot be.
    """

    kept_shares: tuple[float, ...] = KEPT_SHARES
    groups: tuple[str, ...] = GROUPS
    warmups: tuple[int, ...] = (1, 4, 64)
    focal_sets: tuple[tuple[int, ...], ...] = ()
    focal_counts: tuple[int, ...] = (1, 2, 3)
    page_focal_counts: tuple[int, ...] = (1, 2)
    baseline_pages: int | None = None
    batch: int = 24
    max_output_tokens: int | None = None
    forced_pages: int = 3
    forced_steps: int = 400
    stride: int = 8
    skipped: int = WARMUP_STEPS + 1

    def __post_init__(self) -> None:
        for refusal in (*self._wrong_lists(), *self._wrong_numbers()):
            raise ValueError(refusal)

    def _wrong_lists(self) -> Iterator[str]:
        """What is wrong with the lists, a sentence each."""
        if not self.kept_shares:
            yield "kept_shares must name at least one share"
        for share in self.kept_shares:
            if not 0.0 < share <= 1.0:
                yield f"kept_shares must lie in (0, 1], not {share:g}"
        for group in self.groups:
            if group not in GROUPS:
                yield f"unknown group {group!r}; known: {', '.join(GROUPS)}"
        for layers in self.focal_sets:
            if not layers or min(layers) < 0 or len(set(layers)) < len(layers):
                yield f"focal layers are counted from 0, each once, not {'+'.join(map(str, layers))}"
        for name in ("warmups", "focal_counts", "page_focal_counts"):
            for value in getattr(self, name):
                if value < 1:
                    yield f"{name} must be at least 1, not {value}"
        for name in ("kept_shares", "groups", "warmups", "focal_sets", "focal_counts", "page_focal_counts"):
            values = getattr(self, name)
            twice = next((value for value in values if values.count(value) > 1), None)
            if twice is not None:
                yield f"{name} must not name {twice} twice"

    def _wrong_numbers(self) -> Iterator[str]:
        """What is wrong with the single numbers, a sentence each."""
        for name in ("baseline_pages", "batch", "max_output_tokens", "forced_steps", "stride"):
            value = getattr(self, name)
            if value is not None and value < 1:
                yield f"{name} must be at least 1, not {value}"
        for name in ("forced_pages", "skipped"):
            if getattr(self, name) < 0:
                yield f"{name} must be at least 0, not {getattr(self, name)}"
        least = -(-self.skipped // self.stride) * self.stride
        for name in ("forced_steps", "max_output_tokens"):
            value = getattr(self, name)
            if self.forced_pages and value is not None and value < least:
                held = "where pages are read with the pen held (forced_pages)"
                yield (
                    f"{name} must be at least {least} {held}, not {value}: the first {self.skipped} steps of each "
                    f"are not compared, attention is at every {self.stride}th"
                )
