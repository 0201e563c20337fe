"""What one decode step looked at, and the whole reading of a page step by step: plain data."""

from dataclasses import dataclass

from fastocr_core.decoding.base import ImageGrid
from fastocr_core.output import PageText
from fastocr_core.vision.prepared import PreparedPage


@dataclass(frozen=True, slots=True)
class Gaze:
    """One decode step, in cells of the grid (row * columns + column).

    `strongest` are cells by falling attention, each with its share (0 to 1) of the image attention of the
    recorded layer; `seen` those that the last sparse layer could look at with any of its heads, None for all.
    `read` counts the image tokens behind `seen`, also those that are no cell.
    """

    strongest: tuple[tuple[int, float], ...]
    seen: tuple[int, ...] | None
    read: int


@dataclass(frozen=True, slots=True)
class FixationTrace:
    """A page and its reading. `gazes[i]` is the step that wrote `page_text.tokens[i]`; None for the first token, which comes
    from the prompt and so from all of the page. `written[i]` is how many characters of the text stood after that token.
    `layer` was recorded. Of a page read in parts no gaze is None: a part's prompt holds that part alone.
    """

    page: PreparedPage
    grid: ImageGrid
    layer: int
    page_text: PageText
    gazes: tuple[Gaze | None, ...]
    written: tuple[int, ...]
