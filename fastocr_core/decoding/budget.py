"""What a run kept, read and held of the cache: the four numbers by which sparse methods are compared.

A method that skips rows and one that evicts them look alike in one number and differ in another: fixation
saves reads only, eviction saves memory too.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from fastocr_core.decoding.base import Policy
from fastocr_core.models.base import DecoderShape
from fastocr_core.output import PageText


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """The mean page of a run, of the pages that were read, in a step past the warm-up.

    `image_tokens` is the mean over the pages, the same for all policies; the shares are of all image rows of
    all such steps. Tokens and bytes are these shares of the mean page: `kept_tokens_per_layer` image tokens
    seen in a step, averaged over layers and KV heads; `kv_bytes_read_per_step` image keys and values of all
    layers read for one page in one step, `kv_bytes_resident` those that the method must hold,
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

    image_tokens = statistics.fmean(page.image_tokens for page in pages)
    rows = [page.image_tokens * count for page, count in zip(pages, steps, strict=True)]

    def share(of_pages: Sequence[float]) -> float:
        return sum(each * weight for each, weight in zip(of_pages, rows, strict=True)) / sum(rows)

    read = share([page.image_kv_read_share for page in pages])
    resident = share([page.kv_resident_share for page in pages])
    extra = statistics.fmean(policy.extra_bytes(page.image_tokens) for page in pages)
    return BudgetReport(
        pages=len(pages),
        image_tokens=image_tokens,
        kept_tokens_per_layer=image_tokens * read,
        kv_bytes_read_per_step=row * image_tokens * read,
        kv_bytes_resident=row * image_tokens * resident,
        kv_bytes_full=row * image_tokens,
        extra_bytes=shape.kv_heads * extra,
        image_kv_read_share=read,
        kv_resident_share=resident,
    )
