"""What Qwen2.5-VL, olmOCR and LLaVA-OneVision have in common: one image and one text in a user message, answered in
plain text. The families add how they see and where their tokens stand.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from fastocr_core.decoding.focal import default_focal_layers
from fastocr_core.models.base import Block, ModelAdapter, ParsedText
from fastocr_core.models.chat_prompt import ChatPrompt
from fastocr_core.models.checkpoint import Checkpoint, fill
from fastocr_core.models.image_statistics import ImageStatistics
from fastocr_core.models.text_decoder import decoder_shape
from fastocr_core.models.tokenizer import Tokenizer
from fastocr_core.models.weight_type import stored_type
from fastocr_core.vision.prepared import ModelVision, PreparedPage

READ_PROMPT = "Read all the text on this page, in reading order. Return only the text."
EMBEDDING, HEAD = "model.language_model.embed_tokens.weight", "lm_head.weight"


@dataclass(frozen=True, slots=True)
class ChatParts:
    """A loaded checkpoint: what an adapter is made of. `model` is transformers' model with a head."""

    model: Any
    revision: str
    tokenizer: Tokenizer
    statistics: ImageStatistics
    chat: ChatPrompt
    stop_ids: frozenset[int]


class ChatAdapter(ModelAdapter):
    """Everything but seeing and positions: `encode` and `layout` are the family's."""

    def __init__(
        self, name: str, parts: ChatParts, vision: ModelVision, prompt: str, max_output_tokens: int
    ) -> None:
        self.name, self.revision, self.vision = name, parts.revision, vision
        config = parts.model.config
        self.shape = decoder_shape(config.text_config)
        self.stop_ids = parts.stop_ids
        self.default_prompt = prompt
        # Half of a small context is left to the prompt.
        self.max_output_tokens = min(max_output_tokens, config.text_config.max_position_embeddings // 2)
        self.focal_layers = default_focal_layers(self.shape.layers)
        self.model, self.tokenizer = parts.model, parts.tokenizer
        self._chat, self._statistics = parts.chat, parts.statistics
        self._image_id = int(config.image_token_id)
        self.decoder = cast("nn.Module", parts.model.model.language_model)

    def to(self, device: torch.device) -> None:
        """Move decoder, head and vision tower."""
        self.model.to(device)

    def prompt_ids(self, prompt: str | None) -> tuple[tuple[int, ...], int]:
        """The chat without the image's tokens, and where those go in. ValueError for a placeholder in the prompt."""
        wording = self.default_prompt if prompt is None else prompt
        return self._chat.ids(wording, self.tokenizer, self._image_id)

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Rows of the embedding; positions do not matter."""
        rows: Tensor = self.model.model.language_model.embed_tokens(ids)
        return rows

    def logits(self, hidden: Tensor) -> Tensor:
        """The head."""
        scores: Tensor = self.model.lm_head(hidden)
        return scores

    def parse(self, tokens: Sequence[int], page: PreparedPage) -> ParsedText:
        """The answer as plain text in one block without a place."""
        text = self.tokenizer.decode(tokens, keep_special=False).strip()
        return ParsedText(text, "text", (Block("text", None, text),) if text else ())


def check_image_token(tokenizer: Tokenizer, token: str, config: Any, checkpoint: Checkpoint) -> None:
    """ValueError if vocabulary and configuration name different image tokens."""
    found = tokenizer.id_of(token)
    if found != config.image_token_id:
        raise ValueError(
            f"{checkpoint.folder}: config.json has image token {config.image_token_id}, the vocabulary {found}"
        )


def fill_chat_model(
    model: Any, checkpoint: Checkpoint, module_key: Callable[[str], str | None], dtype: torch.dtype | None
) -> None:
    """Fill a model with a head, which may be the embedding again. `dtype` None keeps the stored type."""
    tied = bool(model.config.tie_word_embeddings)
    fill(
        model,
        checkpoint,
        module_key,
        dtype=dtype or stored_type(checkpoint),
        tied={HEAD: EMBEDDING} if tied else None,
    )
    if tied:  # one parameter, or moving the model to a GPU would make two of it
        model.lm_head.weight = model.model.language_model.embed_tokens.weight
