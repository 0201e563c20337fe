"""The adapter contract: everything the engine needs to know about a model.

An adapter turns a prepared page into embeddings, lays out the prompt, and maps hidden states to logits.
Decoding, caching and batching are the engine's; the decoder is an ordinary transformers text model.
"""

import abc
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from fastocr_core.config import Pooling
from fastocr_core.output import Block, ParsedText
from fastocr_core.vision.prepared import ModelVision, PreparedPage

if TYPE_CHECKING:
    from fastocr_core.decoding.base import ImageGrid

__all__ = ["Block", "DecoderShape", "ImageEncoding", "ModelAdapter", "ParsedText", "PromptLayout"]


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """Sizes of the text decoder."""

    layers: int
    query_heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    vocabulary: int


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """The prompt of one page as the decoder sees it.

    The sequence has T entries: `ids` without the image placeholders, with `image_tokens` image embeddings
    inserted before `ids[image_start]`, so that T = len(ids) + image_tokens. `positions` is int64 [axes, T],
    axes 1 or 3.
    """

    ids: tuple[int, ...]
    image_start: int
    image_tokens: int
    positions: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class ImageEncoding:
    """What the vision side makes of one page of N image tokens.

    `embeddings` [N, hidden] go into the prompt. `received` [N] is the mean attention that each token received
    in the tower's last block with full attention, `keys` [N, d] its keys there averaged over heads; None where
    the model does not offer them.
    """

    embeddings: Tensor
    received: Tensor | None = None
    keys: Tensor | None = None


class ModelAdapter(abc.ABC):
    """One model. Attributes are set by the constructor of the subclass.

    `text_window`: an output token sees all image and prompt tokens and the last `text_window` outputs,
    itself included; None for all. `focal_layers` is the stored profile, `default_floor` the least number of
    image tokens that sparse decoding keeps, `default_pooling` how a focal layer's heads vote,
    `max_prompt_tokens` the longest prompt in text tokens, for which every slot keeps room.
    `decoder` is called as `decoder(inputs_embeds=[B, T, hidden],
    position_ids=[B, T] or [axes, B, T], cache=..., use_cache=True)`, the prompt in one call or in chunks, and
    must route attention through the transformers attention interface. `makes_sense` is False
    for a toy, whose text is not to be judged. Positions have as many axes as
    `layout` gives them: 1, or 3 for the M-RoPE of Qwen2.5-VL.
    """

    name: str
    revision: str
    vision: ModelVision
    shape: DecoderShape
    stop_ids: frozenset[int]
    default_prompt: str
    max_output_tokens: int
    max_prompt_tokens: int = 1024
    text_window: int | None = None
    focal_layers: tuple[int, ...] = ()
    default_floor: int = 64
    default_pooling: Pooling = "kv_max"
    makes_sense: bool = True
    decoder: nn.Module

    @abc.abstractmethod
    def encode(self, page: PreparedPage) -> Tensor:
        """Image embeddings [image_tokens, hidden] of one page, on the decoder's device and in its dtype."""

    def encode_scored(self, page: PreparedPage) -> ImageEncoding:
        """`encode` with the scores and keys that compression of the image asks for, where the model has them."""
        return ImageEncoding(self.encode(page))

    def image_grid(self, page: PreparedPage) -> "ImageGrid":
        """Where the cells of the page lie among its image tokens."""
        from fastocr_core.decoding.base import ImageGrid

        return ImageGrid(page.grid_rows, page.grid_columns)

    @abc.abstractmethod
    def layout(self, page: PreparedPage, prompt: str | None) -> PromptLayout:
        """The prompt around the image; None means `default_prompt`."""

    @abc.abstractmethod
    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Token embeddings: int64 [T] at positions int64 [axes, T] -> [T, hidden]. Most models ignore positions."""

    @abc.abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """Next-token logits: [..., hidden] -> [..., vocabulary]."""

    @abc.abstractmethod
    def parse(self, tokens: Sequence[int], page: PreparedPage) -> ParsedText:
        """Output tokens (without the stop token) as text and blocks in pixels of the given image."""

    def text(self, tokens: Sequence[int], page: PreparedPage) -> str:
        """The text of `parse`; adapters that find boxes on the page's pixels give it without them."""
        return self.parse(tokens, page).text

    def ban(self, tokens: Sequence[int]) -> Collection[int]:
        """Tokens that may not follow the output `tokens` of a page: the model's own guard, none by default."""
        return ()

    def turn_wanted(self, tokens: Sequence[int]) -> int:
        """Degrees (0, 90, 180, 270, counter-clockwise) by which the page should be turned and read again, as the
        model says in its output `tokens`; 0 for models that say nothing of the kind.
        """
        return 0

    def next_positions(self, positions: Tensor, tokens: Tensor) -> Tensor:
        """Positions of `tokens` [B], which follow the entries at `positions`; both int64 [axes, B]."""
        return positions + 1

    def to(self, device: torch.device) -> None:
        """Move everything with weights; adapters with a vision tower of their own extend this."""
        self.decoder.to(device)

    @property
    def device(self) -> torch.device:
        """Where the decoder lives."""
        return next(self.decoder.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """What the decoder computes in."""
        return next(self.decoder.parameters()).dtype
