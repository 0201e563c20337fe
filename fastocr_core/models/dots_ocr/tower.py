"""The vision tower of dots.ocr in plain torch modules, named as the checkpoint names them.

Full attention among all patches of a page, two rotary axes, then 2 x 2 patches become one image token.
Written after the published description; unverified against real weights.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fastocr_core.models.attention_received import attention_received
from fastocr_core.models.base import ImageEncoding
from fastocr_core.models.norm import RootMeanSquareNorm

ROTARY_BASE = 10_000.0
MERGED_SIDE = 2  # patches; their square is one image token
MERGER_EPS = 1e-6
# Attention entries (heads x queries x keys) at once: 1 GiB in float32 even where the kernel holds its map.
ENTRIES_AT_ONCE = 1 << 28


@dataclass(frozen=True, slots=True)
class TowerShape:
    """Sizes of the tower: patches of `patch` x `patch` pixels, `hidden` the decoder's width."""

    layers: int
    heads: int
    width: int
    feed_forward: int
    hidden: int
    patch: int
    channels: int
    eps: float

    @property
    def head_dim(self) -> int:
        """Numbers per head."""
        return self.width // self.heads


class PatchEmbedding(nn.Module):
    """`patchifier`: one vector per patch."""

    def __init__(self, shape: TowerShape) -> None:
        super().__init__()
        self.patchifier = nn.ModuleDict(
            {
                "proj": nn.Conv2d(shape.channels, shape.width, shape.patch, stride=shape.patch),
                "norm": RootMeanSquareNorm(shape.width, shape.eps),
            }
        )

    def forward(self, patches: Tensor) -> Tensor:
        """[patches, channels * patch * patch] -> [patches, width]."""
        convolution = self.patchifier["proj"]
        assert isinstance(convolution, nn.Conv2d)
        # A convolution whose stride is its kernel is a product with each patch.
        rows = nn.functional.linear(patches, convolution.weight.flatten(1), convolution.bias)
        normalised: Tensor = self.patchifier["norm"](rows)
        return normalised


