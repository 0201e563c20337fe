"""The adapters of DeepSeek-OCR (arXiv 2510.18234) and Unlimited-OCR (arXiv 2606.23050).

Both are one network in two checkpoints. Prompt: the first token, all image tokens, then the text. They differ
in the reach of attention, the prompt they were trained on and the settings of their n-gram guard. The loading
was proven on small seeded checkpoints with the published names, not yet on the published weights.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import UnlimitedOcrConfig, UnlimitedOcrForConditionalGeneration

from fastocr_core.decoding.base import ImageGrid
from fastocr_core.decoding.focal import default_focal_layers
from fastocr_core.models.base import (
    DecoderShape,
    ImageEncoding,
    ModelAdapter,
    ParsedText,
    PromptLayout,
)
from fastocr_core.models.checkpoint import Checkpoint, fill, open_checkpoint, weightless
from fastocr_core.models.deepseek.configuration import deepseek_config, stated_text, unlimited_config
from fastocr_core.models.deepseek.grounding import parse_grounded
from fastocr_core.models.deepseek.ngram_guard import NgramGuard
from fastocr_core.models.deepseek.tower import PageTower
from fastocr_core.models.deepseek.weights import NetworkWeights
from fastocr_core.models.tokenizer import Tokenizer
from fastocr_core.vision.deepseek_view import page_order, vision_deepseek, vision_unlimited
from fastocr_core.vision.prepared import ModelVision, PreparedPage

IMAGE_MARK = "<image>"
CELL_MARKS = ("<td>", "</td>")
END_MARK = "<｜end▁of▁sentence｜>"
# Of the published vocabulary; a checkpoint whose embedding has its size must have these.
_PUBLISHED_VOCABULARY = 129_280
_PUBLISHED_IDS = {IMAGE_MARK: 128_815, "<td>": 128_821, "</td>": 128_822, END_MARK: 1}


class DeepSeekOcrAdapter(ModelAdapter):
    """One checkpoint of the family. `model` is the whole network, `tower` its vision side; `guard` may be set
    to None. The size mode is chosen at loading.
    """

    model: UnlimitedOcrForConditionalGeneration

    def __init__(
        self,
        name: str,
        revision: str,
        model: UnlimitedOcrForConditionalGeneration,
        tokenizer: Tokenizer,
        vision: ModelVision,
        default_prompt: str,
        guard: NgramGuard | None,
        text_window: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        text = model.config.text_config
        self.name, self.revision, self.vision, self.model = name, revision, vision, model
        self.shape = DecoderShape(
            layers=text.num_hidden_layers,
            query_heads=text.num_attention_heads,
            kv_heads=text.num_key_value_heads,
            head_dim=text.head_dim,
            hidden=text.hidden_size,
            vocabulary=text.vocab_size,
        )
        ends = text.eos_token_id
        self.stop_ids = frozenset(ends if isinstance(ends, list) else [ends])
        self.default_prompt, self.guard, self.text_window = default_prompt, guard, text_window
        # The context holds image, prompt and output together.
        taken = vision.max_image_tokens + self.max_prompt_tokens
        self.max_output_tokens = max(1, text.max_position_embeddings - taken)
        self.focal_layers = default_focal_layers(text.num_hidden_layers)
        self.tower = PageTower(model.model)
        self.decoder: nn.Module = model.model.language_model
        self._tokenizer, self._dtype = tokenizer, dtype
        self._first = int(text.bos_token_id)
        self._end_text = tokenizer.decode([min(self.stop_ids)])

    def to(self, device: torch.device) -> None:
        """Move the network; unless a type was asked for at loading, float32 on a CPU and bfloat16 elsewhere."""
        set_dtype(self.model, self._dtype or (torch.float32 if device.type == "cpu" else torch.bfloat16))
        self.model.to(device)

    def encode(self, page: PreparedPage) -> Tensor:
        """Stitched tiles row by row, the global view row by row, the separator."""
        return self.tower.encode(page.views, page_order(page))

    def encode_scored(self, page: PreparedPage) -> ImageEncoding:
        """With attention and keys of the last CLIP block."""
        return self.tower.encode_scored(page.views, page_order(page))

    def image_grid(self, page: PreparedPage) -> ImageGrid:
        """The stitched tiles where there are any, else the global view; newlines and separator are markers."""
        order = page_order(page)
        sources = order.sources()
        markers = tuple((sources >= sources.max() - 1).nonzero()[0].tolist())
        if order.local_tokens:
            return ImageGrid(order.local_rows, order.local_columns, 0, order.local_columns + 1, markers)
        return ImageGrid(order.global_cells, order.global_cells, 0, order.global_cells + 1, markers)

    def layout(self, page: PreparedPage, prompt: str | None) -> PromptLayout:
        """First token, image, text. A prompt may say `<image>` once where the image belongs, else it comes
        first, followed by a line break. ValueError for a prompt with several, or one that is too long.
        """
        text = (self.default_prompt if prompt is None else prompt).strip()
        before, mark, after = text.partition(IMAGE_MARK)
        if not mark:
            before, after = "", f"\n{text}" if text else ""
        if IMAGE_MARK in after:
            raise ValueError(f"a prompt can have one {IMAGE_MARK}, not several")
        head = [self._first, *self._encoded(before)]
        ids = (*head, *self._encoded(after))
        if len(ids) > self.max_prompt_tokens:
            raise ValueError(f"the prompt has {len(ids)} tokens, more than {self.max_prompt_tokens}")
        positions = torch.arange(len(ids) + page.image_tokens)[None]
        return PromptLayout(ids, len(head), page.image_tokens, positions)

    def _encoded(self, text: str) -> list[int]:
        return self._tokenizer.encode(text) if text else []

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Rows of the embedding."""
        rows: Tensor = self.model.get_input_embeddings()(ids)
        return rows

    def logits(self, hidden: Tensor) -> Tensor:
        """The untied head."""
        logits: Tensor = self.model.lm_head(hidden)
        return logits

    def ban(self, tokens: Sequence[int]) -> Collection[int]:
        """What the n-gram guard bans after `tokens`."""
        return self.guard.banned(tokens) if self.guard is not None else ()

    def text_of(self, tokens: Sequence[int]) -> str:
        """The model's own output with its marks; table cells are special tokens, so none may be left out."""
        text = self._tokenizer.decode(tokens)
        return text.removesuffix(self._end_text).strip()

    def parse(self, tokens: Sequence[int], page: PreparedPage) -> ParsedText:
        """Markdown, and blocks where the prompt asked for grounding."""
        return parse_grounded(self.text_of(tokens), page.source_width, page.source_height)


