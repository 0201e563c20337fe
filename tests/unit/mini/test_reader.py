"""The shipped weights on pages in fonts and texts never trained on. Fails where the weights are missing."""

import statistics

import pytest

from fastocr_core import DecodePolicy, Engine, load
from fastocr_core.models.base import ModelAdapter
from fastocr_core.models.mini.heldout.pages import HeldOutPage, held_out_pages
from fastocr_core.scores.text import cer

PRINTED = ("page-02-de.png", "page-13-pt.png", "page-29-nl.png", "page-34-en.png")


@pytest.fixture(scope="module")
def reader() -> ModelAdapter:
    return load("mini", device="cpu")


@pytest.fixture(scope="module")
def pages() -> dict[str, HeldOutPage]:
    return {page.file: page for page in held_out_pages()}


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "limit"), [(DecodePolicy.dense(), 0.10)], ids=["dense"])
def test_clean_pages_are_read(
    reader: ModelAdapter, pages: dict[str, HeldOutPage], policy: DecodePolicy, limit: float
) -> None:
    chosen = [pages[name] for name in PRINTED]
    with Engine(reader, policy, max_batch=len(chosen)) as engine:
        results = list(engine.read(page.image() for page in chosen))
    assert [result.finish_reason for result in results] == ["stop"] * len(chosen)
    rates = [cer(page.text, result.text) for page, result in zip(chosen, results, strict=True)]
    assert statistics.fmean(rates) <= limit, dict(zip(PRINTED, rates, strict=True))


@pytest.mark.slow
def test_blank_leaves_give_no_text(reader: ModelAdapter, pages: dict[str, HeldOutPage]) -> None:
    leaves = [page for page in pages.values() if page.blank]
    with Engine(reader, max_batch=4) as engine:
        results = list(engine.read(page.image() for page in leaves))
    written = {page.file: result.text for page, result in zip(leaves, results, strict=True) if result.text}
    assert not written


@pytest.mark.slow
def test_lines_carry_boxes_where_they_stand(reader: ModelAdapter, pages: dict[str, HeldOutPage]) -> None:
    """Each block's box covers the middle of the line of the page that it transcribes."""
    page = pages[PRINTED[0]]
    with Engine(reader, max_batch=1) as engine:
        (result,) = engine.read([page.image()])
    assert len(result.blocks) == pytest.approx(len(page.lines), abs=2)
    middles = [statistics.fmean((word.box[1] + word.box[3]) / 2 for word in line) for line in page.lines]
    covered = sum(
        any(block.box is not None and block.box[1] <= middle <= block.box[3] for block in result.blocks)
        for middle in middles
    )
    assert covered >= 0.9 * len(middles)
