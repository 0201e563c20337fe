"""The state of one page on its way through the engine, and how it becomes a `PageText`."""

import time
from concurrent.futures import Future
from dataclasses import dataclass, field

from fastocr_core.attention.base import ReadCount
from fastocr_core.config import DecodePolicy
from fastocr_core.guards import LoopGuard
from fastocr_core.models.base import ModelAdapter, ParsedText, PromptLayout
from fastocr_core.output import FinishReason, PageText, mean_logprob, min_logprob_window
from fastocr_core.vision.prepared import PreparedPage


@dataclass(slots=True, eq=False)
class Request:
    """A page waiting for a slot. Pages are taken in by `number`, the order of submission.

    `started`: the caller knows that the page is being worked on. `alone`: it was in a batch that broke and is
    read again without company, so that only the page that breaks a step pays for it. `memory_before` are the
    slots and the token budget before this page first ran out of memory.
    """

    page: PreparedPage
    layout: PromptLayout
    future: "Future[PageText]"
    submitted_at: float
    number: int = 0
    started: bool = False
    alone: bool = False
    memory_before: tuple[int, int | None] | None = None

    def tokens_at_most(self, max_output_tokens: int) -> int:
        """Cached tokens that the page can grow to."""
        return len(self.layout.ids) + self.layout.image_tokens + max_output_tokens


@dataclass(slots=True, eq=False)
class Sequence:
    """A page in a slot. Times are of the monotonic clock. `layout` is the prompt as cached: a policy may have
    left fewer image tokens than the page has.
    """

    request: Request
    slot: int
    layout: PromptLayout
    admitted_at: float
    prefilled_at: float = 0.0
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    reads: ReadCount = field(default_factory=ReadCount)
    guard: LoopGuard = field(default_factory=LoopGuard)
    banned: int = 0

    @property
    def cached_share(self) -> float:
        """Cached image tokens per image token of the page."""
        return self.layout.image_tokens / max(1, self.request.layout.image_tokens)


def finished_page(
    sequence: Sequence,
    model: ModelAdapter,
    policy: DecodePolicy,
    reason: FinishReason,
    error: str | None,
    resident_share: float,
) -> PageText:
    """The result of a page that was decoded to its end, or until `error`; the text so far is kept.

    `resident_share` is of the cached image rows.
    """
    page = sequence.request.page
    parsed = ParsedText("", "text", ())
    try:
        parsed = model.parse(sequence.tokens, page)
    except Exception as failure:  # an adapter must not take other pages down with it
        reason, error = "error", error or described(failure)
    logprobs = tuple(sequence.logprobs)
    return PageText(
        text=parsed.text,
        format=parsed.format,
        blocks=parsed.blocks,
        tokens=tuple(sequence.tokens),
        logprobs=logprobs,
        finish_reason=reason,
        error=error,
        mean_logprob=mean_logprob(logprobs),
        min_logprob_window=min_logprob_window(logprobs),
        image_tokens=page.image_tokens,
        output_tokens=len(sequence.tokens),
        image_kv_read_share=sequence.reads.share * sequence.cached_share,
        policy=policy.name,
        kept_share=policy.kept_share,
        queue_seconds=sequence.admitted_at - sequence.request.submitted_at,
        encode_seconds=sequence.prefilled_at - sequence.admitted_at,
        decode_seconds=time.monotonic() - sequence.prefilled_at,
        loop_period=sequence.guard.period,
        loop_share=sequence.guard.cycle_tokens / max(1, len(sequence.tokens)),
        kv_resident_share=resident_share * sequence.cached_share,
        banned_tokens=sequence.banned,
    )


def failed_page(policy: DecodePolicy, error: str, image_tokens: int, queue_seconds: float) -> PageText:
    """The result of a page that never reached a slot."""
    return PageText(
        text="",
        format="text",
        blocks=(),
        tokens=(),
        logprobs=(),
        finish_reason="error",
        error=error,
        mean_logprob=0.0,
        min_logprob_window=0.0,
        image_tokens=image_tokens,
        output_tokens=0,
        image_kv_read_share=1.0,
        policy=policy.name,
        kept_share=policy.kept_share,
        queue_seconds=queue_seconds,
        encode_seconds=0.0,
        decode_seconds=0.0,
    )


def described(failure: BaseException) -> str:
    """One line: the kind of failure and what it says."""
    return f"{type(failure).__name__}: {failure}".splitlines()[0]
