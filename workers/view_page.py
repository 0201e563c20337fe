"""One page of a document, read while its fixation is recorded: as a self-contained HTML page, a still or an animation. No
Ray, no object store.
"""

from collections.abc import Sequence
from pathlib import Path

from fastocr_core import DecodePolicy, load
from fastocr_core.view.gaze import FixationTrace
from fastocr_core.view.page import fixation_page
from fastocr_core.view.picture import PictureSize, animation, still
from fastocr_core.view.trace import record
from fastocr_core.vision import PreparedPage
from fastocr_core.vision.prepared import ModelVision
from workers.outcomes import Reason
from workers.prepare import prepare_page
from workers.rasterize import DocumentFailure, PageFailure, Rasterizer
from workers.sniff import sniff

KINDS = (".html", ".png", ".gif")
MOST_FRAMES = 120


def view_page(
    document: Path,
    page_index: int,
    model_name: str,
    policies: Sequence[DecodePolicy],
    prompt: str | None = None,
    kind: str = ".html",
    steps: tuple[int, int] | None = None,
    part: tuple[float, float] = (0.0, 1.0),
) -> bytes:
    """Read page `page_index` (from 0) of a file once per policy; the readings side by side in one file.

    `kind` is .html, .png (the last of `steps`) or .gif (`steps`, from 1, both included; at most `MOST_FRAMES` of them, evenly
    spread, the first and the last always). Pictures show the `part` of the page between two shares of its height; one on which
    nothing was read is drawn as it is. ValueError, in one sentence, for a file that cannot be drawn, a page or step it does
    not have, or a model that cannot be loaded; OSError where there is no file.
    """
    if kind not in KINDS:
        raise ValueError(f"a file ending in {kind or 'nothing'} cannot be written; known: {', '.join(KINDS)}")
    data = document.read_bytes()
    model = load(model_name)
    page = _prepared(data, document.name, page_index, model.vision)
    traces = [record(model, page, policy, prompt) for policy in policies]
    if kind == ".html":
        return fixation_page(f"{document.name}, page {page_index + 1}", traces).encode()
    chosen = _steps(traces, steps)
    if kind == ".png":
        return still(traces, chosen[-1], PictureSize(1200, 330, *part))
    return animation(traces, frames(chosen), PictureSize(900, 330, *part))


def _steps(traces: Sequence[FixationTrace], steps: tuple[int, int] | None) -> range:
    """The steps to draw, from 0; by default all of them, -1 for the page alone where there are none. ValueError for steps that
    nobody took."""
    most = max(len(trace.gazes) for trace in traces)
    if steps is None:
        return range(most) or range(-1, 0)
    first, last = steps
    if not 1 <= first <= last <= most:
        raise ValueError(f"the page was read in {most} steps, so {first}-{last} cannot be drawn")
    return range(first - 1, last)


def frames(steps: range) -> list[int]:
    """At most `MOST_FRAMES` of the steps, evenly spread from the first to the last."""
    gaps = min(MOST_FRAMES, len(steps)) - 1
    return [steps[round(index * (len(steps) - 1) / max(gaps, 1))] for index in range(gaps + 1)]


def _prepared(data: bytes, name: str, page_index: int, vision: ModelVision) -> PreparedPage:
    document_format = sniff(data)
    if isinstance(document_format, Reason):
        raise ValueError(f"{name} cannot be read: {document_format.value}")
    with Rasterizer() as rasterizer:
        try:
            opened = rasterizer.open(data, document_format)
        except DocumentFailure as failure:
            raise ValueError(f"{name} cannot be opened: {failure}") from failure
        if not 0 <= page_index < opened.page_count:
            raise ValueError(f"{name} has {opened.page_count} pages, there is no page {page_index + 1}")
        raster = rasterizer.page(page_index, vision.wanted_dpi)
    if isinstance(raster, PageFailure):
        raise ValueError(
            f"page {page_index + 1} of {name} cannot be drawn: {raster.reason.value}, {raster.detail}"
        )
    return prepare_page(raster, vision).prepared
