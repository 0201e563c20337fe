"""The embedded reader as one module: vision tower, token embeddings, decoder, output head.

Image tokens come first and are ordinary cached tokens. The position added to a visual token is the embedding of its row token
plus the mean of those of its column tokens, so that writing a position and looking at it use the same code.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from fastocr_core.models.mini import alphabet, places, tower
from fastocr_core.models.mini.text_decoder import DecoderSize, TextDecoder

LAYERS, HIDDEN, HEADS = 6, 192, 6
# 16 frequency pairs: 4 turn with the output count, 6 with height, 6 with the distance along the line (see places.py)
DECODER_SIZE = DecoderSize(alphabet.VOCABULARY, HIDDEN, LAYERS, HEADS, inner=512, rotary_pairs=(4, 6, 6))
TEXT_WINDOW = 160  # each output token sees the image, BEGIN and this many outputs, itself included
_PEN_ROW_WAVES = (64.0, 128.0)  # pixels
_PEN_COLUMN_WAVES = (11.0, 16.0, 32.0, 64.0, 128.0)
COLUMNS_PER_CELL = tower.CELL_WIDTH // alphabet.COLUMN_PIXELS  # a cell is one row band high


def _waves(count: int, width: int) -> Tensor:
    """Sine and cosine codes [count, width] with wavelengths from 4 to 512 steps."""
    lengths = torch.logspace(math.log10(4), math.log10(512), width // 2)
    angles = torch.arange(count).unsqueeze(1) * (2 * math.pi / lengths)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Pen(nn.Module):
    """Where the pen stands, as features: sines and cosines of height and distance at wavelengths of a strip to a few cells.

    Attention brings an output to its cell; these features let it tell the strips within the cell apart.
    """

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(2 * (len(_PEN_ROW_WAVES) + len(_PEN_COLUMN_WAVES)), HIDDEN, bias=False)

    def forward(self, positions: Tensor) -> Tensor:
        """int64 [3, ...] -> [..., hidden]."""
        row = positions[1].unsqueeze(-1) / torch.tensor(_PEN_ROW_WAVES, device=positions.device)
        column = positions[2].unsqueeze(-1) / (
            torch.tensor(_PEN_COLUMN_WAVES, device=positions.device) * places.COLUMN_UNITS
        )
        angles = 2 * math.pi * torch.cat([row, column], dim=-1)
        features: Tensor = self.project(torch.cat([angles.sin(), angles.cos()], dim=-1))
        return features


class MiniReader(nn.Module):
    """All weights of `mini`. `load_state_dict` keys are the checkpoint's tensor names."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = tower.Stem()
        self.merger = tower.CellMerger(HIDDEN, self.stem.channels)
        self.decoder = TextDecoder(DECODER_SIZE, alphabet.PAD)
        self.pen = Pen()
        self.head = nn.Linear(HIDDEN, alphabet.VOCABULARY, bias=False)
        with torch.no_grad():
            table = self.decoder.embed_tokens.weight
            table.normal_(0.0, 0.5)
            rows = slice(alphabet.FIRST_ROW, alphabet.FIRST_COLUMN)
            table[rows, : HIDDEN // 2] = 0.7 * _waves(alphabet.ROWS, HIDDEN // 2)
            table[rows, HIDDEN // 2 :] *= 0.1
            columns = slice(alphabet.FIRST_COLUMN, alphabet.VOCABULARY)
            table[columns, HIDDEN // 2 :] = 0.7 * _waves(alphabet.COLUMNS, HIDDEN // 2)
            table[columns, : HIDDEN // 2] *= 0.1
            nn.init.normal_(self.head.weight, 0.0, 0.02)

    def positions(self, rows: int, columns: int, row_offset: int = 0, column_offset: int = 0) -> Tensor:
        """Position codes [rows, columns, hidden] of a cell grid; offsets in cells shift the page (training only)."""
        table = self.decoder.embed_tokens.weight
        first = alphabet.FIRST_ROW + row_offset
        row_codes = table[first : first + rows]
        first = alphabet.FIRST_COLUMN + column_offset * COLUMNS_PER_CELL
        column_codes = (
            table[first : first + columns * COLUMNS_PER_CELL].view(columns, COLUMNS_PER_CELL, HIDDEN).mean(1)
        )
        codes: Tensor = row_codes[:, None] + column_codes[None]
        return codes

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Outputs int64 [...] whose pen stands at positions int64 [3, ...] -> [..., hidden]."""
        embedded: Tensor = self.decoder.embed_tokens(ids) + self.pen(positions)
        return embedded

    def see(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """uint8 [B, H, W] -> cell contents [B, h, w, hidden] without positions, and glyph logits [B, h, 8w, GLYPHS]."""
        features, logits = self.stem(tower.as_input(pixels))
        return self.merger(logits.float().softmax(-1), features), logits

    def encode(self, pixels: Tensor) -> Tensor:
        """One page uint8 [H, W], height a multiple of 16, width of 32 -> image tokens [h*w, hidden]."""
        content, _ = self.see(pixels.unsqueeze(0))
        _, rows, columns, _ = content.shape
        return (content[0] + self.positions(rows, columns)).reshape(rows * columns, HIDDEN)
