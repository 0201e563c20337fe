"""LLaVA-OneVision 0.5B and 7B behind the adapter contract: transformers' own modules, filled key by key.

A general model without an OCR format of its own: it answers in plain text and says nothing about places.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlavaOnevisionConfig, LlavaOnevisionForConditionalGeneration

from fastocr_core.decoding.base import ImageGrid
from fastocr_core.models.attention_received import attention_received
from fastocr_core.models.base import ImageEncoding, PromptLayout
from fastocr_core.models.chat_adapter import (
    READ_PROMPT,
    ChatAdapter,
    ChatParts,
    check_image_token,
    fill_chat_model,
)
from fastocr_core.models.chat_prompt import chat_prompt
from fastocr_core.models.checkpoint import Checkpoint, open_checkpoint, require_config, weightless
from fastocr_core.models.image_statistics import ImageStatistics, image_statistics
from fastocr_core.models.llava_onevision.packing import newline_tokens, packed
from fastocr_core.models.text_decoder import stop_ids
from fastocr_core.models.tokenizer import Tokenizer
from fastocr_core.models.weight_type import refuse_quantised
from fastocr_core.vision.llava_view import canvases_of, plan_canvas, vision_llava
from fastocr_core.vision.prepared import ModelVision, PreparedPage

MAX_OUTPUT_TOKENS = 4096
VIEWS_AT_ONCE = 8
IMAGE_TOKEN = "<image>"
STOP_MARKERS = ("<|im_end|>",)
STATISTICS = ImageStatistics((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
# Used only where the checkpoint has no chat template. Wording the model was trained on.
TEMPLATE = (
    "<|im_start|>user\n<image>\n"
    "{% for part in messages[0].content if part.type == 'text' %}{{ part.text }}{% endfor %}"
    "<|im_end|><|im_start|>assistant{{ '\n' }}"
)


class LlavaAdapter(ChatAdapter):
    """One image and one text in a user message; plain positions."""

    def __init__(self, parts: ChatParts, vision: ModelVision) -> None:
        super().__init__("llava-onevision", parts, vision, READ_PROMPT, MAX_OUTPUT_TOKENS)
        tower = parts.model.model.vision_tower
        self._tower: Any = getattr(tower, "vision_model", tower)  # older transformers wrap it once more

    @torch.inference_mode()
    def encode(self, page: PreparedPage) -> Tensor:
        """All views -> [image_tokens, hidden]: the squeezed page, then the canvas with its newlines."""
        pieces = []
        for start in range(0, len(page.views), VIEWS_AT_ONCE):
            hidden = self._features(page, start)
            pieces.append(self.model.model.multi_modal_projector(hidden))
        plan = plan_canvas(page.source_width, page.source_height, self.vision)
        return packed(torch.cat(pieces), self.model.model.image_newline, plan)

    @torch.inference_mode()
    def encode_scored(self, page: PreparedPage) -> ImageEncoding:
        """`encode`, and attention received and keys in the tower's last block, each view by itself.

        A newline is no patch: its score is 0, its key that of the patch before it.
        """
        seen: list[Tensor] = []
        attention = self._tower.encoder.layers[-1].self_attn

        def note(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
            seen.append(arguments[0] if arguments else named["hidden_states"])

        hook = attention.register_forward_pre_hook(note, with_kwargs=True)
        try:
            embeddings = self.encode(page)
        finally:
            hook.remove()
        received, keys = [], []
        for hidden in torch.cat(seen):  # [patches, width] of one view
            query, key = (
                part(hidden).view(len(hidden), attention.num_heads, -1).transpose(0, 1)
                for part in (attention.q_proj, attention.k_proj)
            )
            received.append(attention_received(query, key, float(attention.scale)))
            keys.append(key.float().mean(0))
        plan = plan_canvas(page.source_width, page.source_height, self.vision)
        scores = torch.stack(received)[:, :, None]
        all_scores = packed(scores, scores.new_zeros(1), plan)[:, 0]
        stacked = torch.stack(keys)
        all_keys = packed(stacked, stacked.new_zeros(stacked.shape[2]), plan)
        ends = torch.tensor(newline_tokens(plan), device=all_keys.device)
        all_keys[ends] = all_keys[ends - 1]
        return ImageEncoding(embeddings, all_scores, all_keys)

    def image_grid(self, page: PreparedPage) -> ImageGrid:
        """The canvas; the squeezed page lies before it."""
        plan = plan_canvas(page.source_width, page.source_height, self.vision)
        first, markers = plan.patches_per_side**2, newline_tokens(plan)
        return ImageGrid(plan.rows, plan.columns, first, plan.columns + 1, markers)

    def layout(self, page: PreparedPage, prompt: str | None) -> PromptLayout:
        """The chat around the image. ValueError if the prompt contains an image placeholder."""
        ids, start = self.prompt_ids(prompt)
        positions = torch.arange(len(ids) + page.image_tokens)[None]
        return PromptLayout(ids, start, page.image_tokens, positions)

    def _features(self, page: PreparedPage, start: int) -> Tensor:
        """What the tower makes of some views: [views, patches, width], before its last norm."""
        views = torch.stack(
            [torch.tensor(view) for view in page.views[start : start + VIEWS_AT_ONCE]]
        )  # copies
        pixels = self._statistics.normalised(views.to(self.device)).permute(0, 3, 1, 2).to(self.dtype)
        hidden: Tensor = self._tower.encoder(inputs_embeds=self._tower.embeddings(pixels)).last_hidden_state
        return hidden


def load_llava_onevision(folder: Path, dtype: torch.dtype | None = None, mode: str = "auto") -> LlavaAdapter:
    """Load a checkpoint folder. `dtype` None keeps the stored type.

    FileNotFoundError or ValueError, in one sentence, for whatever is missing or does not fit.
    """
    checkpoint = open_checkpoint(folder)
    require_config(checkpoint.config, {"model_type": "llava_onevision"}, "LLaVA-OneVision")
    refuse_quantised(checkpoint)
    config = LlavaOnevisionConfig(**checkpoint.config)
    vision = vision_llava(mode, folder)
    _check(checkpoint, config, vision)
    tokenizer = Tokenizer(folder)
    check_image_token(tokenizer, IMAGE_TOKEN, config, checkpoint)
    with weightless():
        model = LlavaOnevisionForConditionalGeneration(config)
    tied = bool(config.tie_word_embeddings)
    wrapped = hasattr(model.model.vision_tower, "vision_model")
    fill_chat_model(model, checkpoint, lambda key: module_key(key, tied, wrapped), dtype)
    parts = ChatParts(
        model,
        checkpoint.revision,
        tokenizer,
        image_statistics(folder, STATISTICS),
        chat_prompt(folder, TEMPLATE, image_first=True),
        stop_ids(folder, checkpoint.config, tokenizer, STOP_MARKERS),
    )
    return LlavaAdapter(parts, vision)


def module_key(key: str, tied: bool, wrapped: bool) -> str | None:
    """Where a tensor of a published checkpoint, or of one re-saved by transformers 5, belongs in the module.

    `wrapped` tells whether the module's tower keeps the published level `vision_model`. A stored copy of a
    tied head is left unused.
    """
    if key in ("language_model.lm_head.weight", "lm_head.weight"):
        return None if tied else "lm_head.weight"
    key = key.removeprefix("model.")
    if key.startswith("language_model.model."):
        key = key.replace("language_model.model.", "language_model.", 1)
    tower = "vision_tower."
    if key.startswith(tower):
        rest = key.removeprefix(tower).removeprefix("vision_model.")
        key = f"{tower}vision_model.{rest}" if wrapped else tower + rest
    return f"model.{key}"


def _check(checkpoint: Checkpoint, config: Any, vision: ModelVision) -> None:
    """The layout of image tokens is fixed here; a checkpoint that was trained on another is refused."""
    tile = int(dict(vision.settings)["tile_pixels"])
    stated = {
        "vision_feature_layer": config.vision_feature_layer,
        "vision_feature_select_strategy": config.vision_feature_select_strategy,
        "vision_aspect_ratio": config.vision_aspect_ratio,
        "vision_model_type": config.vision_config.model_type,
        "text_model_type": config.text_config.model_type,
        "image_size": config.vision_config.image_size,
        "image_grid_pinpoints": [list(canvas) for canvas in config.image_grid_pinpoints],
    }
    expected = {
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": "full",
        "vision_aspect_ratio": "anyres_max_9",
        "vision_model_type": "siglip_vision_model",
        "text_model_type": "qwen2",
        "image_size": tile,
        "image_grid_pinpoints": [[rows * tile, columns * tile] for rows, columns in canvases_of(vision)],
    }
    require_config(stated, expected, f"LLaVA-OneVision ({checkpoint.folder})")
