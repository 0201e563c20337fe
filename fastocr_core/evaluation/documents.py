"""Pages of real documents with exact truth, from a folder that `workers.training_pages` filled, for evaluations."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from fastocr_core.evaluation.pages import EvaluationPage
from fastocr_core.models.mini import alphabet
from fastocr_core.models.mini.heldout.pages import spread
from fastocr_core.models.mini.train.page_store import (
    DOTS_PER_INCH,
    StoredPage,
    in_columns,
    pages_in_columns,
    read_page,
    word_boxes,
)
from fastocr_core.scores.boxes import Box

DOCUMENTS = "documents"
READ_DPI = 150
_INK_CONTRAST = 60  # grey levels from the ground
_ABOVE, _BELOW = 0.95, 0.27  # where a word's ink can be, font sizes from the baseline
_LANGUAGES = ("en", "fr", "de", "es", "it", "pt", "nl")


def document_pages(folder: Path, count: int | None = None) -> list[EvaluationPage]:
    """All pages of a folder, or `count` of them, evenly spread over its documents.

    FileNotFoundError for a folder without pages, ValueError for a count below one.
    """
    places = [
        (path, index)
        for path in sorted(folder.glob("*.npz"))
        for index, _ in enumerate(pages_in_columns(path))
    ]
    if not places:
        raise FileNotFoundError(f"no stored pages in {folder}")
    return [evaluation_page(path, index) for path, index in spread(places, count)]


def evaluation_page(path: Path, index: int) -> EvaluationPage:
    """One stored page, at 150 dpi."""
    stored = read_page(path, index)
    scale = READ_DPI / DOTS_PER_INCH

    def load() -> Image.Image:
        image = Image.fromarray(read_page(path, index).pixels)
        size = (round(image.width * scale), round(image.height * scale))
        return image.resize(size, Image.Resampling.LANCZOS)

    words = list(_words(stored, scale))
    lines: dict[int, list[str]] = {}
    for line, text, _ in words:
        lines.setdefault(line, []).append(text)
    return EvaluationPage(
        name=f"{path.stem}, page {index + 1} kept",
        part=DOCUMENTS,
        text="\n".join(" ".join(line) for line in lines.values()),
        load=load,
        language=language_of(path.stem),
        degradation="none",
        layout="columns" if in_columns(stored.characters) else "one column",
        words=tuple((text, box) for _, text, box in words),
        dpi=READ_DPI,
    )


def language_of(name: str) -> str:
    """The language that a document's name ends in, "" where it does not say."""
    parts = name.lower().replace("-", ".").replace("_", ".").split(".")
    return next((part for part in reversed(parts) if part in _LANGUAGES), "")


def _words(stored: StoredPage, scale: float) -> Iterator[tuple[int, str, Box]]:
    """Line, text and the box of the ink of each word, scaled."""
    letters = stored.characters
    starts = np.flatnonzero(np.diff(letters["word"].astype(int), prepend=-1))
    ends = np.append(starts[1:], len(letters))
    for start, end, place in zip(starts, ends, word_boxes(letters), strict=True):
        text = "".join(alphabet.CHARACTERS[code] for code in letters["code"][start:end])
        x0, y0, x1, y1 = _ink_box(stored.pixels, *(float(value) for value in place))
        yield int(letters["line"][start]), text, (x0 * scale, y0 * scale, x1 * scale, y1 * scale)


def _ink_box(pixels: np.ndarray, x0: float, x1: float, baseline: float, size: float) -> Box:
    """Around what stands out from the ground where a word is, pixels."""
    top, left = max(int(baseline - _ABOVE * size), 0), max(int(x0), 0)
    patch = pixels[top : int(baseline + _BELOW * size) + 1, left : int(x1) + 1].astype(np.int16)
    rows, columns = np.nonzero(np.abs(patch - np.median(patch)) > _INK_CONTRAST)
    if not len(rows):
        return x0, baseline - size, x1, baseline
    return (
        float(left + columns.min()),
        float(top + rows.min()),
        float(left + columns.max() + 1),
        float(top + rows.max() + 1),
    )
