"""`python -m fastocr_core.models.mini.heldout.build [SET...]`: draw held-out pages and write their truth.

Needs the Debian fonts named in train/fonts.py; the same fonts give the same pages. Run it only to change
the set: the pages in the repository are what the reader is judged on.
"""

from __future__ import annotations

import json
import math
import pathlib
import sys
from collections.abc import Sequence

import numpy as np
from PIL import Image

from fastocr_core.models.mini.heldout.pages import (
    CLEAN,
    FOLDER,
    PAGES,
    HeldOutPage,
    HeldOutWord,
    pages_folder,
    truth_file,
)
from fastocr_core.models.mini.heldout.sets import SEEDS, cuts_of, drawn_page, ink_box, plans
from fastocr_core.models.mini.train.fonts import HELD_OUT, Face, find_faces
from fastocr_core.models.mini.train.ink import InkStyle, blank_leaf, draw
from fastocr_core.models.mini.train.layout import LayoutStyle, PageLayout, PlacedWord, compose

SEED = 20_241
PAGE_COUNT, LEAF_COUNT = 40, 12
LEAST_LINES = 20
LEAST_PARAGRAPH = 7  # words; shorter requests are headings
GREY_LEVELS = 16
STYLE = LayoutStyle(
    x_height_pixels=(8.5, 11.5), pitch=(1.25, 1.8), margin_pixels=(28, 72), heading_share=0.08
)
INK = InkStyle(strength=0.5, texture=0.25, blur=0.4, jpeg=0.0, bitonal=0.0)
LANGUAGES = (  # English twice as often as the others
    "en",
    "fr",
    "de",
    "es",
    "en",
    "it",
    "pt",
    "nl",
)
REGULAR = (
    "GenBasR.ttf", "Caladea-Regular.ttf", "Carlito-Regular.ttf", "Vollkorn-Regular.ttf",
    "OpenSans-Regular.ttf", "OldStandard-Regular.ttf", "Cabin-Regular.otf", "Go-Regular.ttf", "GenBkBasR.ttf",
)  # fmt: skip
OTHER_CUTS = (
    "GenBasI.ttf", "Caladea-Italic.ttf", "Carlito-Bold.ttf", "Vollkorn-Italic.ttf", "OpenSans-Semibold.ttf",
    "OldStandard-Italic.ttf", "Cabin-Medium.otf", "Go-Mono.ttf", "Vollkorn-Medium.ttf",
)  # fmt: skip


class RunningText:
    """Hands out the words of one text in order and starts again at its end, so that passages repeat late."""

    def __init__(self, path: pathlib.Path) -> None:
        self._words = path.read_text("utf-8").split()
        self.position = 0

    def words(self, generator: np.random.Generator, count: int) -> list[str]:
        """The next `count` words, paragraphs up to the end of their sentence.

        `generator` is not used; it belongs to the signature of train.layout.WordSource.
        """
        chosen: list[str] = []
        while len(chosen) < count or (count >= LEAST_PARAGRAPH and not chosen[-1].endswith((".", "!", "?"))):
            chosen.append(self._words[(self.position + len(chosen)) % len(self._words)])
        self.skip(len(chosen))
        return chosen

    def skip(self, count: int) -> None:
        self.position = (self.position + count) % len(self._words)


