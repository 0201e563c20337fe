"""Training pages for the embedded reader from PDF files: `python -m workers.training_pages PDF [PDF ...] --folder DIR`.

Each page is drawn in grey with the exact place of every character; pages whose truth or reading order is in doubt are left
out. A share of the documents goes to DIR_heldout, whole and in all their languages. Start with empty folders.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pymupdf

from fastocr_core.models.mini import alphabet
from fastocr_core.models.mini.train.page_store import (
    CHARACTER,
    DOTS_PER_INCH,
    StoredPage,
    erase,
    word_boxes,
    write_document,
)
from workers.page_characters import Character, inkless_share, page_characters, page_pixels
from workers.reading_lines import Line, ReadPage, read_lines

USUAL_X_HEIGHT = 0.45  # font sizes
_FLAT = frozenset("vwxzacemnorsu")
_EDITION = re.compile(
    r"([-_](en|eng|english|fr|french|de|ger|german|es|spanish|it|italian|pt|br|nl|dutch|doc|guide|manual|a4|letter))+$"
)
_MOST_INKLESS_SHARE = 0.01
_LEAST_MEASURED = 8  # letters of a font
_MEASURED_LETTERS = 24  # in one font on one page


@dataclass(frozen=True, slots=True)
class _Page:
    pixels: np.ndarray
    read: ReadPage


def x_heights(pixels: np.ndarray, lines: Iterable[Line]) -> list[tuple[str, float]]:
    """Measured heights of low letters as (font, share of the font size), to a part of a pixel by the grey of the edge."""
    found = []
    counts = Counter[str]()
    for line in lines:
        for word in line.words:
            for character in word:
                if character.text in _FLAT and counts[character.font] < _MEASURED_LETTERS:
                    counts[character.font] += 1
                    share = _measured(pixels, character)
                    if 0.3 < share < 0.65:
                        found.append((character.font, share))
    return found


def _measured(pixels: np.ndarray, character: Character) -> float:
    """Height of a letter above its baseline in font sizes."""
    base = round(character.baseline)
    rows = round(0.75 * character.size)
    inner = 0.15 * (character.x1 - character.x0)  # neighbours reach over
    left, right = round(character.x0 + inner), round(character.x1 - inner)
    patch = pixels[max(base - rows, 0) : base, left:right].astype(np.float32)
    if patch.size == 0:
        return 0.0
    ground = float(np.median(patch[: max(rows // 4, 1)]))
    ink = np.abs(patch - ground).max(1)
    full = ink.max()
    if full <= 0:
        return 0.0
    ink = ink[::-1] / full  # from the baseline up
    low = np.flatnonzero(ink[2:] < 0.5)
    top = 2 + int(low[0]) if len(low) else len(ink)
    edge = float(ink[top]) if top < len(ink) else 0.0
    return (top + edge + character.baseline - base) / character.size


def characters_of(lines: Sequence[Line], shares: dict[str, float]) -> np.ndarray:
    """CHARACTER records of lines in reading order; shares: x-height of each font in font sizes."""
    records = []
    word_index = 0
    for line_index, line in enumerate(lines):
        for word in line.words:
            for character in word:
                middle = character.baseline - shares.get(character.font, USUAL_X_HEIGHT) * character.size / 2
                records.append(
                    (
                        alphabet.CHARACTER_ID[character.text] - alphabet.FIRST_CHARACTER,
                        (character.x0 + character.x1) / 2, middle, character.x0, character.x1,
                        character.baseline, character.size, line_index, word_index,
                    )
                )  # fmt: skip
            word_index += 1
    return np.array(records, CHARACTER)


def _page(page: Any, heights: dict[str, list[float]]) -> _Page | str:
    """One page, or why it is refused; adds the measured x-heights of its fonts to `heights`."""
    characters = page_characters(page, DOTS_PER_INCH)
    read = characters if isinstance(characters, str) else read_lines(characters)
    if isinstance(read, str):
        return read
    pixels = page_pixels(page, DOTS_PER_INCH)
    words = [word for line in read.lines for word in line.words]
    share, bare = inkless_share(pixels, words)
    if share > _MOST_INKLESS_SHARE or not words:
        return "letters without ink"
    gone = [*read.gone, *(tuple(word) for word, without in zip(words, bare, strict=True) if without)]
    bare_words = {id(word) for word, without in zip(words, bare, strict=True) if without}
    for line in read.lines:
        line.words = [word for word in line.words if id(word) not in bare_words]
    lines = tuple(line for line in read.lines if line.words)
    for font, height in x_heights(pixels, lines):
        heights.setdefault(font, []).append(height)
    return _Page(pixels, ReadPage(lines, tuple(gone)))


def document_pages(path: Path, most: int, refused: Counter[str]) -> list[StoredPage]:
    """Pages of one PDF, at most `most` of them, spread over the document. Counts what was refused and why.

    After twice as many pages the document is left, so that one full of formulas does not take all the time.
    """
    pages: list[_Page] = []
    heights: dict[str, list[float]] = {}
    with pymupdf.open(path) as document:
        order = np.random.default_rng(0).permutation(len(document))
        for number in order[: 2 * most]:
            if len(pages) >= most:
                break
            page = _page(document[int(number)], heights)
            if isinstance(page, str):
                refused[page] += 1
            else:
                pages.append(page)
    shares = {
        font: float(np.median(found)) for font, found in heights.items() if len(found) >= _LEAST_MEASURED
    }
    return [_stored(page, characters_of(page.read.lines, shares)) for page in pages]


def _stored(page: _Page, characters: np.ndarray) -> StoredPage:
    """The page without the ink of words that cannot be read."""
    gone = [
        (word[0].x0, word[-1].x1, word[0].baseline, max(character.size for character in word))
        for word in page.read.gone
    ]
    erase(page.pixels, np.array(gone, np.float32).reshape(-1, 4), word_boxes(characters))
    return StoredPage(page.pixels, characters)


def work_of(name: str) -> str:
    """What is common to the names of one document's languages and paper sizes: the name without such endings."""
    return _EDITION.sub("", name.split(".")[0].lower())


