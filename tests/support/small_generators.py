"""Small seeded vision-language models of transformers with inputs for their own `generate`, and an adapter
that lets the engine read the same prompt with the same weights.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import (
    LlavaOnevisionConfig,
    LlavaOnevisionForConditionalGeneration,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    UnlimitedOcrConfig,
    UnlimitedOcrForConditionalGeneration,
)

from fastocr_core.models.base import DecoderShape, ModelAdapter, ParsedText, PromptLayout
from fastocr_core.vision.prepared import ModelVision, PreparedPage

IMAGE_ID, VOCABULARY, BEFORE, AFTER = 250, 256, 3, 5
_TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}


@dataclass(frozen=True, slots=True, eq=False)
class Generator:
    """A model and the inputs of one batch; `features` are the image embeddings by row."""

    model: Any
    inputs: dict[str, Any]
    features: list[Tensor]

    def generate(self, **settings: Any) -> list[list[int]]:
        """Greedy output tokens by row; always as many as asked for."""
        settings = {"max_new_tokens": 48, "do_sample": False, "min_new_tokens": 48} | settings
        length = self.inputs["input_ids"].shape[1]
        return self.model.generate(**self.inputs, **settings)[:, length:].tolist()  # type: ignore[no-any-return]


def _sharpened(model: Any, seed: int) -> Any:
    """Weights that make the output wander: sharp attention and a strong image."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        fresh = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() > 1:
            gain = 2.0 if "q_proj" in name or "k_proj" in name else 1.2
            fan_in = parameter.numel() // parameter.shape[0] if parameter.dim() != 3 else parameter.shape[-1]
            parameter.data.copy_(fresh * (1.0 if "embed_tokens" in name else gain / fan_in**0.5))
        elif "norm" not in name:
            parameter.data.copy_(fresh * 0.02)
    return model.float().eval().requires_grad_(False)


def _prompt(features: Sequence[Tensor]) -> dict[str, Tensor]:
    """Left-padded ids with one image each and their mask; text differs from row to row."""
    longest = max(len(rows) for rows in features) + BEFORE + AFTER
    ids, mask = torch.zeros(len(features), longest, dtype=torch.long), torch.zeros(len(features), longest)
    for row, image in enumerate(features):
        text = (torch.arange(BEFORE + AFTER) * 7 + row * 11) % 200 + 10
        line = torch.cat((text[:BEFORE], torch.full((len(image),), IMAGE_ID), text[BEFORE:]))
        ids[row, longest - len(line) :], mask[row, longest - len(line) :] = line, 1
    return {"input_ids": ids, "attention_mask": mask.long()}


def qwen(rows: int = 1, seed: int = 0) -> Generator:
    """Qwen2.5-VL; row r has an image of (6 + r) x (9 - r) tokens."""
    config = Qwen2_5_VLConfig(
        text_config=_TEXT
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}},
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "out_hidden_size": 64,
            "fullatt_block_indexes": [1],
        },
        image_token_id=IMAGE_ID,
        video_token_id=IMAGE_ID + 1,
        vision_start_token_id=IMAGE_ID + 2,
        vision_end_token_id=IMAGE_ID + 3,
        tie_word_embeddings=False,
    )
    model = _sharpened(Qwen2_5_VLForConditionalGeneration(config), seed)
    grid = torch.tensor([[1, 2 * (6 + row), 2 * (9 - row)] for row in range(rows)])
    generator = torch.Generator().manual_seed(seed + 1)
    pixels = torch.randn(int(grid.prod(1).sum()), 1176, generator=generator)
    features = list(model.model.get_image_features(pixels, grid).pooler_output)
    prompt = _prompt(features)
    types = (prompt["input_ids"] == IMAGE_ID).int()
    more = {"pixel_values": pixels, "image_grid_thw": grid, "mm_token_type_ids": types}
    return Generator(model, prompt | more, features)


def llava(rows: int = 1, seed: int = 0) -> Generator:
    """LLaVA-OneVision with tiles of 2 x 2 patches; row r has a page that is r tiles wider."""
    config = LlavaOnevisionConfig(
        text_config=_TEXT | {"model_type": "qwen2"},
        vision_config={
            "model_type": "siglip_vision_model",
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 56,
            "patch_size": 14,
            "vision_use_head": False,
        },
        image_token_index=IMAGE_ID,
        video_token_index=IMAGE_ID + 1,
        image_grid_pinpoints=[[56 * high, 56 * wide] for high in range(1, 4) for wide in range(1, 4)],
        tie_word_embeddings=False,
    )
    model = _sharpened(LlavaOnevisionForConditionalGeneration(config), seed)
    sizes = torch.tensor([[112, 56 * (1 + row)] for row in range(rows)])
    generator = torch.Generator().manual_seed(seed + 1)
    tiles = 1 + 2 * rows
    pixels = torch.randn(rows, tiles, 3, 56, 56, generator=generator)
    features = list(model.model.get_image_features(pixels, sizes).pooler_output)
    return Generator(model, _prompt(features) | {"pixel_values": pixels, "image_sizes": sizes}, features)


