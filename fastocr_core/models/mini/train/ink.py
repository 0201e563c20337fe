"""Ink and paper: turns a page layout into grey pixels, with the wear that scans of clean print show."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from fastocr_core.models.mini.train.marks import draw_rule
from fastocr_core.models.mini.train.placement import PageLayout


@dataclass(frozen=True, slots=True)
class InkStyle:
    """Share of pages that get each effect; `strength` scales them all (0 = black on white)."""

    strength: float = 1.0
    texture: float = 0.5
    blur: float = 0.5
    jpeg: float = 0.3
    bitonal: float = 0.15
    oversampled: float = 0.6  # drawn at twice the size and reduced, as a scan at a higher resolution would be


def draw(layout: PageLayout, generator: np.random.Generator, style: InkStyle) -> np.ndarray:
    """Render to uint8 [height, width]; 255 is white."""
    factor = 2 if generator.random() < style.oversampled else 1
    image = drawn(layout, factor, generator)
    if factor == 2:
        image = image.reduce(2)
    return age(np.asarray(image), generator, style)


def drawn(layout: PageLayout, factor: int, generator: np.random.Generator) -> Image.Image:
    """Black on white, turned by the layout's skew, at `factor` times the size."""
    image = Image.new("L", (layout.width * factor, layout.height * factor), 255)
    grounds = [rule for rule in layout.rules if rule.look in ("tint", "picture")]
    for rule in grounds:
        draw_rule(image, rule, factor, generator)
    canvas = ImageDraw.Draw(image)
    for line in (*layout.lines, layout.unread):
        for word in line:
            font = word.face.sized(word.pixels * factor)
            # letter by letter: the font engine rounds each advance to a pixel, so that in a word drawn at
            # once the last letters stand up to 5 px away from where the layout says they are
            for letter, x, _ in word.letters():
                canvas.text((x * factor, word.baseline * factor), letter, fill=0, font=font, anchor="ls")
    for rule in layout.rules:
        if rule.look not in ("tint", "picture"):
            draw_rule(image, rule, factor, generator)
    if layout.skew_degrees:
        image = image.rotate(-layout.skew_degrees, Image.Resampling.BICUBIC, fillcolor=255)
    return image


def age(pixels: np.ndarray, generator: np.random.Generator, style: InkStyle) -> np.ndarray:
    """Apply paper tone, ink tone, blur, noise, JPEG and thresholding to uint8 [height, width]."""
    if style.strength <= 0:
        return pixels
    image = Image.fromarray(pixels)
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
    result = np.clip(values, 0, 255).astype(np.uint8)
    if generator.random() < style.jpeg:
        buffer = io.BytesIO()
        Image.fromarray(result).save(buffer, "JPEG", quality=int(generator.integers(35, 90)))
        return np.asarray(Image.open(buffer), np.uint8)
    return np.asarray(result, np.uint8)


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
