"""What crosses from the CPU side to the reader: uint8 views and their geometry, never float tensors.

Plain data, numpy only.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ModelVision:
    """How one model sees; picklable and hashable.

    `family` names the preparation, `mode` its size setting, `cell_width` and `cell_height` the area of one
    visual token in pixels of the prepared view, `wanted_dpi` the resolution at which a PDF page should be rendered for it,
    `takes_prompt` whether it can be asked for anything but the text.
    """

    family: str
    mode: str
    cell_width: int
    cell_height: int
    max_image_tokens: int
    wanted_dpi: int
    settings: tuple[tuple[str, float], ...] = ()
    takes_prompt: bool = False


@dataclass(frozen=True, slots=True)
class PreparedPage:
    """One page in the model's own sizes.

    `views` are uint8 [height, width, channels]; `transform` (a, b, c, d, e, f) takes a pixel (x, y) of view
    0 to the given image: (a*x + b*y + c, d*x + e*y + f). `scale` is view pixels per given-image pixel,
    `ink_share` 0 to 1. `parts`: where they are given the page is read part by part, in their order, and the image tokens
    are those of the parts; each has a transform to the given image of its own.
    """

    views: tuple[NDArray[np.uint8], ...]
    grid_rows: int
    grid_columns: int
    image_tokens: int
    mode: str
    tile_columns: int
    tile_rows: int
    transform: tuple[float, float, float, float, float, float]
    source_width: int
    source_height: int
    scale: float
    ink_share: float
    parts: "tuple[PreparedPage, ...]" = ()