def unlimited(rows: int = 1, seed: int = 0, window: int | None = None) -> Generator:
    """UnlimitedOcr at 512 pixels: 73 image tokens; `window` turns its sliding attention on."""
    layer_type = "full_attention" if window is None else "reference_sliding_attention"
    config = UnlimitedOcrConfig(
        text_config=_TEXT
        | {
            "moe_intermediate_size": 24,
            "n_routed_experts": 4,
            "n_shared_experts": 1,
            "num_experts_per_tok": 2,
            "layer_types": [layer_type] * 4,
            "sliding_window": window or 8,
            "eos_token_id": VOCABULARY - 1,
        },
        vision_config={
            "sam_config": {
                "hidden_size": 24,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "global_attn_indexes": [1],
                "mlp_dim": 32,
                "output_channels": 16,
                "downsample_channels": [24, 32],
            },
            "encoder_config": {
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
            },
        },
        image_token_id=IMAGE_ID,
        tie_word_embeddings=False,
    )
    model = _sharpened(UnlimitedOcrForConditionalGeneration(config), seed)
    pixels = torch.randn(rows, 3, 512, 512, generator=torch.Generator().manual_seed(seed + 1))
    features = model.model.get_image_features(pixels).pooler_output
    features = [each.view(-1, each.shape[-1]) for each in features]
    return Generator(model, _prompt(features) | {"pixel_values": pixels}, features)


GENERATORS: dict[str, Callable[..., Generator]] = {"qwen": qwen, "llava": llava, "unlimited": unlimited}


class SamePrompt(ModelAdapter):
    """Reads row r of a generator's batch when given `page_of_row(r)`."""

    def __init__(self, source: Generator, focal_layers: tuple[int, ...], max_output_tokens: int) -> None:
        self.name, self.revision, self._source = "same-prompt", "1", source
        self.vision = ModelVision("tiny", "page", 8, 8, max(map(len, source.features)), 72)
        self.shape = DecoderShape(4, 4, 2, 16, 64, VOCABULARY)
        self.stop_ids: frozenset[int] = frozenset()
        self.default_prompt, self.max_output_tokens = "", max_output_tokens
        self.focal_layers, self.default_floor = focal_layers, 1
        self.decoder = source.model.model.language_model

    def encode(self, page: PreparedPage) -> Tensor:
        return self._source.features[page.source_width]

    def layout(self, page: PreparedPage, prompt: str | None) -> PromptLayout:
        row = page.source_width
        inputs = self._source.inputs
        ids = inputs["input_ids"][row][inputs["attention_mask"][row].bool()]
        positions = torch.arange(len(ids))[None]
        if "image_grid_thw" in inputs:
            grid = inputs["image_grid_thw"][row : row + 1]
            types = (ids == IMAGE_ID).int()[None]
            positions = self._source.model.model.get_rope_index(ids[None], types, grid)[0][:, 0]
        text = tuple(ids[ids != IMAGE_ID].tolist())
        return PromptLayout(text, BEFORE, len(self._source.features[row]), positions)

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        return nn.functional.embedding(ids, self._source.model.get_input_embeddings().weight)

    def logits(self, hidden: Tensor) -> Tensor:
        scores: Tensor = self._source.model.lm_head(hidden)
        return scores

    def ban(self, tokens: Sequence[int]) -> Collection[int]:
        """The end token where there is one; `Generator.generate` does not let it through either."""
        end = self._source.model.generation_config.eos_token_id
        return () if end is None else (end,)

    def parse(self, tokens: Sequence[int], page: PreparedPage) -> ParsedText:
        return ParsedText(" ".join(map(str, tokens)), "text", ())

    def page_of_row(self, row: int) -> PreparedPage:
        """The number of the row is all that the page says."""
        count = len(self._source.features[row])
        view = np.zeros((8, 8, 1), dtype=np.uint8)
        identity = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
        return PreparedPage((view,), 1, count, count, "page", 1, 1, identity, row, 8, 1.0, 0.5)
