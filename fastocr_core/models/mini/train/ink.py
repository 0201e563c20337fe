"""Ink and paper: turns a page layout into grey pixels, with the wear that scans show, from clean print to bad copies."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from fastocr_core.models.mini.train import wear
from fastocr_core.models.mini.train.glyphs import draw_letter
from fastocr_core.models.mini.train.marks import draw_rule
from fastocr_core.models.mini.train.placement import PageLayout
from fastocr_core.vision.mini_view import full_contrast


@dataclass(frozen=True, slots=True)
class InkStyle:
    """Share of pages that get each effect; `strength` scales the first group (0 = black on white), `wear` the second.

    The defaults are clean print; `degraded` gives pages that are hard to read.
    """

    strength: float = 1.0
    texture: float = 0.5
    blur: float = 0.5
    jpeg: float = 0.3
    bitonal: float = 0.15
    oversampled: float = 0.6  # drawn at twice the size and reduced, as a scan at a higher resolution would be
    wear: float = 1.0
    heavy: float = 0.0
    light: float = 0.0
    show_through: float = 0.0
    stains: float = 0.0
    lighting: float = 0.0
    speckle: float = 0.0
    scan_edges: float = 0.0  # and dark corners of turned pages
    coarse: float = 0.0
    fax: float = 0.0
    bitonal_scan: float = 0.0
    hard_jpeg: float = 0.0
    letterpress: float = 0.0
    stretched: bool = False  # to full contrast at the end, as the prepared view is


CLEAN = InkStyle()


def degraded(wear: float) -> InkStyle:
    """Two or three kinds of wear on most pages; `wear` from 0 (harmless) to 1 (as bad as can still be read)."""
    return InkStyle(
        strength=0.6 + 0.6 * wear, jpeg=0.2, bitonal=0.06, wear=wear, heavy=0.15, light=0.2, show_through=0.15, stains=0.15,
        lighting=0.2, speckle=0.25, scan_edges=0.2, coarse=0.25, fax=0.08, bitonal_scan=0.15, hard_jpeg=0.15, stretched=True,
        letterpress=0.4,
    )  # fmt: skip


def _falls(generator: np.random.Generator, share: float) -> bool:
    """Whether an effect happens; an effect without a share draws nothing, so that old seeds give the old pages."""
    return share > 0 and bool(generator.random() < share)


def draw(layout: PageLayout, generator: np.random.Generator, style: InkStyle) -> np.ndarray:
    """Render to uint8 [height, width]; 255 is white."""
    factor = 2 if generator.random() < style.oversampled else 1
    edges, scanned = _falls(generator, style.scan_edges), _falls(generator, style.bitonal_scan)
    factor = 2 if scanned else factor
    image = drawn(layout, factor, generator, corners=int(generator.uniform(0, 120)) if edges else 255)
    if scanned:
        image = wear.bitonal_scan(image, generator, style.wear)
    elif factor == 2:
        image = image.reduce(2)
    if edges:
        image = wear.scan_edges(image, layout, generator, style.wear)
    return age(np.asarray(image), generator, style, bitonal=scanned)


def drawn(layout: PageLayout, factor: int, generator: np.random.Generator, corners: int = 255) -> Image.Image:
    """Black on white, turned by the layout's skew, at `factor` times the size; corners: tone beside a turned page."""
    image = Image.new("L", (layout.width * factor, layout.height * factor), 255)
    grounds = [rule for rule in layout.rules if rule.look in ("tint", "picture")]
    for rule in grounds:
        draw_rule(image, rule, factor, generator)
    canvas = ImageDraw.Draw(image)
    for line in (*layout.lines, layout.unread):
        for word in line:
            # letter by letter: the font engine rounds each advance to a pixel, so that in a word drawn at
            # once the last letters stand up to 5 px away from where the layout says they are
            for letter, x, _ in word.letters():
                draw_letter(
                    canvas, word.face, word.pixels * factor, letter, x * factor, word.baseline * factor
                )
    for rule in layout.rules:
        if rule.look not in ("tint", "picture"):
            draw_rule(image, rule, factor, generator)
    if layout.skew_degrees:
        # reducing a larger page smooths it anyway
        smooth = Image.Resampling.BICUBIC if factor == 1 else Image.Resampling.BILINEAR
        image = image.rotate(-layout.skew_degrees, smooth, fillcolor=corners)
    return image


