"""Arranges the pixels of a view as the vision tower of Qwen2.5-VL takes them."""

from torch import Tensor

TEMPORAL_PATCH = 2


def patches_of(pixels: Tensor, patch: int, merged: int) -> Tensor:
    """Normalised pixels [height, width, 3] -> [patches, 3 * 2 * patch * patch].

    Patches come token by token (raster order of merged x merged patches) and in raster order within a token.
    Each row is (channel, time, y, x); a still image is the same at both times.
    """
    rows, columns = pixels.shape[0] // (patch * merged), pixels.shape[1] // (patch * merged)
    split = pixels.reshape(rows, merged, patch, columns, merged, patch, 3)
    ordered = split.permute(0, 3, 1, 4, 6, 2, 5)  # [rows, columns, merged, merged, 3, patch, patch]
    still = ordered.unsqueeze(5).expand(-1, -1, -1, -1, -1, TEMPORAL_PATCH, -1, -1)
    return still.reshape(rows * columns * merged * merged, -1)
