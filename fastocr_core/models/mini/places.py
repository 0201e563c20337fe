"""Positions of the embedded reader: where on the page each token stands, as three rotary axes.

Axis 0 counts outputs; axes 1 and 2 are the height (pixels) and the distance from the left (1/32 pixel) of what the token
shows or of where the pen stands after writing it. The pen is set by row and column tokens and moves on by a typical letter
width, so that the rotary embedding itself brings writing and looking to the same place (as M-RoPE does for whole images).
"""

import torch
from torch import Tensor

from fastocr_core.models.mini import alphabet
from fastocr_core.models.mini.alphabet import COLUMN_PIXELS, FIRST_COLUMN, FIRST_ROW, ROW_PIXELS

COLUMN_UNITS = 32  # position units per pixel along a line: brings both axes to wavelengths of 60 to 1,100 px
_HALF_LETTER_PIXELS = 4
_CELL_WIDTH = 32
# typical widths in pixels at an x-height of 9.5 px, over the training fonts
_WIDTHS = (
    (6, "'‘’,.:;lijíîìï|¡!·"),
    (8, "‹›]f[IÌÎÏÍ()t²³-`°ª"),
    (9, 'ºr{}/"\\s“”„J•*z?çc¿'),
    (12, "ñn~ßL£F¶×€¥<>+±PËÊEÈÉ=#ZTB"),
    (13, "ÝYRÇXCVKÅÃÄÂÀÁAÙÚÛUÜDG"),
    (15, "ÑNwÓÖÒÔÕQOH®Ø&æ©¼½œ"),
    (17, "…%m@M"),
    (18, "—ÆWŒ"),
)


def _advances() -> Tensor:
    widths = torch.zeros(alphabet.VOCABULARY, dtype=torch.long)
    widths[alphabet.FIRST_CHARACTER : alphabet.FIRST_ROW] = 10
    for width, characters in _WIDTHS:
        for character in characters:
            widths[alphabet.CHARACTER_ID[character]] = width
    return widths * COLUMN_UNITS


ADVANCES = _advances()  # int64 [VOCABULARY], position units


def row_place(tokens: Tensor) -> Tensor:
    """Middle of the band a row token names, pixels."""
    return (tokens - FIRST_ROW) * ROW_PIXELS + ROW_PIXELS // 2


def column_place(tokens: Tensor) -> Tensor:
    """Where the first letter of a word is expected, position units."""
    return ((tokens - FIRST_COLUMN) * COLUMN_PIXELS + COLUMN_PIXELS // 2 + _HALF_LETTER_PIXELS) * COLUMN_UNITS


def image_places(rows: int, columns: int, row_offset: int = 0, column_offset: int = 0) -> Tensor:
    """Cell middles, int64 [3, rows * columns]; offsets in cells."""
    row = (torch.arange(rows) + row_offset) * ROW_PIXELS + ROW_PIXELS // 2  # a cell is one row band high
    column = ((torch.arange(columns) + column_offset) * _CELL_WIDTH + _CELL_WIDTH // 2) * COLUMN_UNITS
    grid = torch.stack([row[:, None].expand(rows, columns), column[None].expand(rows, columns)])
    return torch.cat([torch.zeros(1, rows * columns, dtype=torch.long), grid.reshape(2, -1)])


def next_places(places: Tensor, tokens: Tensor) -> Tensor:
    """Positions of `tokens` [B], each written after an entry at `places` [3, B]: int64 [3, B]."""
    is_row = (tokens >= FIRST_ROW) & (tokens < FIRST_COLUMN)
    is_column = tokens >= FIRST_COLUMN
    row = torch.where(is_row, row_place(tokens), places[1])
    column = torch.where(is_column, column_place(tokens), places[2] + ADVANCES.to(tokens.device)[tokens])
    column = torch.where(is_row, 0, column)
    return torch.stack([places[0] + 1, row, column])


def output_places(tokens: Tensor) -> Tensor:
    """All positions of an output at once: tokens int64 [B, T], the first one BEGIN -> int64 [3, B, T]."""
    batch, length = tokens.shape
    index = torch.arange(length).expand(batch, length)
    is_row = (tokens >= FIRST_ROW) & (tokens < FIRST_COLUMN)
    is_column = tokens >= FIRST_COLUMN
    last_row = torch.where(is_row, index, -1).cummax(1).values
    rows = row_place(tokens.gather(1, last_row.clamp(min=0)))
    row = torch.where(last_row >= 0, rows, 0)
    travelled = ADVANCES[tokens].cumsum(1)
    last_set = torch.where(is_row | is_column, index, -1).cummax(1).values
    start = last_set.clamp(min=0)
    anchor_token = tokens.gather(1, start)
    anchor = torch.where(anchor_token >= FIRST_COLUMN, column_place(anchor_token), 0)
    moved = travelled - torch.where(last_set >= 0, travelled.gather(1, start), 0)
    column = torch.where(last_set >= 0, anchor, 0) + moved
    return torch.stack([index + 1, row, column])