def age(
    pixels: np.ndarray, generator: np.random.Generator, style: InkStyle, bitonal: bool = False
) -> np.ndarray:
    """Wear, paper tone, ink tone, blur, noise, JPEG and thresholding on uint8 [height, width].

    bitonal: the page is a black and white scan already; it gets no more shades than such scans have.
    """
    if style.strength <= 0:
        return pixels
    image = Image.fromarray(pixels)
    if not bitonal:
        image = _printed(image, generator, style)
        if _falls(generator, style.fax):
            return np.asarray(wear.fax(image, generator, style.wear), np.uint8)
    if generator.random() < style.blur:
        image = image.filter(ImageFilter.GaussianBlur(generator.uniform(0.2, 0.9) * style.strength))
    height, width = pixels.shape
    ink = generator.uniform(0, 70) * style.strength
    paper = 255 - generator.uniform(0, 50) * style.strength
    values = ink + (paper - ink) * (np.asarray(image, np.float32) / 255.0)
    if generator.random() < style.texture:
        values += paper_texture(generator, height, width) * generator.uniform(1, 8) * style.strength
    if generator.random() < style.bitonal:
        threshold = ink + (paper - ink) * generator.uniform(0.45, 0.7)
        return np.asarray(np.where(values > threshold, 255, 0), np.uint8)
    if not bitonal:
        values = _on_paper(values, generator, style)
    result = np.clip(values, 0, 255).astype(np.uint8)
    if generator.random() < style.jpeg:
        result = _saved(result, int(generator.integers(35, 90)))
    if _falls(generator, style.hard_jpeg):
        result = _saved(result, round(40 - generator.uniform(5, 28) * style.wear))
    if style.stretched:
        return np.array(full_contrast(Image.fromarray(result), has_letters=True))
    return np.asarray(result, np.uint8)


def _printed(image: Image.Image, generator: np.random.Generator, style: InkStyle) -> Image.Image:
    """Wear of the print and of the scan's sharpness."""
    back = image
    if _falls(generator, style.letterpress):
        image = wear.letterpress(image, generator, style.wear)
    elif _falls(generator, style.heavy):
        image = wear.heavy(image, generator, style.wear)
    elif _falls(generator, style.light):
        image = wear.light(image, generator, style.wear)
    if _falls(generator, style.show_through):
        image = wear.show_through(image, back, generator, style.wear)
    if _falls(generator, style.coarse):
        image = wear.coarse(image, generator, style.wear)
    return image


def _on_paper(values: np.ndarray, generator: np.random.Generator, style: InkStyle) -> np.ndarray:
    if _falls(generator, style.stains):
        values = wear.stains(values, generator, style.wear)
    if _falls(generator, style.lighting):
        values = wear.lighting(values, generator, style.wear)
    if _falls(generator, style.speckle):
        values = wear.speckle(values, generator, style.wear)
    return values


def _saved(pixels: np.ndarray, quality: int) -> np.ndarray:
    """Through a JPEG file and back."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=quality)
    return np.asarray(Image.open(buffer), np.uint8)


def paper_texture(generator: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Unit-variance fine grain plus slow shading, float32 [height, width]."""
    grain = generator.standard_normal((height // 2 + 1, width // 2 + 1), dtype=np.float32)
    grain = np.repeat(np.repeat(grain, 2, 0), 2, 1)[:height, :width]
    slow = generator.standard_normal((height // 160 + 2, width // 160 + 2)).astype(np.float32)
    shading = np.asarray(Image.fromarray(slow).resize((width, height), Image.Resampling.BICUBIC))
    texture: np.ndarray = grain * 0.7 + shading
    return texture


def blank_leaf(generator: np.random.Generator, height: int, width: int) -> np.ndarray:
    """An empty leaf: paper tone, grain, specks and now and then a darker edge; uint8 [height, width]."""
    values = np.full((height, width), 255 - generator.uniform(0, 60), np.float32)
    values += paper_texture(generator, height, width) * generator.uniform(0, 9)
    for _ in range(int(generator.integers(0, 25))):
        y, x = int(generator.integers(0, height - 3)), int(generator.integers(0, width - 3))
        side = int(generator.integers(1, 4))
        values[y : y + side, x : x + side] -= generator.uniform(20, 160)
    if generator.random() < 0.3:
        edge = int(generator.integers(2, 24))
        values[:, :edge] -= generator.uniform(30, 150)
    return np.clip(values, 0, 255).astype(np.uint8)


def worn_leaf(layout: PageLayout, generator: np.random.Generator, style: InkStyle) -> np.ndarray:
    """An empty leaf through which the print of `layout` shows from the back, mirrored; uint8 [height, width]."""
    empty = PageLayout(layout.width, layout.height, ())
    image = drawn(empty, 1, generator)
    image = wear.show_through(image, drawn(layout, 1, generator), generator, style.wear)
    if _falls(generator, style.scan_edges):
        image = wear.scan_edges(image, empty, generator, style.wear)
    return age(np.asarray(image), generator, style)
