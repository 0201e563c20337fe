"""What comes out of the reader: plain data without torch.

`PageText` is the result of one page, including a page that failed (errors are results, never lost pages).
"""

from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "length", "loop", "error"]
LOGPROB_WINDOW = 32


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of the page. `box` is x0, y0, x1, y1 in pixels of the given image, None where the model says
    nothing; `word_boxes` are those of the words of `text`, empty where the model does not tell them apart.
    """

    kind: str
    box: tuple[float, float, float, float] | None
    text: str
    word_boxes: tuple[tuple[float, float, float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedText:
    """Model tokens turned into text; `format` is `text` or `markdown`."""

    text: str
    format: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class PageText:
    """The reading of one page.

    `logprobs` are natural logarithms, one per token of `tokens` (the stop token is counted in neither);
    `min_logprob_window` is the lowest mean over 32 consecutive tokens. `image_kv_read_share` is the counted
    share of the page's image rows (one head of one token in one layer) really read after the warm-up, 1.0 for
    dense decoding; `kv_resident_share` the share that must stay in memory for it, below 1.0 where a policy
    evicts. `loop_period` is the length in tokens of the cycle in which the output ended (0: none) and
    `loop_share` the share of the output that this cycle makes up; only `finish_reason` says whether it was a
    proven loop. `banned_tokens` counts choices changed by the model's own guard. Times are wall-clock seconds.
    """

    text: str
    format: str
    blocks: tuple[Block, ...]
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason
    error: str | None
    mean_logprob: float
    min_logprob_window: float
    image_tokens: int
    output_tokens: int
    image_kv_read_share: float
    policy: str
    kept_share: float
    queue_seconds: float
    encode_seconds: float
    decode_seconds: float
    loop_period: int = 0
    loop_share: float = 0.0
    kv_resident_share: float = 1.0
    banned_tokens: int = 0


def mean_logprob(logprobs: tuple[float, ...]) -> float:
    """The mean; 0.0 for an empty page, which is certain of having nothing to say."""
    return sum(logprobs) / len(logprobs) if logprobs else 0.0


def min_logprob_window(logprobs: tuple[float, ...], window: int = LOGPROB_WINDOW) -> float:
    """The lowest mean over `window` consecutive tokens, over all tokens where there are fewer."""
    if len(logprobs) <= window:
        return mean_logprob(logprobs)
    total = lowest = sum(logprobs[:window])
    for entering, leaving in zip(logprobs[window:], logprobs, strict=False):
        total += entering - leaving
        lowest = min(lowest, total)
    return lowest / window
