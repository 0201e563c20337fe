"""One page of a document, read while its fixation is recorded, as a self-contained HTML page. No Ray, no object
store.
"""

from collections.abc import Sequence
from pathlib import Path

from fastocr_core import DecodePolicy, load
from fastocr_core.view.page import fixation_page
from fastocr_core.view.trace import record
from fastocr_core.vision import PreparedPage
from fastocr_core.vision.prepared import ModelVision
from workers.outcomes import Reason
from workers.prepare import prepare_page
from workers.rasterize import DocumentFailure, PageFailure, Rasterizer
from workers.sniff import sniff


def view_page(
    document: Path,
    page_index: int,
    model_name: str,
    policies: Sequence[DecodePolicy],
    prompt: str | None = None,
) -> str:
    """Read page `page_index` (from 0) of a file once per policy; HTML with the readings side by side.

    ValueError, in one sentence, for a file that cannot be drawn, a page it does not have, or a model that cannot
    be loaded; OSError where there is no file.
    """
    data = document.read_bytes()
    model = load(model_name)
    page = _prepared(data, document.name, page_index, model.vision)
    traces = [record(model, page, policy, prompt) for policy in policies]
    return fixation_page(f"{document.name}, page {page_index + 1}", traces)


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
