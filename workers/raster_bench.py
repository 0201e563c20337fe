"""How fast pages become images, beside PyMuPDF's own pixmaps of the same pages with the same pixels, on one core.

`python -m workers.raster_bench FILE ...` prints CPU milliseconds a page and their ratio, which depends little on what
else the machine does. The files should be ones you trust: this process opens them itself.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pymupdf

from fastocr_core.vision import ModelVision, PreparedPage, model_vision, prepare
from workers.outcomes import Reason
from workers.prepare import judge_page
from workers.rasterize import DocumentFailure, Rasterizer, RasterPage
from workers.sniff import Format, sniff

PROCESS_CLOCK = 2  # of Linux: user and system time of all threads of a process


@dataclass(frozen=True, slots=True)
class FileSpeed:
    """CPU seconds for the pages of one file: `plain` in PyMuPDF alone, `draw` in our child, `hand_over` to get the
    pixels out of it, `judge` for turn and blankness, `resize` for the model's own sizes.
    """

    name: str
    pages: int
    megapixels: float
    how: str
    plain: float
    draw: float
    hand_over: float
    judge: float
    resize: float

    @property
    def drawing_share(self) -> float:
        """Rate of drawing alone, as a share of the plain rate."""
        return self.plain / (self.draw + self.hand_over)

    @property
    def share(self) -> float:
        """The same with turn and blankness found."""
        return self.plain / (self.draw + self.hand_over + self.judge)


def speed_of(file: Path, vision: ModelVision, most_pages: int, repeats: int) -> FileSpeed | None:
    """Measure one file, the quickest of `repeats` each; None if it holds nothing that can be drawn by both."""
    data = file.read_bytes()
    document_format = sniff(data)
    if isinstance(document_format, Reason):
        return None
    with Rasterizer() as rasterizer:
        try:
            opened = rasterizer.open(data, document_format)
        except DocumentFailure:
            return None
        numbers = range(0, opened.page_count, -(-opened.page_count // most_pages))
        drawn = [(number, rasterizer.page(number, vision.wanted_dpi)) for number in numbers]
        pages = [(number, page) for number, page in drawn if isinstance(page, RasterPage)]
        if not pages:
            return None
        widths = [(number, page.image.width) for number, page in pages]
        plain = min(_plain_seconds(data, document_format, widths) for _ in range(repeats))
        draw, hand_over = min(
            (_our_seconds(rasterizer, data, document_format, widths, vision) for _ in range(repeats)), key=sum
        )
    images = [page for _, page in pages]
    judge = min(_seconds(lambda: [judge_page(page.image) for page in images]) for _ in range(repeats))
    resize = min(_seconds(lambda: [_prepared(page, vision) for page in images]) for _ in range(repeats))
    megapixels = sum(page.image.width * page.image.height for page in images) / 1e6 / len(images)
    how = "+".join(sorted({page.how for page in images}))
    return FileSpeed(file.name, len(pages), megapixels, how, plain, draw, hand_over, judge, resize)


def _plain_seconds(data: bytes, document_format: Format, widths: Sequence[tuple[int, int]]) -> float:
    """Open the file and draw each page once, as wide as ours, with nothing left over from before."""
    pymupdf.TOOLS.store_shrink(100)
    filetype = "pdf" if document_format is Format.PDF else document_format.value

    def draw() -> None:
        with pymupdf.open(stream=data, filetype=filetype) as document:
            for number, width in widths:
                page = document.load_page(number)
                zoom = width / page.rect.width
                page.get_pixmap(matrix=pymupdf.Matrix(zoom, zoom), alpha=False)

    return _seconds(draw)


def _our_seconds(
    rasterizer: Rasterizer,
    data: bytes,
    document_format: Format,
    widths: Sequence[tuple[int, int]],
    vision: ModelVision,
) -> tuple[float, float]:
    """CPU seconds of the child, which lets go of the document before, and of this process."""
    rasterizer.open(data, document_format)
    pid = rasterizer.child_pid
    assert pid is not None
    before = _child_seconds(pid)

    def draw() -> None:
        rasterizer.open(data, document_format)
        for number, _ in widths:
            rasterizer.page(number, vision.wanted_dpi)

    ours = _seconds(draw)
    if rasterizer.child_pid != pid:  # replaced on the way; what it has cost is gone with it
        return _our_seconds(rasterizer, data, document_format, widths, vision)
    return _child_seconds(pid) - before, ours


def _prepared(page: RasterPage, vision: ModelVision) -> PreparedPage:
    return prepare(page.image, vision, page.dpi_used if page.dpi_known else None)


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _child_seconds(pid: int) -> float:
    return time.clock_gettime((~pid << 3) | PROCESS_CLOCK)


def _lines(results: Sequence[FileSpeed]) -> Iterator[str]:
    yield "| file | pages | Mpx | way | plain | draw | hand over | judge | resize | drawing | with judging |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for result in results:
        parts = (result.plain, result.draw, result.hand_over, result.judge, result.resize)
        milliseconds = " | ".join(f"{1000 * seconds / result.pages:.1f}" for seconds in parts)
        yield (
            f"| {result.name} | {result.pages} | {result.megapixels:.1f} | {result.how} | {milliseconds} | "
            f"{result.drawing_share:.0%} | {result.share:.0%} |"
        )


def main() -> int:
    """Print the table, the shares over all files, and a JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="documents, or folders of them")
    parser.add_argument("--model", default="mini", help="model whose resolution is wanted")
    parser.add_argument("--pages", type=int, default=20, help="most pages of a file, evenly spread")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    vision = model_vision(arguments.model)
    files = [
        file for place in arguments.files for file in (sorted(place.iterdir()) if place.is_dir() else [place])
    ]
    found = [speed_of(file, vision, arguments.pages, arguments.repeats) for file in files if file.is_file()]
    results = [result for result in found if result is not None]
    if not results:
        print("None of these files can be drawn.", file=sys.stderr)
        return 1
    print(f"CPU milliseconds a page, {arguments.model} at {vision.wanted_dpi} dpi, {os.cpu_count()} cores\n")
    print("\n".join(_lines(results)))
    plain, drawn = sum(r.plain for r in results), sum(r.draw + r.hand_over for r in results)
    judged = sum(r.judge for r in results)
    print(
        f"\nrate of drawing: {plain / drawn:.0%} of PyMuPDF's own; with judging {plain / (drawn + judged):.0%}"
    )
    summary = {"drawing": plain / drawn, "with_judging": plain / (drawn + judged)}
    print(json.dumps({**summary, "files": [asdict(result) for result in results]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
