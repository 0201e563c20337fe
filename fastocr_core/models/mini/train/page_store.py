"""Stored real pages: grey pixels and the exact place of every character, one .npz file for each document.

In a file, `pixels_N` holds page N as a PNG file (uint8 bytes) and `characters_N` its characters in reading order
(CHARACTER records, pixels of that picture). What is drawn but belongs to no text (leaders, pictures) has no record.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

DOTS_PER_INCH = 200  # more than the reader needs, so that pages can be made smaller and a little larger
CHARACTER = np.dtype(
    [
        ("code", "u1"),  # index into alphabet.CHARACTERS
        ("x", "f4"),  # centre of the advance box
        ("y", "f4"),  # middle of the x-height
        ("x0", "f4"),
        ("x1", "f4"),
        ("baseline", "f4"),
        ("size", "f4"),  # of the font
        ("line", "u2"),
        ("word", "u2"),  # counts through the page
    ]
)
_ABOVE, _BELOW = 0.95, 0.27  # reach of letters above and below the baseline, with accents, in font sizes
_CORE_ABOVE, _CORE_BELOW = 0.74, 0.24  # without accents: what of a kept word nothing may touch


@dataclass(frozen=True, slots=True)
class StoredPage:
    """pixels: uint8 [H, W], 255 is white; characters: CHARACTER records [N] in reading order."""

    pixels: np.ndarray
    characters: np.ndarray


def write_document(path: Path, pages: Sequence[StoredPage]) -> None:
    """Write the pages of one document to a new .npz file."""
    arrays: dict[str, Any] = {}
    for index, page in enumerate(pages):
        buffer = io.BytesIO()
        Image.fromarray(page.pixels).save(buffer, "PNG", optimize=False, compress_level=6)
        arrays[f"pixels_{index}"] = np.frombuffer(buffer.getvalue(), np.uint8)
        arrays[f"characters_{index}"] = page.characters
    unfinished = path.with_suffix(".part")  # a training may look into the folder meanwhile
    with unfinished.open("wb") as file:
        np.savez(file, **arrays)
    unfinished.replace(path)


def pages_in_columns(path: Path) -> list[bool]:
    """For each page of a document's file whether it is set in columns."""
    with np.load(path, allow_pickle=False) as arrays:
        count = sum(name.startswith("pixels_") for name in arrays.files)
        return [in_columns(arrays[f"characters_{index}"]) for index in range(count)]


def in_columns(characters: np.ndarray) -> bool:
    """Whether reading goes up again anywhere: lines are read in columns then, not only one below the other."""
    opens = np.flatnonzero(np.diff(characters["line"].astype(int), prepend=-1))
    baselines, sizes = characters["baseline"][opens], characters["size"][opens]
    return bool((np.diff(baselines) < -3 * sizes[1:]).any())


def read_page(path: Path, index: int) -> StoredPage:
    """One page of a document's file. KeyError where there is no such page."""
    with np.load(path, allow_pickle=False) as arrays:
        encoded, characters = arrays[f"pixels_{index}"], arrays[f"characters_{index}"]
    return StoredPage(np.asarray(Image.open(io.BytesIO(encoded.tobytes())), np.uint8), characters)


def word_boxes(characters: np.ndarray) -> np.ndarray:
    """x0, x1, baseline and size of each word in order, float32 [words, 4]."""
    if not len(characters):
        return np.zeros((0, 4), np.float32)
    starts = np.flatnonzero(np.diff(characters["word"].astype(int), prepend=-1))
    return np.stack(
        [
            np.minimum.reduceat(characters["x0"], starts),
            np.maximum.reduceat(characters["x1"], starts),
            np.maximum.reduceat(characters["baseline"], starts),
            np.maximum.reduceat(characters["size"], starts),
        ],
        axis=1,
    )


def erase(pixels: np.ndarray, gone: np.ndarray, kept: np.ndarray) -> None:
    """Paint words over in the tone around them, in place, without touching kept words.

    pixels: uint8 [H, W]; gone, kept: rows of x0, x1, baseline and size (as from `word_boxes`) in pixels.
    """
    safe = np.zeros(pixels.shape, bool)
    height, width = pixels.shape

    def area(box: np.ndarray, above: float, below: float, beside: float) -> tuple[slice, slice]:
        x0, x1, baseline, size = (float(value) for value in box)
        top, bottom = int(baseline - above * size), int(np.ceil(baseline + below * size))
        left, right = int(x0 - beside * size), int(np.ceil(x1 + beside * size))
        return slice(max(top, 0), max(min(bottom, height), 0)), slice(max(left, 0), max(min(right, width), 0))

    for box in kept:
        safe[area(box, _CORE_ABOVE, _CORE_BELOW, 0.0)] = True
    for box in gone:
        place = area(box, _ABOVE, _BELOW, 0.08)
        patch = pixels[place]
        if patch.size:
            tone = np.median(np.concatenate([patch[0], patch[-1], patch[:, 0], patch[:, -1]]))
            patch[~safe[place]] = tone
