"""From uint8 views to the numbers a vision tower was trained on: mean and deviation per channel, as the
checkpoint states them.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fastocr_core.vision.processor_file import image_processor_settings

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_DEVIATION = (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True, slots=True)
class ImageStatistics:
    """Mean and deviation of the channels, of values scaled to 0..1."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def normalised(self, view: Tensor) -> Tensor:
        """uint8 [..., channels] -> float32 of the same shape."""
        mean = torch.tensor(self.mean, device=view.device)
        deviation = torch.tensor(self.deviation, device=view.device)
        return (view.float() / 255 - mean) / deviation


def image_statistics(folder: Path, default: ImageStatistics) -> ImageStatistics:
    """What the checkpoint in `folder` states, `default` where it has no file about its image processor."""
    found = image_processor_settings(folder)
    mean, deviation = found.get("image_mean"), found.get("image_std")
    if mean is None and deviation is None:
        return default
    if not (isinstance(mean, list) and isinstance(deviation, list) and len(mean) == len(deviation) == 3):
        raise ValueError(
            f"the image processor of {folder} does not name a mean and deviation of three channels"
        )
    return ImageStatistics(tuple(map(float, mean)), tuple(map(float, deviation)))
