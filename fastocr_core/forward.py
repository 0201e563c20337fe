"""Runs the decoder: the prompt of one page, or one step of all slots.

A prompt runs alone in its own shape, a step always at the full number of slots (empty ones on a dummy
token), so that every linear layer sees the same shapes whoever else is being read.
"""

import inspect
from dataclasses import dataclass

import torch
from torch import Tensor

from fastocr_core.attention.base import AttentionBackend, Step
from fastocr_core.attention.transformers_hook import DecodeCall, hook_decoder
from fastocr_core.kv_cache import SlotCache
from fastocr_core.models.base import ModelAdapter, PromptLayout


@dataclass(frozen=True, slots=True)
class Choice:
    """The greedy next token of one slot; `logprob` is not finite if the model broke down."""

    token: int
    logprob: float


class DecoderForward:
    """Prefill and steps of one model over one slot cache. Not thread-safe."""

    def __init__(self, model: ModelAdapter, cache: SlotCache, backend: AttentionBackend, slots: int) -> None:
        hook_decoder(model.decoder)
        self._model, self._cache, self._backend, self._slots = model, cache, backend, slots
        parameters = inspect.signature(model.decoder.forward).parameters
        # transformers renamed the argument in 5.24.
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"

    def prefill(self, slot: int, image: Tensor, layout: PromptLayout) -> Choice:
        """Cache the prompt of one page with `image` [image_tokens, hidden]; the first output token."""
        if image.shape != (layout.image_tokens, self._model.shape.hidden):
            expected = (layout.image_tokens, self._model.shape.hidden)
            raise ValueError(f"encoding has shape {tuple(image.shape)}, expected {expected}")
        ids = torch.tensor(layout.ids, device=image.device)
        start = layout.image_start
        places = torch.cat(
            (layout.positions[:, :start], layout.positions[:, start + layout.image_tokens :]), dim=1
        ).to(image.device)
        text = self._model.embed(ids, places)  # [prompt tokens, hidden]
        embeddings = torch.cat((text[:start], image.to(text.dtype), text[start:]))[None]  # [1, T, hidden]
        self._cache.begin_prefill(slot, layout, None)
        hidden = self._forward(embeddings, layout.positions.to(image.device)[:, None])
        return _choices(self._model.logits(hidden[:, -1]))[0]

    def step(self, tokens: Tensor, positions: Tensor, step: Step) -> list[Choice]:
        """Feed `tokens` [slots] (any id in empty slots) at `positions` [axes, slots]; the tokens after them."""
        embeddings = self._model.embed(tokens, positions)[:, None]  # [slots, 1, hidden]
        self._cache.begin_step(DecodeCall(self._backend, self._cache, step))
        hidden = self._forward(embeddings, positions[:, :, None])
        return _choices(self._model.logits(hidden[:, 0]))

    def _forward(self, embeddings: Tensor, positions: Tensor) -> Tensor:
        """[B, T, hidden] at positions [axes, B, T] -> hidden states [B, T, hidden]."""
        output = self._model.decoder(
            inputs_embeds=embeddings,
            position_ids=positions[0] if len(positions) == 1 else positions,
            use_cache=True,
            **{self._cache_argument: self._cache},
        )
        hidden: Tensor = output.last_hidden_state
        return hidden


def _choices(logits: Tensor) -> list[Choice]:
    """Greedy choices from logits [B, vocabulary]."""
    best, tokens = logits.float().log_softmax(-1).max(-1)
    return [Choice(token, logprob) for token, logprob in zip(tokens.tolist(), best.tolist(), strict=True)]
