"""The vision tower of the embedded reader: a small convolutional stem, glyph heads, and one visual token per 32 x 16 px cell.

Pixels [B, 1, H, W] -> stem features [B, 192, H/16, W/16] -> for each 16 x 4 px strip a distribution over glyphs ->
cell tokens [B, (H/16)*(W/32), hidden]. The glyph distribution is the joint between eye and language: the stem is trained to
name the glyph whose centre falls into each strip, the decoder can be trained on exact strips alone. A cell is half as high
as it is wide, so that it never holds letters of two lines.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fastocr_core.models.mini import alphabet

CELL_WIDTH, CELL_HEIGHT = 32, 16  # pixels
STRIP_HEIGHT, STRIP_WIDTH = 16, 4  # pixels of one strip
STRIPS_PER_FEATURE = 16 // STRIP_WIDTH
FEATURES_PER_CELL = CELL_WIDTH // 16
STRIPS_PER_CELL = CELL_WIDTH // STRIP_WIDTH
GLYPHS = len(alphabet.CHARACTERS) + 1  # class 0: no glyph centre in this strip
_CHANNELS = ((32, 2), (48, 2), (48, 1), (96, 2), (96, 1), (96, 1), (192, 2), (192, 1), (192, 1))


class Stem(nn.Module):
    """Nine 3x3 convolutions to 1/16 of the resolution, and a linear glyph head for the four strips of each feature."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 1
        for width, stride in _CHANNELS:
            layers += [
                nn.Conv2d(channels, width, 3, stride, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
            ]
            channels = width
        self.layers = nn.Sequential(*layers)
        self.glyph_head = nn.Conv2d(channels, STRIPS_PER_FEATURE * GLYPHS, 1)
        self.channels = channels

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """pixels float [B, 1, H, W] in -1..1 -> features [B, C, H/16, W/16], glyph logits [B, H/16, W/4, GLYPHS]."""
        features = self.layers(pixels)
        logits = self.glyph_head(features)  # [B, 4*GLYPHS, h, w]
        batch, _, height, width = logits.shape
        logits = logits.view(batch, STRIPS_PER_FEATURE, GLYPHS, height, width).permute(0, 3, 4, 1, 2)
        return features, logits.reshape(batch, height, width * STRIPS_PER_FEATURE, GLYPHS)


class CellMerger(nn.Module):
    """Strips of one cell -> one visual token: glyph embeddings by position in the cell, plus raw stem features."""

    def __init__(self, hidden: int, stem_channels: int, glyph_width: int = 48) -> None:
        super().__init__()
        self.glyph_embedding = nn.Linear(GLYPHS, glyph_width, bias=False)
        self.project = nn.Linear(STRIPS_PER_CELL * glyph_width, hidden)
        self.raw = nn.Linear(FEATURES_PER_CELL * stem_channels, hidden, bias=False)
        nn.init.zeros_(self.raw.weight)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, strips: Tensor, features: Tensor | None) -> Tensor:
        """strips [B, h, w*8, GLYPHS] (probabilities), features [B, C, h, w*2] or None -> [B, h, w, hidden]."""
        return self.merge(self.glyph_embedding(strips), features)

    def merge(self, embedded: Tensor, features: Tensor | None) -> Tensor:
        """embedded strips [B, h, w*8, E], features as in `forward` -> [B, h, w, hidden]."""
        batch, rows, columns, width = embedded.shape
        across = columns // STRIPS_PER_CELL
        tokens: Tensor = self.project(embedded.reshape(batch, rows, across, STRIPS_PER_CELL * width))
        if features is not None:
            tokens = tokens + self.raw(features.permute(0, 2, 3, 1).reshape(batch, rows, across, -1))
        normed: Tensor = self.norm(tokens)
        return normed


def as_input(pixels: Tensor) -> Tensor:
    """uint8 [B, H, W] -> float [B, 1, H, W] in -1..1, ink positive."""
    return (1.0 - pixels.float().unsqueeze(1) / 127.5).contiguous(memory_format=torch.channels_last)
