"""Draws what is on a page beside letters: rules, dotted leaders, boxes, tints, pictures, bars white on black."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageChops, ImageDraw

from fastocr_core.models.mini.train.placement import Rule


def draw_rule(image: Image.Image, rule: Rule, factor: int, generator: np.random.Generator) -> None:
    """Put `rule` onto a grey image that is `factor` times the size of its page."""
    box = (
        max(0, round(rule.x0 * factor)), max(0, round(rule.y0 * factor)),
        min(image.width, round(rule.x1 * factor)), min(image.height, round(rule.y1 * factor)),
    )  # fmt: skip
    canvas = ImageDraw.Draw(image)
    thickness = max(1, round(rule.thickness * factor))
    if rule.look == "line":
        x1, y1 = (
            (box[2], box[1] + thickness - 1)
            if rule.y1 - rule.y0 < rule.x1 - rule.x0
            else (box[0] + thickness - 1, box[3])
        )
        canvas.rectangle((box[0], box[1], x1, y1), fill=0)
    elif rule.look in ("dots", "dashes"):
        _points(canvas, rule, factor)
    elif box[2] - box[0] < 2 or box[3] - box[1] < 2:
        return
    elif rule.look == "box":
        canvas.rectangle(box, outline=0, width=thickness)
    elif rule.look == "tint":
        canvas.rectangle(box, fill=rule.tone)
    elif rule.look == "picture":
        image.paste(_blotches(box[2] - box[0], box[3] - box[1], rule.tone, generator), box[:2])
    else:
        image.paste(ImageChops.invert(image.crop(box)), box[:2])


def _points(canvas: ImageDraw.ImageDraw, rule: Rule, factor: int) -> None:
    """Dots of `thickness` every `gap` pixels; dashes fill half of the gap."""
    half = rule.thickness * factor / 2
    reach = half if rule.look == "dots" else rule.gap * factor / 4
    x, y = rule.x0 * factor + reach, rule.y0 * factor
    while x + reach <= rule.x1 * factor:
        shape = (x - reach, y - half, x + reach, y + half)
        if rule.look == "dots" and half >= 1.0:
            canvas.ellipse(shape, fill=0)
        else:
            canvas.rectangle(tuple(map(round, shape)), fill=0)
        x += max(rule.gap * factor, 1.0)


def _blotches(width: int, height: int, tone: int, generator: np.random.Generator) -> Image.Image:
    """Grey clouds of two sizes, as a photograph has them; without lines."""
    values = np.full((height, width), float(tone), np.float32)
    for cell, depth in ((60, 60.0), (12, 25.0)):
        shape = (max(2, height // cell + 1), max(2, width // cell + 1))
        clouds = generator.standard_normal(shape).astype(np.float32)
        values += depth * np.asarray(
            Image.fromarray(clouds).resize((width, height), Image.Resampling.BICUBIC)
        )
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))
