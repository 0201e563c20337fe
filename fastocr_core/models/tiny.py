"""`tiny`, a seeded toy: no weights, no training, no sense. It exists so that a pipeline can run fast end to
end.

Its text is a pure function of the page's pixels: a walk along a fixed order of printable signs that starts
and skips where the image says so and ends by itself, so pages differ, are reproducible, and rarely meet the
token limit.
"""

import string
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaModel

from fastocr_core.models.base import Block, DecoderShape, ModelAdapter, ParsedText, PromptLayout
from fastocr_core.models.revisions import TINY_REVISION
from fastocr_core.vision.prepared import PreparedPage
from fastocr_core.vision.tiny_view import CELL_PIXELS, vision_tiny

_SIGNS = string.ascii_lowercase + string.digits + "     .,;:-ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_STOP = len(_SIGNS)
_VOCABULARY = 80
_SEED = 2605
_LONGEST_WALK = 44
_SHAPE = DecoderShape(layers=4, query_heads=4, kv_heads=2, head_dim=16, hidden=64, vocabulary=_VOCABULARY)
# How strongly each sign calls for the next one of the walk, against what else the hidden state says.
_WALK = 0.9
# Scale of queries and keys: sharp enough that attention picks single cells instead of averaging over all.
_SHARPNESS = 2.0
# Scale of the other weights: how far the image and the text so far lead away from the walk.
_DISTURBANCE = 0.8


class TinyAdapter(ModelAdapter):
    """The toy. Prompt: all image tokens, then the sign to start from; positions count up."""

    def __init__(self) -> None:
        self.name, self.revision = "tiny", TINY_REVISION
        self.vision = vision_tiny("auto")
        self.shape = _SHAPE
        self.stop_ids = frozenset({_STOP})
        self.default_prompt = ""
        self.max_output_tokens = 48
        self.text_window = None
        self.focal_layers = (1,)
        self.default_floor = 4
        self.makes_sense = False
        generator = torch.Generator().manual_seed(_SEED)
        self.decoder = _seeded_decoder(generator)
        self._embedding = cast("nn.Embedding", self.decoder.embed_tokens)
        self._projection = torch.randn(CELL_PIXELS**2, _SHAPE.hidden, generator=generator) / CELL_PIXELS
        self._walk = [*torch.randperm(len(_SIGNS), generator=generator).tolist(), _STOP]
        self._head = _seeded_head(self._embedding.weight, self._walk, generator)

    def to(self, device: torch.device) -> None:
        """Move the decoder, the projection and the head."""
        self.decoder.to(device)
        self._projection, self._head = self._projection.to(device), self._head.to(device)

    def encode(self, page: PreparedPage) -> Tensor:
        """A fixed random projection of the pixels of each cell."""
        cells = torch.from_numpy(page.views[0]).to(self.device)
        cells = cells.view(page.grid_rows, CELL_PIXELS, page.grid_columns, CELL_PIXELS).transpose(1, 2)
        pixels = 1.0 - cells.reshape(page.image_tokens, CELL_PIXELS**2) / 255.0  # ink is 1
        return pixels @ self._projection

    def layout(self, page: PreparedPage, prompt: str | None) -> PromptLayout:
        """Image, then a sign drawn by a checksum of the pixels; a prompt has no effect."""
        start = self._walk[-2 - zlib.crc32(page.views[0].tobytes()) % _LONGEST_WALK]
        positions = torch.arange(page.image_tokens + 1)[None]
        return PromptLayout((start,), 0, page.image_tokens, positions)

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Rows of the embedding."""
        return nn.functional.embedding(ids, self._embedding.weight)

    def logits(self, hidden: Tensor) -> Tensor:
        """A walk along the signs, disturbed by everything else in the hidden state."""
        return hidden @ self._head

    def parse(self, tokens: Sequence[int], page: PreparedPage) -> ParsedText:
        """One block over the whole page."""
        text = "".join(_SIGNS[token] for token in tokens if token < len(_SIGNS))
        box = (0.0, 0.0, float(page.source_width), float(page.source_height))
        return ParsedText(text, "text", (Block("text", box, text),) if text else ())


def _seeded_decoder(generator: torch.Generator) -> LlamaModel:
    """A Llama text model with seeded weights, independent of the global random state."""
    config = LlamaConfig(
        vocab_size=_VOCABULARY,
        hidden_size=_SHAPE.hidden,
        intermediate_size=128,
        num_hidden_layers=_SHAPE.layers,
        num_attention_heads=_SHAPE.query_heads,
        num_key_value_heads=_SHAPE.kv_heads,
        head_dim=_SHAPE.head_dim,
        max_position_embeddings=1024,
    )
    with torch.random.fork_rng(devices=[]):
        decoder = LlamaModel(config).float().eval()
    with torch.no_grad():
        for name, parameter in decoder.named_parameters():
            if parameter.dim() > 1:
                gain = _SHARPNESS if "q_proj" in name or "k_proj" in name else _DISTURBANCE
                scale = 1.0 if "embed" in name else gain / parameter.shape[1] ** 0.5
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
    return decoder.requires_grad_(False)


def _seeded_head(embedding: Tensor, walk: list[int], generator: torch.Generator) -> Tensor:
    """[hidden, vocabulary]: a token is called for by the one before it in the walk; the stop token is the
    last.
    """
    head = torch.randn(_SHAPE.hidden, _VOCABULARY, generator=generator) * 0.3
    for before, after in pairwise(walk):
        head[:, after] += _WALK * embedding[before]
    return head


def load_tiny() -> TinyAdapter:
    """A fresh toy; always the same."""
    return TinyAdapter()
