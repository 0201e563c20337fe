"""Real files with what is known of their text, as pages for an evaluation: a folder with an index.jsonl.

Each line of the index names a `file` and what to `expect` of it. Truth is a file beside it (NAME.gt.txt word for word,
`ground_truth` otherwise for its words only), a stored text layer, or phrases that must be found.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from fastocr_core.evaluation.pages import BLANK_LAYOUT, CASES, EvaluationPage
from fastocr_core.evaluation.scoring import modern
from fastocr_core.vision.prepared import ModelVision
from workers.outcomes import Reason
from workers.rasterize import DocumentFailure, PageFailure, Rasterizer
from workers.sniff import sniff
from workers.text_layer import page_texts

INDEX = "index.jsonl"
# Pages of born-digital documents, whose text layer is what was set; those of scans are another engine's reading.
BORN_DIGITAL = {"unstructured_irm_400_pages.pdf": range(3, 23)}
LANGUAGES = {"ocrd_kant_0020.jp2": "de"}


@dataclass(frozen=True, slots=True)
class KnownPage:
    """What is known of page `number` (from 1) of a file. `text` is None if unknown, "" for a blank page."""

    file: str
    number: int
    text: str | None
    exact: bool
    must_contain: tuple[str, ...]
    language: str


def known_pages(folder: Path) -> list[KnownPage]:
    """All pages of the index whose text, or some of it, is known. FileNotFoundError without an index, ValueError where a line
    of it does not say which file it is about.
    """
    rows = (folder / INDEX).read_text("utf-8").splitlines()
    return [
        page
        for number, row in enumerate(rows, 1)
        if row.strip()
        for page in _pages_of(folder, _entry(row, number))
    ]


def _entry(row: str, number: int) -> dict[str, Any]:
    try:
        entry = json.loads(row)
    except json.JSONDecodeError as failure:
        raise ValueError(f"line {number} of {INDEX} is no JSON: {failure}") from failure
    if not isinstance(entry, dict) or "file" not in entry or not isinstance(entry.get("expect", {}), dict):
        raise ValueError(
            f'line {number} of {INDEX} must be an object with a "file" and what to "expect" of it'
        )
    return entry


def _pages_of(folder: Path, entry: dict[str, Any]) -> Iterator[KnownPage]:
    name, expect = str(entry["file"]), entry.get("expect", {})
    language = str(expect.get("language", LANGUAGES.get(name, "en")))
    phrases = phrases_by_page(expect, int(entry.get("pages", 1)))
    blank = set(expect.get("blank_pages", ()))
    if "max_chars" in expect or expect.get("text") == "":
        blank.add(1)
    text, exact = truth_beside(folder, entry)
    layer = BORN_DIGITAL.get(name, range(0))
    stored = dict(zip(layer, page_texts(folder / name, layer), strict=True)) if layer else {}
    first = {1} if text else set()
    for number in sorted(phrases.keys() | blank | stored.keys() | first):
        known = "" if number in blank else stored.get(number, text if number == 1 else None)
        yield KnownPage(name, number, known, exact and number == 1, phrases.get(number, ()), language)


def phrases_by_page(expect: dict[str, Any], pages: int) -> dict[int, tuple[str, ...]]:
    """What must be found on which page (from 1)."""
    found: dict[int, list[str]] = {}
    for key in ("must_contain", "must_contain_loose"):
        if key in expect:
            found.setdefault(1, []).extend(expect[key])
    if "page_1_contains" in expect:
        found.setdefault(1, []).extend(expect["page_1_contains"])
    for number in range(1, pages + 1):
        found.setdefault(number, []).extend(expect.get("every_page_must_contain", ()))
    for number, phrases in expect.get("page_text", {}).items():
        if str(number).isdigit() and int(number) <= pages:  # a long number is the name of a member
            found.setdefault(int(number), []).extend(phrases)
    return {number: tuple(phrases) for number, phrases in found.items() if phrases}


def truth_beside(folder: Path, entry: dict[str, Any]) -> tuple[str | None, bool]:
    """The text of the first page of a file and whether it is exact; (None, False) where there is none."""
    exact = folder / f"{Path(entry['file']).stem}.gt.txt"
    if exact.is_file():
        return modern(exact.read_text("utf-8")), True
    named = str(entry.get("ground_truth", "")).split(" ")[0]
    if named.endswith(".txt") and (folder / named).is_file():
        return modern((folder / named).read_text("utf-8")), False
    return None, False


def case_pages(
    folder: Path, vision: ModelVision, count: int | None = None
) -> tuple[list[EvaluationPage], list[str]]:
    """The known pages of a folder as images at the model's resolution, `count` of them evenly spread (None for all), and a
    sentence for each that cannot be drawn.
    """
    known = known_pages(folder)
    if count is not None and count < len(known):
        known = [known[index * len(known) // count] for index in range(count)]
    pages: list[EvaluationPage] = []
    failures: list[str] = []
    with Rasterizer() as rasterizer:
        opened = ""
        for page in known:
            try:
                if page.file != opened:
                    _open(rasterizer, folder / page.file)
                    opened = page.file
                drawn = _drawn(rasterizer, page, vision)
            except (ValueError, OSError) as failure:
                failures.append(str(failure))
                continue
            pages.append(drawn)
    return pages, failures


def _open(rasterizer: Rasterizer, file: Path) -> None:
    data = file.read_bytes()
    document_format = sniff(data)
    if isinstance(document_format, Reason):
        raise ValueError(f"{file.name} cannot be read: {document_format.value}")
    try:
        rasterizer.open(data, document_format)
    except DocumentFailure as failure:
        raise ValueError(f"{file.name} cannot be opened: {failure}") from failure


def _drawn(rasterizer: Rasterizer, page: KnownPage, vision: ModelVision) -> EvaluationPage:
    raster = rasterizer.page(page.number - 1, vision.wanted_dpi)
    if isinstance(raster, PageFailure):
        raise ValueError(f"page {page.number} of {page.file} cannot be drawn: {raster.reason.value}")
    image = raster.image.convert("L")

    def load() -> Image.Image:
        return image

    return EvaluationPage(
        name=f"{page.file} p. {page.number}",
        part=CASES,
        text=page.text,
        load=load,
        language=page.language,
        layout=BLANK_LAYOUT if page.text == "" else "",
        must_contain=page.must_contain,
        exact=page.exact,
        dpi=raster.dpi_used if raster.dpi_known else None,
    )
