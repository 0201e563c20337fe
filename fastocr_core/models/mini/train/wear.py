"""What print and paper suffer: heavy and faint ink, show-through, stains, uneven light, specks, dark scanner edges, fax.

Every effect takes and gives grey pages of the same size and moves nothing, so that the truth of the layout stays exact.
`wear` is the strength, 0 (nothing) to 1 (as bad as can still be read); the amount is drawn below it.
"""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageChops, ImageFilter

from fastocr_core.models.mini.train.placement import PageLayout

_FAX_ACROSS, _FAX_DOWN = 204 / 150, 98 / 150  # dots of a standard fax for each pixel of a page at 150 dpi


def heavy(image: Image.Image, generator: np.random.Generator, wear: float) -> Image.Image:
    """Strokes up to a pixel fatter."""
    wider = ImageChops.darker(image, ImageChops.offset(image, 1, 0))
    fatter = ImageChops.darker(wider, ImageChops.offset(wider, 0, int(generator.choice([-1, 1]))))
    return Image.blend(image, fatter, float(generator.uniform(0.25, 0.9)) * wear)


def light(image: Image.Image, generator: np.random.Generator, wear: float) -> Image.Image:
    """Strokes up to a pixel thinner and grey, more in some places than in others."""
    thinner = ImageChops.lighter(image, ImageChops.offset(image, 1, 0))
    image = Image.blend(image, thinner, float(generator.uniform(0.0, 0.45)) * wear)
    cells = generator.uniform(0, 1, (image.height // 24 + 2, image.width // 24 + 2)).astype(np.float32)
    strength = 1 - wear * generator.uniform(0.2, 0.62) * _spread(cells, image.width, image.height)
    return Image.fromarray((255 - (255 - np.asarray(image, np.float32)) * strength).astype(np.uint8))


def letterpress(image: Image.Image, generator: np.random.Generator, wear: float) -> Image.Image:
    """Ink that ran before it dried: corners round, counters closed or hairlines gone, from letter to letter differently."""
    soft = np.asarray(image.filter(ImageFilter.GaussianBlur(float(generator.uniform(0.5, 1.15)))), np.float32)
    cells = generator.uniform(-1, 1, (image.height // 24 + 2, image.width // 24 + 2)).astype(np.float32)
    field = np.asarray(Image.fromarray(cells).resize(image.size, Image.Resampling.BILINEAR))
    level = wear * (generator.uniform(-75, 45) + 30 * field)
    gain = float(generator.uniform(1.3, 3.0))
    return Image.fromarray(np.clip(128 + (soft - 128 + level) * gain, 0, 255).astype(np.uint8))


def _spread(cells: np.ndarray, width: int, height: int) -> np.ndarray:
    """A coarse float32 field stretched smoothly over the page, clipped to 0..1."""
    field = np.asarray(Image.fromarray(cells).resize((width, height), Image.Resampling.BILINEAR))
    clipped: np.ndarray = np.clip(field, 0, 1)
    return clipped


def show_through(
    image: Image.Image, back: Image.Image, generator: np.random.Generator, wear: float
) -> Image.Image:
    """The other side's print `back`, mirrored, moved and blurred, faintly below the front's."""
    mirrored = back.transpose(Image.Transpose.FLIP_LEFT_RIGHT).filter(ImageFilter.BoxBlur(1))
    across, down = int(generator.integers(-60, 61)), int(generator.integers(-60, 61))
    mirrored = ImageChops.offset(mirrored, across, down)
    faint = Image.blend(
        Image.new("L", image.size, 255), mirrored, float(generator.uniform(0.08, 0.36)) * wear
    )
    return ImageChops.multiply(image, faint)


def stains(values: np.ndarray, generator: np.random.Generator, wear: float) -> np.ndarray:
    """Darker patches with soft and hard edges; float32 [height, width] in and out."""
    height, width = values.shape
    side = int(generator.integers(60, 260))
    cells = generator.standard_normal((height // side + 2, width // side + 2)).astype(np.float32)
    field = np.asarray(Image.fromarray(cells).resize((width, height), Image.Resampling.BICUBIC))
    edge, softness = generator.uniform(0.3, 1.0), generator.uniform(0.05, 0.8)
    patches = np.clip((field - edge) / softness, 0, 1)
    stained: np.ndarray = values * (1 - patches * generator.uniform(0.1, 0.45) * wear)
    return stained


def lighting(values: np.ndarray, generator: np.random.Generator, wear: float) -> np.ndarray:
    """Darker towards one side and towards a fold; float32 [height, width] in and out."""
    height, width = values.shape
    y, x = np.linspace(-0.5, 0.5, height, dtype=np.float32), np.linspace(-0.5, 0.5, width, dtype=np.float32)
    angle = generator.uniform(0, 2 * np.pi)
    ramp = 0.5 + np.sin(angle) * y[:, None] + np.cos(angle) * x[None]
    shade = generator.uniform(0.05, 0.4) * wear * np.clip(ramp, 0, 1)
    if generator.random() < 0.4:
        place, reach = generator.choice([-0.5, 0.5]), generator.uniform(0.03, 0.12)
        fold = generator.uniform(0.1, 0.5) * wear * np.exp(-np.abs(x - place) / reach)
        shade = shade + fold[None]
    shaded: np.ndarray = values * (1 - np.clip(shade, 0, 0.6))
    return shaded


def speckle(values: np.ndarray, generator: np.random.Generator, wear: float) -> np.ndarray:
    """Dark specks and white gaps of one to nine pixels, in place; density up to one in 900 pixels."""
    height, width = values.shape
    count = int(height * width * generator.uniform(0.05, 1.0) ** 2 * wear / 900)
    for side, share in ((1, 0.6), (2, 0.33), (3, 0.07)):
        number = int(count * share)
        y, x = (
            generator.integers(0, max(1, height - side), number),
            generator.integers(0, max(1, width - side), number),
        )
        tones = np.where(generator.random(number) < 0.7, generator.uniform(0, 120, number), 255.0)
        for down in range(min(side, height)):
            for across in range(min(side, width)):
                values[y + down, x + across] = tones
    return values


def scan_edges(
    image: Image.Image, layout: PageLayout, generator: np.random.Generator, wear: float
) -> Image.Image:
    """Dark strips along some edges, only where the layout leaves room beside its words."""
    pixels = np.array(image)
    height, width = pixels.shape
    room = free_margins(layout)
    for side in range(4):
        most = min(room[side] - 6, 80 * wear)
        if most < 3 or generator.random() < 0.4:
            continue
        strip = int(generator.uniform(2, most))
        tone = generator.uniform(0, 90)
        ragged = strip + np.cumsum(generator.integers(-1, 2, height if side < 2 else width))
        ragged = np.clip(ragged, 1, most).astype(int)
        place = np.arange(width if side < 2 else height)
        if side % 2:
            place = place[::-1]
        dark = place[None, :] < ragged[:, None]  # along the edge x away from it
        pixels[dark if side < 2 else dark.T] = tone
    return Image.fromarray(pixels)


def free_margins(layout: PageLayout) -> tuple[float, float, float, float]:
    """Distance of the nearest word from the left, right, top and bottom edge of the drawn page, pixels."""
    words = [word for line in layout.lines for word in line]
    if not words:
        return layout.width / 4, layout.width / 4, layout.height / 4, layout.height / 4
    left = np.array([word.x for word in words])
    right = np.array([word.x + word.width for word in words])
    top = np.array([word.baseline - word.face.ascent * word.pixels for word in words])
    bottom = np.array([word.baseline + word.face.descent * word.pixels for word in words])
    x, y = layout.turned(
        np.concatenate([left, right, left, right]), np.concatenate([top, top, bottom, bottom])
    )
    return float(x.min()), float(layout.width - x.max()), float(y.min()), float(layout.height - y.max())


def coarse(image: Image.Image, generator: np.random.Generator, wear: float) -> Image.Image:
    """Scanned at a lower resolution and enlarged again."""
    share = 1 - float(generator.uniform(0.15, 0.5)) * wear
    size = max(1, round(image.width * share)), max(1, round(image.height * share))
    return image.resize(size, Image.Resampling.BOX).resize(image.size, Image.Resampling.BICUBIC)


def fax(image: Image.Image, generator: np.random.Generator, wear: float) -> Image.Image:
    """Black and white at the resolution of a fax, lower from line to line than along it, with noise at the edges."""
    down = _FAX_DOWN * (1 if generator.random() < 0.5 * wear else 2)
    size = max(1, round(image.width * _FAX_ACROSS)), max(1, round(image.height * down))
    sent = np.asarray(image.resize(size, Image.Resampling.BOX), np.float32)
    noise = generator.standard_normal(sent.shape, dtype=np.float32) * generator.uniform(5, 35) * wear
    dots = np.where(sent + noise > generator.uniform(120, 180), 255, 0).astype(np.uint8)
    return Image.fromarray(dots).resize(image.size, Image.Resampling.BILINEAR)


def bitonal_scan(image: Image.Image, generator: np.random.Generator, wear: float) -> Image.Image:
    """Black and white at twice the size, then reduced: what a bitonal scan at 300 dpi becomes in the prepared view."""
    values = np.asarray(image.filter(ImageFilter.BoxBlur(1)), np.int16)
    grain = generator.integers(-1, 2, values.shape, dtype=np.int8) * int(generator.uniform(5, 70) * wear)
    return Image.fromarray((values + grain > generator.uniform(90, 190)) * np.uint8(255)).reduce(2)
