"""What a run kept, read and held of the cache: the four numbers by which sparse methods are compared.

A method that skips rows and one that evicts them look alike in one number and differ in another: fixation
saves reads only, eviction saves memory too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fastocr_core.decoding.base import Policy
from fastocr_core.models.base import DecoderShape
from fastocr_core.output import PageText


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """Means over the pages of a run that were read, each weighted by its steps past the warm-up.

    `kept_tokens_per_layer` are image tokens seen in such a step, averaged over layers and KV heads;
    `image_tokens` those of the page. Bytes are of image keys and values over all layers:
    `kv_bytes_read_per_step` for one page in one step, `kv_bytes_resident` what the method must hold,
    `kv_bytes_full` all of them. `extra_bytes` are scores and indices of one page.
    """

    pages: int
    image_tokens: float
    kept_tokens_per_layer: float
    kv_bytes_read_per_step: float
    kv_bytes_resident: float
    kv_bytes_full: float
    extra_bytes: float
    image_kv_read_share: float
    kv_resident_share: float


def token_bytes(shape: DecoderShape, element_bytes: int) -> int:
    """Keys and values of one cached token in all layers."""
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * element_bytes


def budget_report(
    policy: Policy, shape: DecoderShape, element_bytes: int, results: Sequence[PageText]
) -> BudgetReport:
    """The report of one run. ValueError if no page was read."""
    pages = [page for page in results if page.error is None and page.image_tokens]
    if not pages:
        raise ValueError("no page was read, so there is nothing to account for")
    steps = [max(0, page.output_tokens - policy.warmup_steps) for page in pages]
    if not any(steps):
        steps = [1] * len(pages)
    row = token_bytes(shape, element_bytes)

    def mean(values: Iterable[float]) -> float:
        return sum(value * weight for value, weight in zip(values, steps, strict=True)) / sum(steps)

    image_tokens = mean(page.image_tokens for page in pages)
    kept = mean(page.image_kv_read_share * page.image_tokens for page in pages)
    held = mean(page.kv_resident_share * page.image_tokens for page in pages)
    return BudgetReport(
        pages=len(pages),
        image_tokens=image_tokens,
        kept_tokens_per_layer=kept,
        kv_bytes_read_per_step=row * kept,
        kv_bytes_resident=row * held,
        kv_bytes_full=row * image_tokens,
        extra_bytes=shape.kv_heads * mean(policy.extra_bytes(page.image_tokens) for page in pages),
        image_kv_read_share=kept / image_tokens,
        kv_resident_share=held / image_tokens,
    )
