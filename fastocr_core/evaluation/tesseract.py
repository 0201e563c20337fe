"""Tesseract as a reader to compare with: the program of that name (Debian package tesseract-ocr), called page by page."""

import csv
import io
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence

from fastocr_core.evaluation.pages import EvaluationPage
from fastocr_core.evaluation.readers import ReaderMissingError, Reading
from fastocr_core.scores.boxes import Box

LANGUAGE_PACKS = {
    "en": "eng", "fr": "fra", "de": "deu", "es": "spa", "it": "ita", "pt": "por", "nl": "nld",
}  # fmt: skip
DEFAULT_PACK = "eng"
STATED_DPI = 150  # of held-out pages, which carry none
SECONDS_PER_PAGE = 300.0
WORD_LEVEL = "5"


class TesseractReader:
    """Each page in its own language where that pack is installed, else in English. ReaderMissingError without the
    program.
    """

    name = "tesseract"

    def __init__(self, program: str = "tesseract") -> None:
        found = shutil.which(program)
        if found is None:
            raise ReaderMissingError(
                f"the program {program} is not installed (Debian: apt-get install tesseract-ocr tesseract-ocr-fra ...)"
            )
        self._program = found
        said = self._run(["--version"], b"").decode(errors="replace").split()
        self.version = said[1] if len(said) > 1 else "unknown"
        listed = self._run(["--list-langs"], b"").decode(errors="replace").split()
        self.packs = frozenset(listed) & {*LANGUAGE_PACKS.values()}
        if DEFAULT_PACK not in self.packs:
            raise ReaderMissingError("tesseract has no language pack eng")

    def pack_of(self, language: str) -> str:
        """The language pack that a page is read with."""
        wanted = LANGUAGE_PACKS.get(language, DEFAULT_PACK)
        return wanted if wanted in self.packs else DEFAULT_PACK

    def read(self, pages: Sequence[EvaluationPage]) -> Iterator[Reading]:
        """See `Reader.read`."""
        for page in pages:
            begun = time.perf_counter()
            try:
                dpi = str(round(page.dpi or STATED_DPI))
                table = self._run(
                    ["stdin", "stdout", "-l", self.pack_of(page.language), "--dpi", dpi, "tsv"], _png(page)
                )
                text, words = text_and_words(table.decode("utf-8"))
                error = None
            except (OSError, subprocess.SubprocessError) as failure:
                text, words, error = "", (), f"{type(failure).__name__}: {failure}"
            yield Reading(text, words, time.perf_counter() - begun, error)

    def _run(self, arguments: list[str], given: bytes) -> bytes:
        environment = os.environ | {"OMP_THREAD_LIMIT": os.environ.get("OMP_NUM_THREADS", "1")}
        done = subprocess.run(
            [self._program, *arguments],
            input=given,
            capture_output=True,
            check=True,
            timeout=SECONDS_PER_PAGE,
            env=environment,
        )
        return done.stdout


def _png(page: EvaluationPage) -> bytes:
    buffer = io.BytesIO()
    page.load().save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def text_and_words(table: str) -> tuple[str, tuple[tuple[str, Box], ...]]:
    """The words of Tesseract's TSV output as lines of text, an empty line between paragraphs, and with boxes."""
    words: list[tuple[str, Box]] = []
    parts: list[str] = []
    before: tuple[str, ...] = ()
    for row in csv.DictReader(io.StringIO(table), delimiter="\t", quoting=csv.QUOTE_NONE):
        word = (row.get("text") or "").strip()
        if row["level"] != WORD_LEVEL or not word:
            continue
        left, top, width, height = (float(row[name]) for name in ("left", "top", "width", "height"))
        words.append((word, (left, top, left + width, top + height)))
        place = tuple(row[name] for name in ("block_num", "par_num", "line_num"))
        if before:
            parts.append(" " if place == before else "\n" if place[:2] == before[:2] else "\n\n")
        parts.append(word)
        before = place
    return "".join(parts), tuple(words)
