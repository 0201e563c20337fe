"""A reader that costs the time of a large model and reads nothing: what a pipeline is measured with where there
is no GPU.

It is the toy `tiny` with the rhythm of a 7B model at a tenth of the length: each step waits for a device, as a
GPU lets its host wait, the image has to be encoded, and a page writes as much as `rhythm.py` says of it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from fastocr_core.bench.rhythm import Rhythm
from fastocr_core.models.base import Block, DecoderShape, ParsedText, PromptLayout
from fastocr_core.models.tiny import TinyAdapter
from fastocr_core.vision.prepared import PreparedPage

_SEED = 711
_SIGNS = "the quick brown fox jumps over a lazy dog and reads on. "


class PacedAdapter(TinyAdapter):
    """Writes a countdown from the number of tokens that the page has to its stop token, 0.

    A token is embedded as a row of signs, the decoder's layers add nothing to it, and the head knows each row's
    successor. `wait` lets time pass, in seconds.
    """

    def __init__(self, rhythm: Rhythm | None = None, wait: Callable[[float], None] = time.sleep) -> None:
        super().__init__()
        self.rhythm, self._wait = rhythm or Rhythm(), wait
        most = self.rhythm.most_tokens
        self.shape: DecoderShape = replace(self.shape, vocabulary=most + 2)
        self.stop_ids, self.max_output_tokens = frozenset({0}), most + 1
        generator = torch.Generator().manual_seed(_SEED)
        self._rows = torch.randn(most + 2, self.shape.hidden, generator=generator).sign()
        self._successors = torch.cat((self._rows[1:], torch.zeros_like(self._rows[:1]))).T.contiguous()
        for name, parameter in self.decoder.named_parameters():
            if "o_proj" in name or "down_proj" in name:
                parameter.zero_()

    def to(self, device: torch.device) -> None:
        super().to(device)
        self._rows, self._successors = self._rows.to(device), self._successors.to(device)

    def encode(self, page: PreparedPage) -> Tensor:
        self._wait(page.image_tokens * self.rhythm.encode_seconds_per_token)
        return super().encode(page)

    def layout(self, page: PreparedPage, prompt: str | None) -> PromptLayout:
        """Image, then the number to count down from."""
        positions = torch.arange(page.image_tokens + 1)[None]
        return PromptLayout((self.rhythm.tokens_of(page) + 1,), 0, page.image_tokens, positions)

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        return nn.functional.embedding(ids, self._rows)

    def logits(self, hidden: Tensor) -> Tensor:
        self._wait(self.rhythm.step_seconds)
        return hidden @ self._successors

    def parse(self, tokens: Sequence[int], page: PreparedPage) -> ParsedText:
        """Filler of the length written, in one block over the whole page."""
        text = (_SIGNS * (len(tokens) // len(_SIGNS) + 1))[: len(tokens)]
        box = (0.0, 0.0, float(page.source_width), float(page.source_height))
        return ParsedText(text, "text", (Block("text", box, text),) if text else ())
