"""Two pages whose text is known, read when an OCR actor starts: a reader that gets them wrong reads nothing.

Wrong weights, a broken kernel or an unfit library show here, before they cost a run. The pages are plain
print, drawn with the typeface that comes with Pillow; every model for print reads them.
"""

import re
from collections import Counter
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from fastocr_core.engine import Engine

KNOWN_TEXTS = (
    "The keeper of the north light\n"
    "wrote down the wind each hour\n"
    "and trimmed the lamp before dawn.\n"
    "No ship was lost that winter.",
    "Apples and pears, 14 baskets\n"
    "Barley from the lower field\n"
    "Honey in 26 small jars\n"
    "Sold at the market on Friday",
)
PAGE_SIZE = (1000, 620)
LINE_PIXELS, LETTER_PIXELS, MARGIN_PIXELS = 110, 44, 90
LEAST_SHARE = 0.7  # of the words of both pages
SHOWN_CHARACTERS = 80


class SelfTestError(RuntimeError):
    """The reader reads known pages wrongly; one sentence with what it read."""


def known_page(text: str) -> Image.Image:
    """The page with that text: dark grey print on a white sheet."""
    image = Image.new("L", PAGE_SIZE, 255)
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(text.splitlines()):
        place = (MARGIN_PIXELS, MARGIN_PIXELS + number * LINE_PIXELS)
        draw.text(place, line, fill=30, font_size=LETTER_PIXELS)
    return image


def check_reader(engine: "Engine") -> float:
    """Read the known pages in one batch; the share of their words that was found.

    Raises SelfTestError below `LEAST_SHARE`. The model's own prompt is used, since another may ask for anything.
    """
    readings = list(engine.read(map(known_page, KNOWN_TEXTS)))
    found = sum(
        (_words(reading.text) & _words(text)).total()
        for reading, text in zip(readings, KNOWN_TEXTS, strict=True)
    )
    share = found / sum(_words(text).total() for text in KNOWN_TEXTS)
    if share < LEAST_SHARE:
        wrong = next((reading.error for reading in readings if reading.error), None)
        seen = wrong or " ".join(readings[0].text.split())[:SHOWN_CHARACTERS]
        raise SelfTestError(
            f"The reader {engine.model.name} fails its self-test: it finds {share:.0%} of the words of two known "
            f"pages, the first reads {seen!r}. Check weights and libraries (fastocr doctor); "
            "cluster.self_test = false goes on regardless."
        )
    return share


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.casefold()))
