"""Single letters in ink: drawn by the font engine, then squeezed and fattened where the type was cast so."""

from __future__ import annotations

import functools
import math

from PIL import Image, ImageDraw

from fastocr_core.models.mini.train.fonts import Face, font_at


def draw_letter(
    canvas: ImageDraw.ImageDraw, face: Face, pixels: float, letter: str, x: float, baseline: float
) -> None:
    """Black, left edge of its advance at x; x, baseline and the font size in pixels."""
    if face.squeeze == 1.0 and face.weight == 0.0:
        canvas.text((x, baseline), letter, fill=0, font=face.sized(pixels), anchor="ls")
        return
    stencil = _stencil(face.path, round(pixels * 4) / 4, letter, face.squeeze, face.weight)
    if stencil is not None:
        mask, left, top = stencil
        canvas.bitmap((round(x + left), round(baseline + top)), mask, fill=0)


@functools.lru_cache(maxsize=16384)
def _stencil(
    path: str, pixels: float, letter: str, squeeze: float, weight: float
) -> tuple[Image.Image, float, float] | None:
    """Ink of a letter, and where its corner stands from the origin on the baseline, pixels; None without ink.

    The ink grows by weight times pixels to all sides.
    """
    font = font_at(path, pixels)
    stroke = weight * pixels
    box = font.getbbox(letter, anchor="ls", stroke_width=stroke)
    left, top = math.floor(box[0]) - 1, math.floor(box[1]) - 1
    drawn = Image.new("L", (math.ceil(box[2]) + 1 - left, math.ceil(box[3]) + 1 - top), 0)
    ImageDraw.Draw(drawn).text(
        (-left, -top), letter, fill=255, font=font, anchor="ls", stroke_width=stroke, stroke_fill=255
    )
    if drawn.getbbox() is None:
        return None
    narrow = max(1, round(drawn.width * squeeze))
    mask = drawn.resize((narrow, drawn.height), Image.Resampling.BILINEAR)
    return mask, left * squeeze, float(top)
