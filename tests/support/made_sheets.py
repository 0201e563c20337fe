"""Small sheets with one word, in any image mode and file format: what mutants are made from."""

import io

from PIL import Image, ImageDraw


def sheet(mode: str) -> Image.Image:
    """80 x 120 px, white, with one word."""
    image = Image.new("L", (80, 120), 255)
    ImageDraw.Draw(image).text((8, 8), "words", fill=0)
    return image.convert(mode)


def saved(mode: str, pillow_format: str, **options: object) -> bytes:
    """The sheet as a file; `options` are Pillow's."""
    sink = io.BytesIO()
    sheet(mode).save(sink, format=pillow_format, **options)  # type: ignore[arg-type]
    return sink.getvalue()
