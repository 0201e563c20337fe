"""Random prompts of one layer, their whole attention maps, and the published choices written out naively.

Nothing here shares code with the policies: numpy in double precision, loops, whole maps.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fastocr_core.decoding.base import ImageGrid, PrefillView

Map = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RandomPrompt:
    """Text, image (a grid), text. `query` [query_heads, T, d], `keys` [kv_heads, T, d]."""

    rows: int
    columns: int
    before: int
    after: int
    query: torch.Tensor
    keys: torch.Tensor

    @property
    def image_tokens(self) -> int:
        return self.rows * self.columns

    @property
    def entries(self) -> int:
        return self.before + self.image_tokens + self.after

    @property
    def grid(self) -> ImageGrid:
        return ImageGrid(self.rows, self.columns)

    def view(self, first_row: int = 0, end: int | None = None) -> PrefillView:
        """The prompt, or a chunk of it."""
        end = self.entries if end is None else end
        return PrefillView(
            query=self.query[:, first_row:end],
            keys=self.keys[:, :end],
            first_row=first_row,
            scaling=0.5,
            image_start=self.before,
            image_tokens=self.image_tokens,
            grid=self.grid,
            prompt_entries=self.entries,
        )

    def attention(self) -> Map:
        """Causal softmax by query head, [query_heads, T, T]."""
        group = len(self.query) // len(self.keys)
        maps = np.zeros((len(self.query), self.entries, self.entries))
        for head in range(len(self.query)):
            query, keys = self.query[head].double().numpy(), self.keys[head // group].double().numpy()
            for row in range(self.entries):
                weights = np.exp(keys[: row + 1] @ query[row] * 0.5)
                maps[head, row, : row + 1] = weights / weights.sum()
        return maps

    def image_attention(self) -> Map:
        """The image columns, [kv_heads, group, T, image_tokens]."""
        image = self.attention()[:, :, self.before : self.before + self.image_tokens]
        return image.reshape(len(self.keys), -1, *image.shape[1:])


def random_prompt(
    rows: int, columns: int, before: int, after: int, kv_heads: int, group: int, seed: int
) -> RandomPrompt:
    generator = torch.Generator().manual_seed(seed)
    entries = before + rows * columns + after
    query = torch.randn(kv_heads * group, entries, 8, generator=generator)
    keys = torch.randn(kv_heads, entries, 8, generator=generator)
    return RandomPrompt(rows, columns, before, after, query, keys)


def assert_strongest(chosen: torch.Tensor, scores: Map, kept: int) -> None:
    """`chosen` [kv_heads, kept] are the `kept` largest of `scores` [kv_heads, image_tokens] by head, in
    ascending order; scores that single precision cannot tell apart may stand for each other.
    """
    assert chosen.shape == (len(scores), kept)
    for head, tokens in enumerate(chosen.tolist()):
        assert tokens == sorted(set(tokens))
        others = np.delete(scores[head], tokens)
        if len(others):
            assert scores[head][tokens].min() >= others.max() - 1e-5 * abs(scores[head]).max()


def snapkv_votes(prompt: RandomPrompt, window: int, kernel: int, on_grid: bool) -> Map:
    """[kv_heads, image_tokens]."""
    image = prompt.image_attention()[:, :, max(0, prompt.entries - window) :]
    votes = image.sum(2).mean(1)
    smooth = np.zeros_like(votes)
    reach = kernel // 2
    for head in range(len(votes)):
        for token in range(prompt.image_tokens):
            row, column = divmod(token, prompt.columns)
            if on_grid:
                near = [
                    votes[head, r * prompt.columns + c]
                    for r in range(row - reach, row + reach + 1)
                    for c in range(column - reach, column + reach + 1)
                    if 0 <= r < prompt.rows and 0 <= c < prompt.columns
                ]
                smooth[head, token] = sum(near) / kernel**2
            else:
                near = votes[head, max(0, token - reach) : token + reach + 1].tolist()
                smooth[head, token] = sum(near) / kernel
    return smooth


def visionzip_tokens(
    embeddings: Map, received: Map, keys: Map, dominant: int, contextual: int
) -> dict[int, Map]:
    """The kept tokens and their embeddings."""
    order = sorted(range(len(received)), key=lambda token: -received[token])
    kept = {token: embeddings[token] for token in order[:dominant]}
    rest = sorted(order[dominant:])
    if not contextual or not rest:
        return kept
    step = max(1, len(rest) // contextual)
    targets = [rest[index] for index in range(0, len(rest), step)][:contextual]
    joined: dict[int, list[int]] = {target: [] for target in targets}
    for token in rest:
        if token in joined:
            continue

        def likeness(target: int, token: int = token) -> float:
            lengths = np.linalg.norm(keys[target]) * np.linalg.norm(keys[token])
            return float(keys[target] @ keys[token] / lengths)

        joined[max(targets, key=likeness)].append(token)
    for target, tokens in joined.items():
        kept[target] = embeddings[target] + (embeddings[tokens].mean(0) if tokens else 0.0)
    return kept