class PatchAttention(nn.Module):
    """Every patch attends to every patch of its page, some queries at a time."""

    def __init__(self, shape: TowerShape) -> None:
        super().__init__()
        self.heads, self.head_dim = shape.heads, shape.head_dim
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.proj = nn.Linear(shape.width, shape.width, bias=False)

    def heads_of(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values before rotation, each [heads, patches, head_dim]."""
        split = self.qkv(rows).view(len(rows), 3, self.heads, self.head_dim)
        query, key, value = split.permute(1, 2, 0, 3).unbind(0)
        return query, key, value

    def forward(self, rows: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """[patches, width] -> [patches, width]; `cosine` and `sine` are [patches, head_dim]."""
        query, key, value = self.heads_of(rows)
        query, key = rotated(query, cosine, sine), rotated(key, cosine, sine)
        step = max(1, ENTRIES_AT_ONCE // (self.heads * len(rows)))
        blocks = [
            nn.functional.scaled_dot_product_attention(block[None], key[None], value[None])[0]
            for block in torch.split(query, step, dim=1)
        ]
        attended = torch.cat(blocks, dim=1)  # [heads, patches, head_dim]
        projected: Tensor = self.proj(attended.transpose(0, 1).reshape(len(rows), -1))
        return projected


class GatedFeedForward(nn.Module):
    """fc2(silu(fc1 x) * fc3 x)."""

    def __init__(self, shape: TowerShape) -> None:
        super().__init__()
        self.fc1 = nn.Linear(shape.width, shape.feed_forward, bias=False)
        self.fc3 = nn.Linear(shape.width, shape.feed_forward, bias=False)
        self.fc2 = nn.Linear(shape.feed_forward, shape.width, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        """[patches, width] -> [patches, width]."""
        widened: Tensor = self.fc2(nn.functional.silu(self.fc1(rows)) * self.fc3(rows))
        return widened


class TowerBlock(nn.Module):
    """Attention, then feed-forward, each around a norm and a bypass."""

    def __init__(self, shape: TowerShape) -> None:
        super().__init__()
        self.norm1 = RootMeanSquareNorm(shape.width, shape.eps)
        self.attn = PatchAttention(shape)
        self.norm2 = RootMeanSquareNorm(shape.width, shape.eps)
        self.mlp = GatedFeedForward(shape)

    def forward(self, rows: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """[patches, width] -> [patches, width]."""
        rows = rows + self.attn(self.norm1(rows), cosine, sine)
        rows = rows + self.mlp(self.norm2(rows))
        return rows


class Merger(nn.Module):
    """Four neighbouring patches become one image token."""

    def __init__(self, shape: TowerShape) -> None:
        super().__init__()
        self.ln_q = nn.LayerNorm(shape.width, eps=MERGER_EPS)
        merged = shape.width * MERGED_SIDE**2
        self.mlp = nn.Sequential(nn.Linear(merged, merged), nn.GELU(), nn.Linear(merged, shape.hidden))

    def forward(self, rows: Tensor) -> Tensor:
        """[patches, width], four in a row belonging together -> [patches / 4, hidden]."""
        groups = self.ln_q(rows).reshape(len(rows) // MERGED_SIDE**2, -1)
        tokens: Tensor = self.mlp(groups)
        return tokens


class DotsTower(nn.Module):
    """Patches of one page to its image tokens."""

    def __init__(self, shape: TowerShape) -> None:
        super().__init__()
        self.shape = shape
        self.patch_embed = PatchEmbedding(shape)
        self.blocks = nn.ModuleList(TowerBlock(shape) for _ in range(shape.layers))
        self.post_trunk_norm = RootMeanSquareNorm(shape.width, shape.eps)
        self.merger = Merger(shape)

    def forward(self, patches: Tensor, grid_rows: int, grid_columns: int) -> Tensor:
        """[patches, channels * patch * patch] in merged order -> [grid_rows * grid_columns, hidden].

        The grid counts image tokens; `patches_of` makes the order.
        """
        rows, cosine, sine = self._begin(patches, grid_rows, grid_columns)
        for block in self.blocks:
            rows = block(rows, cosine, sine)
        return self._end(rows)

    def scored(self, patches: Tensor, grid_rows: int, grid_columns: int) -> ImageEncoding:
        """`forward`, with what the last block says of each image token: the mean attention that its four
        patches received, and the mean of their keys over heads and patches, before rotation: they tell what a
        patch shows, not where.
        """
        rows, cosine, sine = self._begin(patches, grid_rows, grid_columns)
        for block in self.blocks[:-1]:
            rows = block(rows, cosine, sine)
        last = self.blocks[-1]
        assert isinstance(last, TowerBlock)
        query, key, _ = last.attn.heads_of(last.norm1(rows))
        turned = rotated(query, cosine, sine), rotated(key, cosine, sine)
        received = attention_received(*turned, self.shape.head_dim**-0.5)
        keys = key.float().mean(0)  # [patches, head_dim]
        tokens = grid_rows * grid_columns
        return ImageEncoding(
            self._end(last(rows, cosine, sine)),
            received.view(tokens, -1).mean(1),
            keys.view(tokens, -1, keys.shape[1]).mean(1),
        )

    def _begin(self, patches: Tensor, grid_rows: int, grid_columns: int) -> tuple[Tensor, Tensor, Tensor]:
        dtype = self.post_trunk_norm.weight.dtype
        cosine, sine = rotary_table(grid_rows, grid_columns, self.shape.head_dim, patches.device)
        return self.patch_embed(patches.to(dtype)), cosine, sine

    def _end(self, rows: Tensor) -> Tensor:
        tokens: Tensor = self.merger(self.post_trunk_norm(rows))
        return tokens


def patches_of(pixels: Tensor, patch: int) -> Tensor:
    """Cut [height, width, channels] into rows [patches, channels * patch * patch] in merged order.

    Image tokens row by row; within one its patches top left, top right, bottom left, bottom right.
    """
    height, width, channels = pixels.shape
    rows, columns = height // (patch * MERGED_SIDE), width // (patch * MERGED_SIDE)
    cut = pixels.view(rows, MERGED_SIDE, patch, columns, MERGED_SIDE, patch, channels)
    return cut.permute(0, 3, 1, 4, 6, 2, 5).reshape(-1, channels * patch * patch)


def patch_places(grid_rows: int, grid_columns: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Row and column of every patch in merged order, int64 [patches] each, counted in patches."""
    row = torch.arange(grid_rows * MERGED_SIDE, device=device).view(grid_rows, 1, MERGED_SIDE, 1)
    column = torch.arange(grid_columns * MERGED_SIDE, device=device).view(1, grid_columns, 1, MERGED_SIDE)
    shape = (grid_rows, grid_columns, MERGED_SIDE, MERGED_SIDE)
    return row.expand(shape).flatten(), column.expand(shape).flatten()


def rotary_table(
    grid_rows: int, grid_columns: int, head_dim: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Cosine and sine [patches, head_dim] in float32: a quarter of the numbers turns with the row, a quarter
    with the column, and the second half of a head repeats the first.
    """
    quarter = head_dim // 4
    exponents = torch.arange(quarter, device=device, dtype=torch.float32) / quarter
    frequencies = ROTARY_BASE**-exponents  # [quarter]
    row, column = patch_places(grid_rows, grid_columns, device)
    angles = torch.cat((row[:, None] * frequencies, column[:, None] * frequencies), dim=1)
    whole = torch.cat((angles, angles), dim=1)  # [patches, head_dim]
    return whole.cos(), whole.sin()


def rotated(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate [heads, patches, head_dim] in float32; pairs are (i, i + head_dim / 2)."""
    wide = heads.float()
    first, second = wide.chunk(2, dim=-1)
    turned = wide * cosine + torch.cat((-second, first), dim=-1) * sine
    return turned.to(heads.dtype)
