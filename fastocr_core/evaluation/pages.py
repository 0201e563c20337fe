"""The pages that readers are measured on, from whatever source, in one shape."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from PIL import Image

from fastocr_core.models.mini.heldout.pages import SETS, HeldOutPage, held_out_pages, spread
from fastocr_core.scores.boxes import Box

CASES = "cases"
BLANK_LAYOUT = "blank"


@dataclass(frozen=True, slots=True)
class EvaluationPage:
    """One page with its truth.

    `part` is the set it belongs to; `text` is None where only `must_contain` is known, and empty for a blank page. `exact`
    is False where the truth's order or layout is not to be taken at its word, so that only words count. `words` are
    the truth's words with their boxes in pixels of the image, empty where unknown. `load` gives the image, `dpi` its
    resolution where that can be believed.
    """

    name: str
    part: str
    text: str | None
    load: Callable[[], Image.Image]
    language: str = ""
    font_class: str = ""
    degradation: str = ""
    layout: str = ""
    words: tuple[tuple[str, Box], ...] = ()
    must_contain: tuple[str, ...] = ()
    exact: bool = True
    dpi: float | None = None

    @property
    def blank(self) -> bool:
        """Whether nothing stands on it."""
        return self.text == ""


def of_held_out(page: HeldOutPage) -> EvaluationPage:
    """A held-out page as an evaluation page."""
    degradation = page.degradation or "none"
    return EvaluationPage(
        name=f"{page.part}/{page.file}",
        part=page.part,
        text=page.text,
        load=page.image,
        language=page.language,
        font_class=page.font_class,
        degradation="" if page.blank else degradation,
        layout=BLANK_LAYOUT if page.blank else page.layout,
        words=tuple((word.text, word.box) for line in page.lines for word in line),
    )


def held_out(parts: Iterable[str] = SETS, count: int | None = None) -> list[EvaluationPage]:
    """Pages of the sets; of each at most `count` printed ones, evenly spread, and as large a share of its blank leaves.

    ValueError for a set that does not exist or a count below one, FileNotFoundError where a set is not there.
    """
    return [of_held_out(page) for part in parts for page in _chosen(part, count)]


def _chosen(part: str, count: int | None) -> Iterator[HeldOutPage]:
    pages = list(held_out_pages(part))
    printed, leaves = [page for page in pages if not page.blank], [page for page in pages if page.blank]
    yield from spread(printed, count)
    if leaves:
        yield from spread(leaves, None if count is None else -(-count * len(leaves) // len(printed)))


def printed(pages: Sequence[EvaluationPage]) -> list[EvaluationPage]:
    """Pages with text that is known word for word."""
    return [page for page in pages if page.text and page.exact]
