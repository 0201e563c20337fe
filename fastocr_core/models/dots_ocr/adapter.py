"""dots.ocr behind the adapter contract: own vision tower, transformers' Qwen2 decoder, layout in pixels.

Unverified against real weights: written after the published description and proven on small seeded
checkpoints with the original key names only. `loading.py` checks every key, shape and known setting.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from transformers import Qwen2Config, Qwen2ForCausalLM

from fastocr_core.decoding.focal import default_focal_layers
from fastocr_core.models.base import Block, ImageEncoding, ModelAdapter, ParsedText, PromptLayout
from fastocr_core.models.dots_ocr import prompts
from fastocr_core.models.dots_ocr.cells import Box, cell_markdown, markdown_of, parse_cells
from fastocr_core.models.dots_ocr.tower import DotsTower, TowerShape, patches_of
from fastocr_core.models.image_statistics import ImageStatistics
from fastocr_core.models.text_decoder import decoder_shape
from fastocr_core.models.tokenizer import Tokenizer
from fastocr_core.vision.prepared import ModelVision, PreparedPage

VERIFICATION = "unverified against real weights"
MAX_OUTPUT_TOKENS = 16_384  # of the authors' own parser


class DotsOcrModel(nn.Module):
    """Decoder and tower under the checkpoint's own names."""

    def __init__(self, text_config: Qwen2Config, tower_shape: TowerShape) -> None:
        super().__init__()
        self.causal = Qwen2ForCausalLM(text_config)
        self.vision_tower = DotsTower(tower_shape)


class DotsOcrAdapter(ModelAdapter):
    """One page: user marker, image between its markers, question, assistant marker. Positions count up."""

    verification = VERIFICATION

    def __init__(
        self,
        model: DotsOcrModel,
        revision: str,
        tokenizer: Tokenizer,
        vision: ModelVision,
        statistics: ImageStatistics,
        stops: frozenset[int],
    ) -> None:
        self.name, self.revision, self.vision = "dots-ocr", revision, vision
        config = model.causal.config
        self.shape = decoder_shape(config)
        self.stop_ids = stops
        self.default_prompt = prompts.LAYOUT_ALL
        # Half of a small context is left to the prompt.
        self.max_output_tokens = min(MAX_OUTPUT_TOKENS, config.max_position_embeddings // 2)
        self.focal_layers = default_focal_layers(self.shape.layers)
        self.model, self.tokenizer, self._statistics = model, tokenizer, statistics
        self.decoder = cast("nn.Module", model.causal.model)
        self._before = tuple(map(tokenizer.id_of, (prompts.USER, prompts.IMAGE)))
        self._image_pad = tokenizer.id_of(prompts.IMAGE_PAD)
        self._between = tokenizer.id_of(prompts.END_OF_IMAGE)
        self._after = tuple(map(tokenizer.id_of, (prompts.END_OF_USER, prompts.ASSISTANT)))
        markers = len(self._before) + 1 + len(self._after)
        self.max_prompt_tokens = max(
            self.max_prompt_tokens, len(tokenizer.encode(self.default_prompt)) + markers
        )

    def to(self, device: torch.device) -> None:
        """Move decoder, head and tower."""
        self.model.to(device)

    @torch.inference_mode()
    def encode(self, page: PreparedPage) -> Tensor:
        """One view -> [grid_rows * grid_columns, hidden] in raster order."""
        tokens: Tensor = self.model.vision_tower(self._patches(page), page.grid_rows, page.grid_columns)
        return tokens

    @torch.inference_mode()
    def encode_scored(self, page: PreparedPage) -> ImageEncoding:
        """`encode`, and what the tower's last block says of each token."""
        return self.model.vision_tower.scored(self._patches(page), page.grid_rows, page.grid_columns)

    def _patches(self, page: PreparedPage) -> Tensor:
        view = torch.tensor(page.views[0], device=self.device)  # copied: the array may be read-only
        return patches_of(self._statistics.normalised(view), self.model.vision_tower.shape.patch)

    def layout(self, page: PreparedPage, prompt: str | None) -> PromptLayout:
        """Nothing stands between the markers but image and question. ValueError for a prompt with an image."""
        question = self.tokenizer.encode(self.default_prompt if prompt is None else prompt)
        if self._image_pad in question:
            raise ValueError(f"the prompt must not contain {prompts.IMAGE_PAD}: the page is the only image")
        ids = (*self._before, self._between, *question, *self._after)
        positions = torch.arange(len(ids) + page.image_tokens)[None]  # [1, T]
        return PromptLayout(ids, len(self._before), page.image_tokens, positions)

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Rows of the embedding; positions do not matter."""
        rows: Tensor = self.model.causal.model.embed_tokens(ids)
        return rows

    def logits(self, hidden: Tensor) -> Tensor:
        """The head."""
        scores: Tensor = self.model.causal.lm_head(hidden)
        return scores

    def parse(self, tokens: Sequence[int], page: PreparedPage) -> ParsedText:
        """A layout as Markdown with a block per cell; any other answer as it is, in one block without a place."""
        answer = self.tokenizer.decode(tokens, keep_special=False).strip()
        cells = parse_cells(answer)
        if cells is None:
            return ParsedText(answer, "markdown", (Block("text", None, answer),) if answer else ())
        blocks = tuple(
            Block(cell.category.lower(), cell.box and box_on_page(cell.box, page), cell_markdown(cell))
            for cell in cells
        )
        return ParsedText(markdown_of(cells), "markdown", blocks)


def box_on_page(box: Box, page: PreparedPage) -> Box:
    """From pixels of the view to pixels of the given image, cut at its edges."""
    across, _, left, _, down, top = page.transform

    def inside(value: float, most: int) -> float:
        return min(max(value, 0.0), float(most))

    x0, y0, x1, y1 = box
    return (
        inside(across * x0 + left, page.source_width),
        inside(down * y0 + top, page.source_height),
        inside(across * x1 + left, page.source_width),
        inside(down * y1 + top, page.source_height),
    )
