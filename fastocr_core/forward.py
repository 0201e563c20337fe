"""Runs the decoder: a piece of one page's prompt, or one step of all slots.

A prompt runs alone in its own shape, cut where its own length says; a step always at the full number of
slots (empty ones on a dummy token), so that every linear layer sees the same shapes whoever else is being
read.
"""

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fastocr_core.attention.base import AttentionBackend, Step
from fastocr_core.attention.prefill import PromptCall
from fastocr_core.attention.transformers_hook import DecodeCall, hook_decoder
from fastocr_core.decoding.base import ImageGrid, Policy
from fastocr_core.kv_cache import SlotCache
from fastocr_core.models.base import ModelAdapter, PromptLayout
from fastocr_core.step_experts import StepExperts


@dataclass(frozen=True, slots=True)
class Choice:
    """The greedy next token of one slot, and its natural-log probability among all tokens.

    `logprob` is not finite if the model broke down. `banned` says that the model's own guard changed the
    choice.
    """

    token: int
    logprob: float
    banned: bool = False


@dataclass(slots=True, eq=False)
class Prompt:
    """A prompt on its way into the cache: `embeddings` [1, T, hidden], of which `done` entries are cached."""

    slot: int
    layout: PromptLayout
    grid: ImageGrid
    embeddings: Tensor
    done: int = 0

    @property
    def left(self) -> int:
        """Entries not yet cached."""
        return self.embeddings.shape[1] - self.done


class DecoderForward:
    """Prefill and steps of one model over one slot cache. Not thread-safe."""

    def __init__(
        self, model: ModelAdapter, cache: SlotCache, backend: AttentionBackend, policy: Policy
    ) -> None:
        hook_decoder(model.decoder)
        self._model, self._cache, self._backend, self._policy = model, cache, backend, policy
        self._experts = StepExperts(model.decoder)
        parameters = inspect.signature(model.decoder.forward).parameters
        # transformers renamed the argument in 5.24.
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"

    def prompt(self, slot: int, image: Tensor, layout: PromptLayout, grid: ImageGrid) -> Prompt:
        """The prompt of a page whose image is `image` [image_tokens, hidden]."""
        expected = (layout.image_tokens, self._model.shape.hidden)
        if image.shape != expected:
            raise ValueError(f"encoding has shape {tuple(image.shape)}, expected {expected}")
        ids = torch.tensor(layout.ids, dtype=torch.int64, device=image.device)
        start = layout.image_start
        places = torch.cat(
            (layout.positions[:, :start], layout.positions[:, start + layout.image_tokens :]), dim=1
        ).to(image.device)
        text = self._model.embed(ids, places)  # [prompt tokens, hidden]
        embeddings = torch.cat((text[:start], image.to(text.dtype), text[start:]))[None]
        if embeddings.shape[1] != layout.positions.shape[1]:
            raise ValueError(
                f"{embeddings.shape[1]} prompt entries, but positions for {layout.positions.shape[1]}"
            )
        return Prompt(slot, layout, grid, embeddings)

    def prefill(self, prompt: Prompt, most: int, banned: Collection[int] = ()) -> Choice | None:
        """Cache the next `most` entries; the first output token, none of `banned`, once all are cached."""
        first, last = prompt.done, min(prompt.done + most, prompt.embeddings.shape[1])
        call = PromptCall(self._policy, prompt.slot, prompt.layout, prompt.grid, first)
        self._cache.begin_prefill(prompt.slot, prompt.layout, call, first)
        positions = prompt.layout.positions[:, first:last].to(prompt.embeddings.device)
        hidden = self._forward(prompt.embeddings[:, first:last], positions[:, None])
        prompt.done = last
        if prompt.left:
            return None
        return _choices(self._model.logits(hidden[:, -1]), {0: banned})[0]

    def step(
        self, tokens: Tensor, positions: Tensor, step: Step, banned: Mapping[int, Collection[int]]
    ) -> list[Choice]:
        """Feed `tokens` [slots] (any id in empty slots) at `positions` [axes, slots]; the tokens after them,
        by slot none of `banned`.
        """
        embeddings = self._model.embed(tokens, positions)[:, None]  # [slots, 1, hidden]
        self._cache.begin_step(DecodeCall(self._backend, self._cache, step), step.live)
        with self._experts.in_step():
            hidden = self._forward(embeddings, positions[:, :, None])
        return _choices(self._model.logits(hidden[:, 0]), banned)

    def _forward(self, embeddings: Tensor, positions: Tensor) -> Tensor:
        """[B, T, hidden] at positions [axes, B, T] -> hidden states [B, T, hidden]."""
        try:
            output = self._model.decoder(
                inputs_embeds=embeddings,
                position_ids=positions[0] if len(positions) == 1 else positions,
                use_cache=True,
                **{self._cache_argument: self._cache},
                **(self._cache.step_keywords() if self._cache_argument == "past_key_values" else {}),
            )
        finally:
            self._cache.end_forward()
        hidden: Tensor = output.last_hidden_state
        return hidden


def _choices(logits: Tensor, banned: Mapping[int, Collection[int]]) -> list[Choice]:
    """Greedy choices from logits [B, vocabulary], by row without the banned tokens."""
    logprobs = logits.float().log_softmax(-1)
    best, tokens = logprobs.max(-1)
    choices = [Choice(token, logprob) for token, logprob in zip(tokens.tolist(), best.tolist(), strict=True)]
    for row, forbidden in banned.items():
        if choices[row].token in forbidden:
            allowed = logprobs[row].index_fill(
                0, torch.tensor(sorted(forbidden), device=logits.device), -torch.inf
            )
            token = int(allowed.argmax())
            choices[row] = Choice(token, float(allowed[token]), banned=True)
    return choices