def is_held_out(name: str, share: float) -> bool:
    """Whether a document of this name is kept for evaluation, in all its languages; the same on every machine."""
    return int(hashlib.sha256(work_of(name).encode()).hexdigest()[:8], 16) / 2**32 < share


def _free_path(folder: Path, name: str) -> Path:
    """A file that is not there yet: documents of different packages may have one name."""
    count = 1
    path = folder / f"{name}.npz"
    while path.exists():
        count += 1
        path = folder / f"{name}_{count}.npz"
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m workers.training_pages", description=__doc__)
    parser.add_argument("pdf", nargs="+", type=Path)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--held-out-share", type=float, default=0.1, help="share of documents (default: 0.1)")
    parser.add_argument(
        "--most-pages", type=int, default=40, help="pages taken from one document (default: 40)"
    )
    options = parser.parse_args(arguments)
    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)
    held_out = options.folder.with_name(options.folder.name + "_heldout")
    for folder in (options.folder, held_out):
        folder.mkdir(parents=True, exist_ok=True)
    total, refused = 0, Counter[str]()
    for path in options.pdf:
        try:
            pages = document_pages(path, options.most_pages, refused)
        except (RuntimeError, ValueError) as failure:
            print(f"{path.name}: left out, {failure}", flush=True)
            continue
        folder = held_out if is_held_out(path.stem, options.held_out_share) else options.folder
        if pages:
            write_document(_free_path(folder, path.stem), pages)
        total += len(pages)
        print(f"{path.name}: {len(pages)} pages to {folder.name}", flush=True)
    print(f"{total} pages; refused: {dict(refused.most_common())}")


if __name__ == "__main__":
    main()
