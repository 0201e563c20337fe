"""Qwen2.5-VL 3B and 7B behind the adapter contract: transformers' own modules, filled key by key.

A general model: it answers a prompt in plain text and says nothing about places.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from fastocr_core.models.base import ImageEncoding, PromptLayout
from fastocr_core.models.chat_adapter import (
    READ_PROMPT,
    ChatAdapter,
    ChatParts,
    check_image_token,
    fill_chat_model,
)
from fastocr_core.models.chat_prompt import chat_prompt
from fastocr_core.models.checkpoint import open_checkpoint, require_config, weightless
from fastocr_core.models.image_statistics import (
    CLIP_DEVIATION,
    CLIP_MEAN,
    ImageStatistics,
    image_statistics,
)
from fastocr_core.models.qwen2_5_vl.pixels import patches_of
from fastocr_core.models.qwen2_5_vl.positions import prompt_positions
from fastocr_core.models.qwen2_5_vl.tower_scores import last_full_block, scores_and_keys
from fastocr_core.models.text_decoder import stop_ids
from fastocr_core.models.tokenizer import Tokenizer
from fastocr_core.models.weight_type import refuse_quantised
from fastocr_core.vision.prepared import ModelVision, PreparedPage
from fastocr_core.vision.qwen_view import vision_qwen

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


class QwenAdapter(ChatAdapter):
    """One image and one text in a user message; three rotary axes."""

    def __init__(
        self, name: str, parts: ChatParts, vision: ModelVision, prompt: str, max_output_tokens: int
    ) -> None:
        super().__init__(name, parts, vision, prompt, max_output_tokens)
        self._tower: Any = parts.model.model.visual

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
        ids, start = self.prompt_ids(prompt)
        positions = prompt_positions(start, page.grid_rows, page.grid_columns, len(ids) - start)
        return PromptLayout(ids, start, page.image_tokens, positions)


def load_qwen2_5_vl(folder: Path, dtype: torch.dtype | None = None, mode: str = "auto") -> QwenAdapter:
    """Load a checkpoint folder. `dtype` None keeps the stored type.

    FileNotFoundError or ValueError, in one sentence, for whatever is missing or does not fit.
    """
    parts = open_qwen(folder, dtype, image_first=True)
    return QwenAdapter("qwen2.5-vl", parts, vision_qwen(mode, folder), READ_PROMPT, MAX_OUTPUT_TOKENS)


def open_qwen(
    folder: Path, dtype: torch.dtype | None, image_first: bool, unquantised: str = "the same model in bf16"
) -> ChatParts:
    """Read and check a checkpoint of this architecture: weights, vocabulary, template, image statistics.

    `unquantised` is what to use instead of quantised weights, which are refused.
    """
    checkpoint = open_checkpoint(folder)
    require_config(checkpoint.config, {"model_type": "qwen2_5_vl"}, "Qwen2.5-VL")
    refuse_quantised(checkpoint, unquantised)
    config = Qwen2_5_VLConfig(**checkpoint.config)
    tokenizer = Tokenizer(folder)
    check_image_token(tokenizer, IMAGE_TOKEN, config, checkpoint)
    with weightless():
        model = Qwen2_5_VLForConditionalGeneration(config)
    tied = bool(config.tie_word_embeddings)
    fill_chat_model(model, checkpoint, lambda key: module_key(key, tied), dtype)
    return ChatParts(
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