def load_deepseek_ocr(
    folder: Path, dtype: torch.dtype | None = None, mode: str = "auto"
) -> DeepSeekOcrAdapter:
    """DeepSeek-OCR from a folder with config.json, safetensors and tokenizer.json.

    `dtype` None is float32 on a CPU and bfloat16 elsewhere. FileNotFoundError or ValueError in one sentence
    where something is missing or is not what the network needs.
    """
    checkpoint, tokenizer = open_checkpoint(folder), Tokenizer(folder)
    config = deepseek_config(checkpoint.config, tokenizer.id_of(IMAGE_MARK))
    return DeepSeekOcrAdapter(
        name="deepseek-ocr",
        revision=checkpoint.revision,
        model=_model(checkpoint, config, tokenizer, dtype),
        tokenizer=tokenizer,
        vision=vision_deepseek(mode),
        default_prompt=f"{IMAGE_MARK}\n<|grounding|>Convert the document to markdown.",
        # As the authors' own vLLM script for images.
        guard=NgramGuard(30, 90, frozenset(tokenizer.id_of(mark) for mark in CELL_MARKS)),
        dtype=dtype,
    )


def load_unlimited_ocr(
    folder: Path, dtype: torch.dtype | None = None, mode: str = "auto"
) -> DeepSeekOcrAdapter:
    """Unlimited-OCR likewise. Its reach of attention is `text_window`: image and prompt, and so many outputs."""
    checkpoint, tokenizer = open_checkpoint(folder), Tokenizer(folder)
    config = unlimited_config(checkpoint.config, tokenizer.id_of(IMAGE_MARK))
    return DeepSeekOcrAdapter(
        name="unlimited-ocr",
        revision=checkpoint.revision,
        model=_model(checkpoint, config, tokenizer, dtype),
        tokenizer=tokenizer,
        vision=vision_unlimited(mode),
        default_prompt=f"{IMAGE_MARK}document parsing.",
        guard=NgramGuard(35, 128),  # as its authors use it for single pages
        text_window=config.text_config.sliding_window,
        dtype=dtype,
    )


def _model(
    checkpoint: Checkpoint, config: UnlimitedOcrConfig, tokenizer: Tokenizer, dtype: torch.dtype | None
) -> UnlimitedOcrForConditionalGeneration:
    """The network with the checkpoint's weights, frozen."""
    _check_tokens(checkpoint.config, tokenizer)
    with weightless():
        model = UnlimitedOcrForConditionalGeneration(config)
    wanted = dtype or (torch.bfloat16 if torch.cuda.is_available() else torch.float32)
    fill(model, NetworkWeights(checkpoint), lambda key: key, dtype=wanted)
    set_dtype(model, wanted)
    return model


def _check_tokens(config: Mapping[str, Any], tokenizer: Tokenizer) -> None:
    """ValueError where the tokenizer and the decoder do not belong together."""
    text = stated_text(config)
    size = int(text["vocab_size"])
    if tokenizer.vocabulary > size:
        raise ValueError(f"the tokenizer has {tokenizer.vocabulary} tokens, the embedding only {size}")
    if size == _PUBLISHED_VOCABULARY:
        wrong = [mark for mark, number in _PUBLISHED_IDS.items() if tokenizer.id_of(mark) != number]
        if wrong:
            raise ValueError(f"the tokenizer has other numbers for {', '.join(wrong)} than the published one")
    ends = text.get("eos_token_id", 1)
    if tokenizer.id_of(END_MARK) not in (ends if isinstance(ends, list) else [ends]):
        raise ValueError(f"the config ends a text with token {ends}, the tokenizer with another")


def set_dtype(model: nn.Module, dtype: torch.dtype) -> None:
    """Bring weights to `dtype`, except those of the routers, which compute in float32 and are kept so.

    Buffers (rotary frequencies) stay as they are.
    """
    for name, parameter in model.named_parameters():
        is_router = name.endswith("mlp.gate.weight")
        parameter.data = parameter.data.to(torch.float32 if is_router else dtype)
