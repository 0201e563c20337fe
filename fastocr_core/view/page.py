"""One self-contained HTML page from recorded traces: the page image, the fixation step by step, and the growing text.

No network, no outside files; everything read from the page is data, never markup.
"""

import base64
import io
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from PIL import Image

from fastocr_core.output import PageText
from fastocr_core.view.gaze import FixationTrace, Gaze
from fastocr_core.view.placed_words import placed_words
from fastocr_core.vision.prepared import PreparedPage


def fixation_page(title: str, traces: Sequence[FixationTrace]) -> str:
    """HTML of one page read once or several times (side by side). ValueError for no trace, or traces of different pages."""
    if not traces:
        raise ValueError("no trace to draw")
    first = traces[0].page
    grid = traces[0].grid
    if any(trace.grid != grid for trace in traces):
        raise ValueError("the traces are of different pages")
    names = [reading_name(trace.page_text) for trace in traces]
    picture = page_picture(first)
    data = {
        "title": title,
        "image": _address(picture),
        "rows": grid.rows,
        "columns": grid.columns,
        "width": picture.width,
        "height": picture.height,
        "boxes": {name: _boxes(trace) for name, trace in zip(names, traces, strict=True)},
        "readings": [_reading(name, trace) for name, trace in zip(names, traces, strict=True)],
    }
    # inside a script element only "</" and "<!--" can end or change it
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    template = files("fastocr_core.view").joinpath("fixation.html").read_text("utf-8")
    return template.replace("__DATA__", text)


def page_picture(page: PreparedPage) -> Image.Image:
    """The page as the reader sees it: what the cells of the grid cover: the one view, or the tiles put together."""
    views = [Image.fromarray(view[:, :, 0] if view.shape[2] == 1 else view) for view in page.views]
    if page.tile_columns * page.tile_rows == 1:
        return views[-1]
    width, height = views[0].size
    sheet = Image.new(views[0].mode, (width * page.tile_columns, height * page.tile_rows))
    for index, view in enumerate(views[: page.tile_columns * page.tile_rows]):
        sheet.paste(view, (index % page.tile_columns * width, index // page.tile_columns * height))
    return sheet


def _address(image: Image.Image) -> str:
    """The picture as a data address."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def reading_name(page_text: PageText) -> str:
    """Policy and kept share, as a heading."""
    if page_text.policy == "dense":
        return "dense"
    return f"{page_text.policy} {100 * page_text.kept_share:.3g}%"


def _reading(name: str, trace: FixationTrace) -> dict[str, Any]:
    result = trace.page_text
    facts = (
        f"{result.image_tokens} image tokens, {result.output_tokens} output tokens, "
        f"image KV read {result.image_kv_read_share:.1%}, layer {trace.layer}, ended by {result.finish_reason}"
    )
    return {
        "name": name,
        "facts": facts,
        "text": result.text,
        "written": list(trace.written),
        "tokens": result.image_tokens,
        "steps": [_step(gaze or Gaze((), None, result.image_tokens)) for gaze in trace.gazes],
    }


def _step(gaze: Gaze) -> dict[str, Any]:
    return {
        "strongest": [list(pair) for pair in gaze.strongest],
        "seen": None if gaze.seen is None else list(gaze.seen),
        "read": gaze.read,
    }


def _boxes(trace: FixationTrace) -> list[list[float]]:
    """Boxes of the words in pixels of the view, each with how many characters of the text stand once it is written."""
    return [[*word.box, word.end] for word in placed_words(trace)]
