"""Reads a page again, turned, where the model says that it is not upright (`ModelAdapter.turn_wanted`)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PIL import Image

from fastocr_core.vision import prepare
from fastocr_core.vision.prepared import ModelVision, PreparedPage

if TYPE_CHECKING:
    from fastocr_core.engine import Engine
    from fastocr_core.output import PageText

_TURNS = {
    90: Image.Transpose.ROTATE_90,
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_270,
}


@dataclass(frozen=True, slots=True)
class TurnedReading:
    """`page` is the reading of the image turned by `degrees` (0, 90, 180, 270) counter-clockwise; boxes in it
    are in pixels of the turned image. `readings` counts how often the page was read.
    """

    page: "PageText"
    degrees: int
    readings: int


def turned(image: Image.Image, degrees: int) -> Image.Image:
    """The image turned counter-clockwise by a multiple of 90 degrees, losing nothing. ValueError for others."""
    if degrees % 90:
        raise ValueError(f"an image is turned by a multiple of 90 degrees, not by {degrees}")
    turn = _TURNS.get(degrees % 360)
    return image if turn is None else image.transpose(turn)


def turned_page(page: PreparedPage, degrees: int, vision: ModelVision) -> PreparedPage:
    """The same for a page that was prepared already: for callers who no longer have its image.

    The turned view is the image of the new page, so its size and places are those of the view. ValueError for
    a page of several views, which does not hold the image in one piece.
    """
    if degrees % 360 == 0:
        return page
    if len(page.views) != 1:
        raise ValueError("only a page with one grey or one colour view can be turned after it was prepared")
    view = page.views[0] if page.views[0].shape[2] == 3 else page.views[0][:, :, 0]
    return prepare(turned(Image.fromarray(view), degrees), vision)


def read_upright(engine: "Engine", image: Image.Image, prompt: str | None = None) -> TurnedReading:
    """Read a page, and read it turned as long as the model asks for it; every direction at most once.

    Where no direction satisfies the model, the first reading stands. A reading that broke off asks for
    nothing.
    """
    first: PageText | None = None
    tried: list[int] = []
    degrees = 0
    while degrees not in tried:
        tried.append(degrees)
        page = engine.submit(turned(image, degrees), prompt).result()
        first = first or page
        wanted = engine.model.turn_wanted(page.tokens) if page.finish_reason == "stop" else 0
        if wanted == 0:
            return TurnedReading(page, degrees, len(tried))
        degrees = (degrees + wanted) % 360
    assert first is not None
    return TurnedReading(first, 0, len(tried))
