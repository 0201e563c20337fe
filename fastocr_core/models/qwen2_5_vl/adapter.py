"""Qwen2.5-VL 3B and 7B behind the adapter contract: transformers' own modules, filled key by key.

A general model: it answers a prompt in plain text and says nothing about places.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from fastocr_core.decoding.focal import default_focal_layers
from fastocr_core.models.base import Block, ImageEncoding, ModelAdapter, ParsedText, PromptLayout
from fastocr_core.models.chat_prompt import ChatPrompt, chat_prompt
from fastocr_core.models.checkpoint import fill, open_checkpoint, require_config, weightless
from fastocr_core.models.image_statistics import (
    CLIP_DEVIATION,
    CLIP_MEAN,
    ImageStatistics,
    image_statistics,
)
from fastocr_core.models.qwen2_5_vl.pixels import patches_of
from fastocr_core.models.qwen2_5_vl.positions import prompt_positions
from fastocr_core.models.qwen2_5_vl.tower_scores import last_full_block, scores_and_keys
from fastocr_core.models.text_decoder import decoder_shape, stop_ids
from fastocr_core.models.tokenizer import Tokenizer
from fastocr_core.models.weight_type import refuse_quantised, stored_type
from fastocr_core.vision.prepared import ModelVision, PreparedPage
from fastocr_core.vision.qwen_view import vision_qwen

DEFAULT_PROMPT = "Read all the text on this page, in reading order. Return only the text."
MAX_OUTPUT_TOKENS = 8192
STOP_MARKERS = ("<|im_end|>", "<|endoftext|>")
IMAGE_TOKEN = "<|image_pad|>"
# Used only where the checkpoint has no chat template. Wording the model was trained on.
TEMPLATE = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "<|im_start|>user\n"
    "{% for part in messages[0].content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}<|im_end|>\n<|im_start|>assistant{{ '\n' }}"
)


@dataclass(frozen=True, slots=True)
class QwenParts:
    """A checkpoint of this architecture, loaded: what an adapter is made of."""

    model: Any
    revision: str
    tokenizer: Tokenizer
    statistics: ImageStatistics
    chat: ChatPrompt
    stop_ids: frozenset[int]


class QwenAdapter(ModelAdapter):
    """One image and one text in a user message; three rotary axes."""

    def __init__(
        self, name: str, parts: QwenParts, vision: ModelVision, prompt: str, max_output_tokens: int
    ) -> None:
        self.name, self.revision, self.vision = name, parts.revision, vision
        config = parts.model.config
        self.shape = decoder_shape(config.text_config)
        self.stop_ids = parts.stop_ids
        self.default_prompt = prompt
        # Half of a small context is left to the prompt.
        self.max_output_tokens = min(max_output_tokens, config.text_config.max_position_embeddings // 2)
        self.focal_layers = default_focal_layers(self.shape.layers)
        self.model, self._chat = parts.model, parts.chat
        self.tokenizer, self._statistics = parts.tokenizer, parts.statistics
        self._image_id = int(config.image_token_id)
        self._tower: Any = parts.model.model.visual
        self.decoder = cast("nn.Module", parts.model.model.language_model)

    def to(self, device: torch.device) -> None:
        """Move decoder, head and vision tower."""
        self.model.to(device)

    @torch.inference_mode()
    def encode(self, page: PreparedPage) -> Tensor:
        """One view -> [grid_rows * grid_columns, hidden] in raster order."""
        merged = int(self._tower.spatial_merge_size)
        view = torch.tensor(page.views[0], device=self.device)  # copied: it may be read-only
        pixels = self._statistics.normalised(view)
        patches = patches_of(pixels, int(self._tower.patch_size), merged).to(self.dtype)
        sides = torch.tensor([[1, page.grid_rows * merged, page.grid_columns * merged]], device=self.device)
        embeddings: Tensor = self._tower(patches, grid_thw=sides).pooler_output
        return embeddings

    @torch.inference_mode()
    def encode_scored(self, page: PreparedPage) -> ImageEncoding:
        """`encode`, and the scores of the tower's last block with full attention."""
        seen: list[dict[str, Any]] = []

        def note(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
            seen.append({"hidden_states": arguments[0]} | named if arguments else named)

        hook = last_full_block(self._tower).attn.register_forward_pre_hook(note, with_kwargs=True)
        try:
            embeddings = self.encode(page)
        finally:
            hook.remove()
        received, keys = scores_and_keys(
            self._tower,
            seen[0]["hidden_states"],
            seen[0]["position_embeddings"],
            page.grid_rows,
            page.grid_columns,
        )
        return ImageEncoding(embeddings, received, keys)

    def layout(self, page: PreparedPage, prompt: str | None) -> PromptLayout:
        """The chat around the image. ValueError if the prompt contains an image placeholder."""
        wording = self.default_prompt if prompt is None else prompt
        ids, start = self._chat.ids(wording, self.tokenizer, self._image_id)
        positions = prompt_positions(start, page.grid_rows, page.grid_columns, len(ids) - start)
        return PromptLayout(ids, start, page.image_tokens, positions)

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


def load_qwen2_5_vl(folder: Path, dtype: torch.dtype | None = None, mode: str = "auto") -> QwenAdapter:
    """Load a checkpoint folder. `dtype` None keeps the stored type.

    FileNotFoundError or ValueError, in one sentence, for whatever is missing or does not fit.
    """
    parts = open_qwen(folder, dtype, image_first=True)
    return QwenAdapter("qwen2.5-vl", parts, vision_qwen(mode, folder), DEFAULT_PROMPT, MAX_OUTPUT_TOKENS)


def open_qwen(
    folder: Path, dtype: torch.dtype | None, image_first: bool, unquantised: str = "the same model in bf16"
) -> QwenParts:
    """Read and check a checkpoint of this architecture: weights, vocabulary, template, image statistics.

    `unquantised` is what to use instead of quantised weights, which are refused.
    """
    checkpoint = open_checkpoint(folder)
    require_config(checkpoint.config, {"model_type": "qwen2_5_vl"}, "Qwen2.5-VL")
    refuse_quantised(checkpoint, unquantised)
    config = Qwen2_5_VLConfig(**checkpoint.config)
    tokenizer = Tokenizer(folder)
    if tokenizer.id_of(IMAGE_TOKEN) != config.image_token_id:
        raise ValueError(
            f"{folder}: config.json has image token {config.image_token_id}, "
            f"the vocabulary {tokenizer.id_of(IMAGE_TOKEN)}"
        )
    with weightless():
        model = Qwen2_5_VLForConditionalGeneration(config)
    tied = bool(config.tie_word_embeddings)
    fill(
        model,
        checkpoint,
        lambda key: module_key(key, tied),
        dtype=dtype or stored_type(checkpoint),
        tied={"lm_head.weight": "model.language_model.embed_tokens.weight"} if tied else None,
    )
    if tied:  # one parameter, or moving the model to a GPU would make two of it
        model.lm_head.weight = model.model.language_model.embed_tokens.weight
    return QwenParts(
        model,
        checkpoint.revision,
        tokenizer,
        image_statistics(folder, ImageStatistics(CLIP_MEAN, CLIP_DEVIATION)),
        chat_prompt(folder, TEMPLATE, image_first),
        stop_ids(folder, checkpoint.config, tokenizer, STOP_MARKERS),
    )


def module_key(key: str, tied: bool) -> str | None:
    """Where a tensor of a checkpoint belongs in transformers' module.

    Published checkpoints have `visual.*` and `model.*`, re-saved ones already the names of the module. A
    stored copy of a tied head is left unused.
    """
    if key == "lm_head.weight":
        return None if tied else key
    if key.startswith("visual."):
        return f"model.{key}"
    if key.startswith("model.") and not key.startswith(("model.visual.", "model.language_model.")):
        return f"model.language_model.{key.removeprefix('model.')}"
    return key