def _font_name(index: int) -> str:
    """Three pages in four use a regular cut."""
    if index % 4 == 3:
        return OTHER_CUTS[index // 4 % len(OTHER_CUTS)]
    return REGULAR[(index - index // 4) % len(REGULAR)]


def _language(index: int) -> str:
    """The cycle shifts with every twelve pages, the period of the fonts: each meets several languages."""
    return LANGUAGES[(index + index // 12) % len(LANGUAGES)]


def _full_page(generator: np.random.Generator, face: Face, text: RunningText) -> PageLayout:
    """Draw sizes until the page holds LEAST_LINES lines; the text goes on where the last page ended."""
    start = text.position
    while True:
        text.position = start
        width, height = int(generator.integers(640, 761)), int(generator.integers(900, 1061))
        layout = compose(generator, width, height, [face], np.ones(1), text, STYLE)
        if len(layout.lines) >= LEAST_LINES:
            used = sum(len(line) for line in layout.lines)
            text.position = start
            text.skip(used)
            return layout


def _ink_box(word: PlacedWord) -> tuple[float, float, float, float]:
    """Ink of the word as `ink.draw` puts it down, measured on four times the size."""
    font = word.face.sized(word.pixels * 4)
    tops, bottoms, lefts, rights = [], [], [], []
    x = word.x
    for letter in word.text:
        left, top, right, bottom = (side / 4 for side in font.getbbox(letter, anchor="ls"))
        lefts.append(x + left)
        rights.append(x + right)
        tops.append(word.baseline + top)
        bottoms.append(word.baseline + bottom)
        x += word.face.advances[letter] * word.pixels
    box = (min(lefts), min(tops), max(rights), max(bottoms))
    return (round(box[0], 1), round(box[1], 1), round(box[2], 1), round(box[3], 1))


def _usual_x_height(layout: PageLayout) -> float:
    sizes = [word.pixels * word.face.x_height for line in layout.lines for word in line]
    return round(float(np.median(sizes)), 2)


def _save(pixels: np.ndarray, path: pathlib.Path) -> None:
    """Write a grey PNG of GREY_LEVELS tones, which keeps the set small."""
    step = 255 / (GREY_LEVELS - 1)
    tones = np.round(np.round(pixels / step) * step).astype(np.uint8)
    Image.fromarray(tones).save(path, optimize=True)


def _write_truth(pages: list[HeldOutPage], file: pathlib.Path) -> None:
    rows = []
    for page in pages:
        row = {
            "file": page.file, "language": page.language, "font": page.font,
            "x_height_pixels": page.x_height_pixels, "text": page.text,
        }  # fmt: skip
        if page.part != CLEAN:
            row |= {"layout": page.layout}
        if page.degradation:
            row |= {"degradation": page.degradation, "wear": page.wear}
        row |= {"lines": [[[word.text, *word.box] for word in line] for line in page.lines]}
        rows.append(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
    file.write_text("".join(rows), "utf-8")


def _held_out_faces() -> dict[str, Face]:
    """By file name. LookupError when a font of the sets is not installed."""
    faces = {pathlib.Path(face.path).name: face for face in find_faces(HELD_OUT)}
    missing = sorted({*REGULAR, *OTHER_CUTS} - faces.keys())
    if missing:
        raise LookupError(f"held-out fonts not installed: {', '.join(missing)}")
    return faces


def _texts() -> dict[str, RunningText]:
    return {language: RunningText(FOLDER / "texts" / f"{language}.txt") for language in set(LANGUAGES)}


def build_set(part: str) -> None:
    """Write the images and the truth of one of the sets that `sets.plans` describes. LookupError as `build`."""
    faces, texts = _held_out_faces(), _texts()
    folder = pages_folder(part)
    folder.mkdir(parents=True, exist_ok=True)
    pages: list[HeldOutPage] = []
    for index, plan in enumerate(plans(part)):
        language, font = _language(index), _font_name(index)
        text = texts[language]
        family = cuts_of(faces[font], list(faces.values()))
        begun = text.position

        def start(text: RunningText = text, begun: int = begun) -> None:
            text.position = begun

        layout, pixels = drawn_page(plan, (SEEDS[part], index), family, text, start)
        lines = tuple(
            tuple(HeldOutWord(word.text, ink_box(layout, word)) for word in line) for line in layout.lines
        )
        file = f"{plan.degradation or plan.kind}-{index:02d}-{language}.png"
        _save(pixels, folder / file)
        pages.append(
            HeldOutPage(
                file,
                layout.text,
                font,
                language,
                _usual_x_height(layout),
                lines,
                part,
                plan.degradation,
                plan.wear,
                plan.kind,
            )
        )
    _write_truth(pages, truth_file(part))
    _say(pages, folder)


def _say(pages: list[HeldOutPage], folder: pathlib.Path) -> None:
    size = sum(path.stat().st_size for path in folder.glob("*.png"))
    characters = sum(len(page.text) for page in pages)
    print(f"{len(pages)} pages, {math.ceil(size / 1024)} KiB, {characters} characters")


def build() -> None:
    """Write the clean set: FOLDER/pages and FOLDER/truth.jsonl. LookupError when a font of the set is not installed."""
    faces, texts = _held_out_faces(), _texts()
    PAGES.mkdir(exist_ok=True)
    pages: list[HeldOutPage] = []
    for index in range(PAGE_COUNT):
        generator = np.random.default_rng((SEED, index))
        language, font = _language(index), _font_name(index)
        layout = _full_page(generator, faces[font], texts[language])
        lines = tuple(tuple(HeldOutWord(word.text, _ink_box(word)) for word in line) for line in layout.lines)
        file = f"page-{index:02d}-{language}.png"
        _save(draw(layout, generator, INK), PAGES / file)
        pages.append(HeldOutPage(file, layout.text, font, language, _usual_x_height(layout), lines))
    for index in range(LEAF_COUNT):
        generator = np.random.default_rng((SEED, PAGE_COUNT + index))
        height, width = int(generator.integers(900, 1061)), int(generator.integers(640, 761))
        file = f"leaf-{index:02d}.png"
        _save(blank_leaf(generator, height, width), PAGES / file)
        pages.append(HeldOutPage(file, "", "", "", 0.0, ()))
    _write_truth(pages, truth_file(CLEAN))
    _say(pages, PAGES)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the sets named, the clean one if none is."""
    for part in (sys.argv[1:] if arguments is None else arguments) or (CLEAN,):
        if part == CLEAN:
            build()
        else:
            build_set(part)


if __name__ == "__main__":
    main()
