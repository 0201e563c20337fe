"""Pages that are all in an engine's queue before it takes the first: without this, a slow test process meets an engine that
has read some pages before the others come, and pages that should share a batch do not.
"""

from collections.abc import Sequence
from concurrent.futures import Future

from fastocr_core import Engine, PageText
from fastocr_core.vision.prepared import PreparedPage


def submit_at_once(engine: Engine, pages: Sequence[PreparedPage]) -> list[Future[PageText]]:
    """The futures of the pages, in their order."""
    with engine._wake:  # the engine's thread asks for work under this lock
        return [engine.submit(page) for page in pages]


def read_at_once(engine: Engine, pages: Sequence[PreparedPage]) -> list[PageText]:
    """Results in input order."""
    return [future.result() for future in submit_at_once(engine, pages)]
