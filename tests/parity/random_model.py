"""A seeded Llama decoder with grouped heads behind the adapter contract: the model of the engine tests."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from fastocr_core.models.base import DecoderShape, ModelAdapter, ParsedText, PromptLayout
from fastocr_core.vision.prepared import ModelVision, PreparedPage

MAX_IMAGE_TOKENS = 150
VOCABULARY = 128


def page_of(image_tokens: int, seed: int = 0) -> PreparedPage:
    """A page of noise with one row of cells."""
    noise = np.random.default_rng(seed).integers(0, 256, (8, 8 * image_tokens, 1), dtype=np.uint8)
    identity = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    return PreparedPage(
        (noise,), 1, image_tokens, image_tokens, "page", 1, 1, identity, 8 * image_tokens, 8, 1.0, 0.5
    )


class RandomAdapter(ModelAdapter):
    """Two prompt tokens, the image, three prompt tokens. Pages of `broken_tokens` cells fail to encode."""

    def __init__(
        self,
        seed: int = 0,
        text_window: int | None = None,
        stop_ids: frozenset[int] = frozenset(),
        broken_tokens: int = -1,
    ) -> None:
        self.name, self.revision = "random", "1"
        self.vision = ModelVision("tiny", "page", 8, 8, MAX_IMAGE_TOKENS, 72)
        self.shape = DecoderShape(5, 4, 2, 16, 64, VOCABULARY)
        self.stop_ids, self.text_window = stop_ids, text_window
        self.default_prompt, self.max_output_tokens = "", 60
        self.focal_layers, self.default_floor = (1, 3), 4
        self.broken_tokens = broken_tokens
        self.causal = _causal_model(self.shape, seed)
        self.decoder = self.causal.model
        self._head = self.causal.lm_head
        self._projection = torch.randn(64, 64, generator=torch.Generator().manual_seed(seed)) / 4

    def encode(self, page: PreparedPage) -> Tensor:
        if page.image_tokens == self.broken_tokens:
            raise RuntimeError("this page cannot be encoded")
        pixels = torch.from_numpy(page.views[0]).float() / 128 - 1
        return pixels.reshape(8, page.image_tokens, 8).transpose(0, 1).reshape(-1, 64) @ self._projection

    def layout(self, page: PreparedPage, prompt: str | None) -> PromptLayout:
        ids = (1, 2, 3, 4, 5)
        return PromptLayout(ids, 2, page.image_tokens, torch.arange(page.image_tokens + len(ids))[None])

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        return nn.functional.embedding(ids, self.causal.get_input_embeddings().weight)

    def logits(self, hidden: Tensor) -> Tensor:
        return self._head(hidden)

    def parse(self, tokens: Sequence[int], page: PreparedPage) -> ParsedText:
        return ParsedText(" ".join(map(str, tokens)), "text", ())


def _causal_model(shape: DecoderShape, seed: int) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=96,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.query_heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        tie_word_embeddings=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            # Sharp attention and a strong image make the output wander instead of settling in a cycle.
            gain = 2.0 if "q_proj" in name or "k_proj" in name else 1.2
            scale = 1.0 if "embed" in name else gain / parameter.shape[1] ** 0.5
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
    return model
