"""How DeepSeek-OCR and Unlimited-OCR see a page: tiles and a global view, with Pillow's own resampling.

Sizes and token order are in `deepseek_tiles`. The views are uint8; the adapter normalises. numpy and Pillow,
no torch.
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from fastocr_core.vision.deepseek_tiles import (
    CELL_PIXELS,
    DEFAULT_MAX_TILES,
    SIZE_MODES,
    SizeMode,
    TokenOrder,
    cells_per_side,
    most_tokens,
    token_order,
)
from fastocr_core.vision.prepared import ModelVision, PreparedPage
from fastocr_core.vision.scale import grey_range

Transform = tuple[float, float, float, float, float, float]

PADDING_TONE = 127
_UNLIMITED_MAX_TILES = 32
_RENDER_DPI = 144  # what the authors render PDF pages at


def vision_deepseek(mode: str = "auto", max_tiles: int | None = None) -> ModelVision:
    """DeepSeek-OCR in one of its modes: tiny, small, base, large, gundam (auto) or gundam-m.

    `gundam:6` is gundam with at most 6 tiles. ValueError for any other mode. Whether the public weights were
    trained for gundam-m is not known.
    """
    return _vision("deepseek-ocr", mode, max_tiles or DEFAULT_MAX_TILES)


def vision_unlimited(mode: str = "auto", max_tiles: int | None = None) -> ModelVision:
    """Unlimited-OCR: the same views, with up to 32 tiles. Its authors use gundam (auto) and base."""
    return _vision("unlimited-ocr", mode, max_tiles or _UNLIMITED_MAX_TILES)


def _vision(family: str, mode: str, max_tiles: int) -> ModelVision:
    name, colon, limit = ("gundam" if mode == "auto" else mode).partition(":")
    size = SIZE_MODES.get(name)
    if size is None or (colon and not (size.tile_pixels and limit.isdecimal())):
        tiled = ", ".join(f"{name}:TILES" for name, size in SIZE_MODES.items() if size.tile_pixels)
        raise ValueError(f"{family} knows no mode {mode!r}; known: auto, {', '.join(SIZE_MODES)}, {tiled}")
    most = int(limit) if colon else max_tiles
    return ModelVision(
        family=family,
        mode=f"{name}:{most}" if size.tile_pixels else name,
        cell_width=CELL_PIXELS,
        cell_height=CELL_PIXELS,
        max_image_tokens=most_tokens(size, most),
        wanted_dpi=_RENDER_DPI,
        settings=(("max_tiles", float(most)),),
        takes_prompt=True,
    )


def prepare_deepseek(image: Image.Image, vision: ModelVision, dpi: float | None) -> PreparedPage:
    """Tiles (row by row) and then the global view, each uint8 [side, side, 3].

    An orientation noted in the image's EXIF data is applied first, and sizes and boxes are those of the
    upright image. `dpi` does not matter: only pixels do.
    """
    page = ImageOps.exif_transpose(image).convert("RGB")
    size, max_tiles = _size_and_limit(vision)
    order = token_order(page.width, page.height, size, max_tiles)
    tiles = _tiles(page, order, size.tile_pixels)
    whole = _stretched(page, size.global_pixels) if size.stretched else _padded(page, size.global_pixels)
    transforms = view_transforms(page.width, page.height, vision)
    grey = np.asarray(page.reduce(max(1, min(page.size) // 512)).convert("L"))
    is_tiled = bool(tiles)
    return PreparedPage(
        views=(*tiles, whole),
        grid_rows=order.local_rows if is_tiled else order.global_cells,
        grid_columns=order.local_columns if is_tiled else order.global_cells,
        image_tokens=order.image_tokens,
        mode=vision.mode,
        tile_columns=order.tile_columns if is_tiled else 1,
        tile_rows=order.tile_rows if is_tiled else 1,
        transform=transforms[0],
        source_width=page.width,
        source_height=page.height,
        scale=1.0 / max(transforms[0][0], transforms[0][4]),
        ink_share=float((grey < grey_range(grey)[1] - 60).mean()),
    )


def count_tokens_deepseek(width: int, height: int, vision: ModelVision) -> int:
    """Image tokens of a page of exactly that size."""
    return token_order(width, height, *_size_and_limit(vision)).image_tokens


def page_order(page: PreparedPage) -> TokenOrder:
    """The token order of a prepared page, from its views alone. ValueError if they are not of this family."""
    sides = {view.shape for view in page.views[:-1]}
    whole = page.views[-1].shape
    tiles = len(page.views) - 1
    is_square = all(len(shape) == 3 and shape[0] == shape[1] and shape[2] == 3 for shape in (*sides, whole))
    if not is_square or len(sides) > 1 or (tiles and tiles != page.tile_columns * page.tile_rows):
        raise ValueError(
            "the page was not prepared for this model: its views are not square tiles and a whole"
        )
    if not tiles:
        order = TokenOrder(0, 0, 0, cells_per_side(whole[0]))
    else:
        side = cells_per_side(page.views[0].shape[0])
        order = TokenOrder(page.tile_columns, page.tile_rows, side, cells_per_side(whole[0]))
    if order.image_tokens != page.image_tokens:
        raise ValueError(
            f"the page claims {page.image_tokens} image tokens, its views give {order.image_tokens}"
        )
    return order


def view_transforms(width: int, height: int, vision: ModelVision) -> tuple[Transform, ...]:
    """For every view of a page of `width` x `height` pixels: (a, b, c, d, e, f) that takes a pixel (x, y) of
    the view to (a*x + b*y + c, d*x + e*y + f) of the page. Padding lands outside the page.
    """
    size, max_tiles = _size_and_limit(vision)
    order = token_order(width, height, size, max_tiles)
    transforms: list[Transform] = []
    for row in range(order.tile_rows):
        for column in range(order.tile_columns):
            across = width / (order.tile_columns * size.tile_pixels)
            down = height / (order.tile_rows * size.tile_pixels)
            left, top = column * size.tile_pixels * across, row * size.tile_pixels * down
            transforms.append((across, 0.0, left, 0.0, down, top))
    side = size.global_pixels
    if size.stretched:
        transforms.append((width / side, 0.0, 0.0, 0.0, height / side, 0.0))
    else:
        inner_width, inner_height, left_pixels, top_pixels = _fitted(width, height, side)
        across, down = width / inner_width, height / inner_height
        transforms.append((across, 0.0, -left_pixels * across, 0.0, down, -top_pixels * down))
    return tuple(transforms)


def token_boxes(width: int, height: int, vision: ModelVision) -> NDArray[np.float64]:
    """The area of the page behind every image token, [image_tokens, 4] as x0, y0, x1, y1 in page pixels.

    Rows of newlines and of the separator are not-a-number; cells on padding lie outside the page.
    """
    size, max_tiles = _size_and_limit(vision)
    order = token_order(width, height, size, max_tiles)
    transforms = view_transforms(width, height, vision)
    sides = [order.tile_cells] * (len(transforms) - 1) + [order.global_cells]
    cells = [np.zeros((0, 4))]
    for (across, _, left, _, down, top), side in zip(transforms, sides, strict=True):
        rows, columns = np.divmod(np.arange(side**2), side)
        x, y = columns * CELL_PIXELS * across + left, rows * CELL_PIXELS * down + top
        cells.append(np.stack((x, y, x + CELL_PIXELS * across, y + CELL_PIXELS * down), axis=1))
    markers = np.full((2, 4), np.nan)
    boxes: NDArray[np.float64] = np.concatenate([*cells, markers])[order.sources()]
    return boxes


def _size_and_limit(vision: ModelVision) -> tuple[SizeMode, int]:
    return SIZE_MODES[vision.mode.partition(":")[0]], int(dict(vision.settings)["max_tiles"])


def _tiles(page: Image.Image, order: TokenOrder, side: int) -> list[NDArray[np.uint8]]:
    """The page, stretched to the grid and cut row by row."""
    if not order.tile_columns:
        return []
    stretched = page.resize((order.tile_columns * side, order.tile_rows * side), Image.Resampling.BICUBIC)
    pixels = np.asarray(stretched).reshape(order.tile_rows, side, order.tile_columns, side, 3)
    return list(np.ascontiguousarray(pixels.transpose(0, 2, 1, 3, 4)).reshape(-1, side, side, 3))


def _stretched(page: Image.Image, side: int) -> NDArray[np.uint8]:
    return np.array(page.resize((side, side), Image.Resampling.BICUBIC))


def _padded(page: Image.Image, side: int) -> NDArray[np.uint8]:
    width, height, left, top = _fitted(page.width, page.height, side)
    view = np.full((side, side, 3), PADDING_TONE, np.uint8)
    fitted = page.resize((width, height), Image.Resampling.BICUBIC)
    view[top : top + height, left : left + width] = np.asarray(fitted)
    return view


def _fitted(width: int, height: int, side: int) -> tuple[int, int, int, int]:
    """Width and height of the page inside a square, and its left and top; as Pillow's `ImageOps.pad`, but
    never thinner than one pixel.
    """
    inner_width = inner_height = side
    if width > height:
        inner_height = max(1, round(height / width * side))
    elif height > width:
        inner_width = max(1, round(width / height * side))
    return inner_width, inner_height, round((side - inner_width) * 0.5), round((side - inner_height) * 0.5)
