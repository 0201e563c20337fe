"""DeepSeek-OCR once more, written for being obviously right: published tensors, plain torch, no cache.

`wrong` plants one mistake, to show that the comparison would notice it.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

WINDOW_CELLS = 14


class DeepSeekReference:
    """Full precision, one page, everything recomputed. `wrong` is one of "" , "concat", "gate", "newline",
    "top".
    """

    def __init__(self, tensors: dict[str, Tensor], config: dict[str, Any], wrong: str = "") -> None:
        self.tensors, self.wrong = tensors, wrong
        self.text = config["language_config"]
        self.sam = config["vision_config"]["width"]["sam_vit_b"]
        self.clip = config["vision_config"]["width"]["clip-l-14-224"]

    def image(self, tiles: Tensor | None, columns: int, whole: Tensor) -> Tensor:
        """Image tokens [tokens, hidden] from tiles [n, 3, s, s], row by row, and the whole [1, 3, s, s]."""
        newline = [] if self.wrong == "newline" else [self.tensors["model.image_newline"]]
        tokens: list[Tensor] = []
        if tiles is not None:
            cells = self.view(tiles)  # [n, side * side, hidden]
            side = math.isqrt(cells.shape[1])
            for row in range(len(tiles) // columns * side):
                for column in range(columns * side):
                    tile = row // side * columns + column // side
                    tokens.append(cells[tile, row % side * side + column % side])
                tokens += newline
        cells = self.view(whole)[0]
        side = math.isqrt(len(cells))
        for row in range(side):
            tokens += [*cells[row * side : (row + 1) * side], *newline]
        return torch.stack([*tokens, self.tensors["model.view_seperator"]])

    def view(self, pixels: Tensor) -> Tensor:
        """[n, 3, s, s] in -1..1 -> projected cells [n, cells, hidden]."""
        grid = self.sam_map(pixels)
        sam = grid.flatten(2).transpose(1, 2)
        clip = self.clip_cells(grid)
        both = (sam, clip) if self.wrong == "concat" else (clip, sam)
        return self.linear("model.projector.layers", torch.cat(both, -1))

    def linear(self, name: str, x: Tensor) -> Tensor:
        return functional.linear(x, self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias"))

    def norm(self, name: str, x: Tensor, eps: float) -> Tensor:
        return functional.layer_norm(
            x, x.shape[-1:], self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"], eps
        )

    def sam_map(self, pixels: Tensor) -> Tensor:
        """[n, 3, s, s] -> [n, channels, s / 64, s / 64]."""
        name, get = "model.sam_model", self.tensors
        patch = f"{name}.patch_embed.proj"
        x = functional.conv2d(pixels, get[f"{patch}.weight"], get[f"{patch}.bias"], stride=16)
        x = x + _resized(get[f"{name}.pos_embed"].permute(0, 3, 1, 2), x.shape[-1])
        x = x.permute(0, 2, 3, 1)
        for block in range(self.sam["layers"]):
            prefix = f"{name}.blocks.{block}"
            y = self.norm(f"{prefix}.norm1", x, 1e-6)
            if block in self.sam["global_attn_indexes"]:
                x = x + self.sam_attention(f"{prefix}.attn", y)
            else:
                x = x + self.windowed(f"{prefix}.attn", y)
            y = functional.gelu(self.linear(f"{prefix}.mlp.lin1", self.norm(f"{prefix}.norm2", x, 1e-6)))
            x = x + self.linear(f"{prefix}.mlp.lin2", y)
        x = functional.conv2d(x.permute(0, 3, 1, 2), get[f"{name}.neck.0.weight"])
        x = self.norm(f"{name}.neck.1", x.permute(0, 2, 3, 1), 1e-6).permute(0, 3, 1, 2)
        x = functional.conv2d(x, get[f"{name}.neck.2.weight"], padding=1)
        x = self.norm(f"{name}.neck.3", x.permute(0, 2, 3, 1), 1e-6).permute(0, 3, 1, 2)
        x = functional.conv2d(x, get[f"{name}.net_2.weight"], stride=2, padding=1)
        return functional.conv2d(x, get[f"{name}.net_3.weight"], stride=2, padding=1)

    def windowed(self, name: str, x: Tensor) -> Tensor:
        """Attention in windows; padding takes part."""
        height, width = x.shape[1:3]
        x = functional.pad(x, (0, 0, 0, -width % WINDOW_CELLS, 0, -height % WINDOW_CELLS))
        out = torch.empty_like(x)
        for top in range(0, x.shape[1], WINDOW_CELLS):
            for left in range(0, x.shape[2], WINDOW_CELLS):
                place = (slice(None), slice(top, top + WINDOW_CELLS), slice(left, left + WINDOW_CELLS))
                out[place] = self.sam_attention(name, x[place])
        return out[:, :height, :width]

    def sam_attention(self, name: str, x: Tensor) -> Tensor:
        """[n, h, w, c] with decomposed relative positions, head by head."""
        count, height, width, channels = x.shape
        qkv = self.linear(f"{name}.qkv", x).reshape(count, height * width, 3, self.sam["heads"], -1)
        outputs = []
        for head in range(self.sam["heads"]):
            query, key, value = (qkv[:, :, part, head] for part in range(3))
            scores = query @ key.transpose(1, 2) / math.sqrt(query.shape[-1])
            grid = query.view(count, height, width, -1)
            down = torch.einsum("nhwc,hkc->nhwk", grid, self.relative(f"{name}.rel_pos_h", height))
            across = torch.einsum("nhwc,wkc->nhwk", grid, self.relative(f"{name}.rel_pos_w", width))
            bias = down[..., :, None] + across[..., None, :]
            outputs.append((scores + bias.reshape(scores.shape)).softmax(-1) @ value)
        return self.linear(f"{name}.proj", torch.cat(outputs, -1)).view(count, height, width, channels)

    def relative(self, name: str, side: int) -> Tensor:
        """[side, side, head]: the table row of every pair of places."""
        table = self.tensors[name]
        if len(table) != 2 * side - 1:
            table = functional.interpolate(table.T[None], size=2 * side - 1, mode="linear")[0].T
        places = torch.arange(side)
        return table[places[:, None] - places[None] + side - 1]

    def clip_cells(self, grid: Tensor) -> Tensor:
        """[n, c, side, side] -> [n, cells, c]."""
        name, count = "model.vision_model", len(grid)
        first = self.tensors[f"{name}.embeddings.class_embedding"].expand(count, 1, -1)
        positions = self.tensors[f"{name}.embeddings.position_embedding.weight"]
        places = positions[1:].T.reshape(1, -1, 16, 16)
        places = _resized(places, grid.shape[-1]).flatten(2).transpose(1, 2)
        x = torch.cat((first, grid.flatten(2).transpose(1, 2)), 1)
        x = x + torch.cat((positions[None, :1], places), 1)
        x = self.norm(f"{name}.pre_layrnorm", x, 1e-5)
        for layer in range(self.clip["layers"]):
            prefix = f"{name}.transformer.layers.{layer}"
            qkv = self.linear(f"{prefix}.self_attn.qkv_proj", self.norm(f"{prefix}.layer_norm1", x, 1e-5))
            heads = [
                part.unflatten(-1, (self.clip["heads"], -1)).transpose(1, 2) for part in qkv.chunk(3, -1)
            ]
            mixed = functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
            x = x + self.linear(f"{prefix}.self_attn.out_proj", mixed)
            y = self.linear(f"{prefix}.mlp.fc1", self.norm(f"{prefix}.layer_norm2", x, 1e-5))
            x = x + self.linear(f"{prefix}.mlp.fc2", y * torch.sigmoid(1.702 * y))
        return x[:, 1:]

    def logits(self, embeddings: Tensor) -> Tensor:
        """[T, hidden] -> [T, vocabulary], causal and without a cache."""
        x = embeddings
        for layer in range(self.text["num_hidden_layers"]):
            prefix = f"model.layers.{layer}"
            x = x + self.attention(f"{prefix}.self_attn", self.rms(f"{prefix}.input_layernorm", x))
            y = self.rms(f"{prefix}.post_attention_layernorm", x)
            is_dense = layer < self.text["first_k_dense_replace"]
            x = x + (self.swiglu(f"{prefix}.mlp", y) if is_dense else self.experts(f"{prefix}.mlp", y))
        return self.linear("lm_head", self.rms("model.norm", x))

    def rms(self, name: str, x: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * self.tensors[f"{name}.weight"]

    def attention(self, name: str, x: Tensor) -> Tensor:
        heads = self.text["num_attention_heads"]
        q, k, v = (self.linear(f"{name}.{part}_proj", x).view(len(x), heads, -1) for part in "qkv")
        half = q.shape[-1] // 2
        angles = torch.arange(len(x))[:, None] * 10_000.0 ** (-torch.arange(half) / half)  # [T, half]
        turn = torch.polar(torch.ones_like(angles), angles)[:, None]
        q, k = (_turned(part, turn) for part in (q, k))
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(torch.ones(len(x), len(x)).triu(1).bool(), -math.inf)
        return self.linear(f"{name}.o_proj", torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).flatten(1))

    def swiglu(self, name: str, x: Tensor) -> Tensor:
        gate, up = self.linear(f"{name}.gate_proj", x), self.linear(f"{name}.up_proj", x)
        if self.wrong == "gate" and ".experts." in name:
            gate, up = up, gate
        return self.linear(f"{name}.down_proj", functional.silu(gate) * up)

    def experts(self, name: str, x: Tensor) -> Tensor:
        shares = (x @ self.tensors[f"{name}.gate.weight"].T).softmax(-1)
        weights, chosen = shares.topk(self.text["num_experts_per_tok"], -1)
        if self.wrong == "top":
            weights = weights / weights.sum(-1, keepdim=True)
        out = self.swiglu(f"{name}.shared_experts", x)
        for row in range(len(x)):
            for weight, number in zip(weights[row], chosen[row].tolist(), strict=True):
                out[row] += weight * self.swiglu(f"{name}.experts.{number}", x[row])
        return out


def _resized(grid: Tensor, side: int) -> Tensor:
    """[1, c, s, s] -> [1, c, side, side]."""
    if grid.shape[-1] == side:
        return grid
    return functional.interpolate(grid, (side, side), mode="bicubic", antialias=True, align_corners=False)


def _turned(x: Tensor, turn: Tensor) -> Tensor:
    """Rotate halves: number i is paired with i + half."""
    low, high = x.chunk(2, -1)
    turned = torch.complex(low, high) * turn
    return torch.cat((turned.real, turned.imag), -1)
