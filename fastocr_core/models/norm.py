"""The norm of Llama-like layers (Zhang and Sennrich 2019), for the networks that are written out here."""

import torch
from torch import Tensor, nn


class RootMeanSquareNorm(nn.Module):
    """Scales each row to unit root mean square, in float32, then by a weight per channel."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, rows: Tensor) -> Tensor:
        """[..., width] -> [..., width] in the type of `rows`."""
        wide = rows.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * scaled.to(rows.dtype)
