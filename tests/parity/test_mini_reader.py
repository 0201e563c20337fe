"""The shipped reader on real print: company, late joining and the gather path change no token and no log-probability."""

import time

import pytest
import torch
from PIL import Image

from fastocr_core import DecodePolicy, Engine, PageText, load
from fastocr_core.attention.gather import GatherAttention
from fastocr_core.models.base import ModelAdapter
from fastocr_core.models.mini.heldout.pages import held_out_pages
from fastocr_core.vision import prepare
from fastocr_core.vision.prepared import PreparedPage

SPARSE = DecodePolicy.fastocr(kept_share=0.05)
HEIGHTS = (150, 220, 300, 180, 260, 140, 340, 200)


@pytest.fixture(scope="module")
def reader() -> ModelAdapter:
    return load("mini", device="cpu")


@pytest.fixture(scope="module")
def pages(reader: ModelAdapter) -> list[PreparedPage]:
    """The upper parts of eight held-out pages, of different sizes."""
    printed = [page for page in held_out_pages() if not page.blank][::5]
    cut: list[Image.Image] = []
    for page, height in zip(printed, HEIGHTS, strict=True):
        image = page.image()
        cut.append(image.crop((0, 0, image.width, height)))
    return [prepare(image, reader.vision) for image in cut]


def assert_same(one: PageText, other: PageText) -> None:
    assert one.error is None
    assert one.tokens == other.tokens
    assert torch.equal(torch.tensor(one.logprobs), torch.tensor(other.logprobs))


@pytest.mark.slow
@pytest.mark.parametrize("policy", [DecodePolicy.dense(), SPARSE], ids=lambda policy: policy.name)
def test_alone_in_a_batch_of_eight_and_joining_late(
    reader: ModelAdapter, pages: list[PreparedPage], policy: DecodePolicy
) -> None:
    with Engine(reader, policy, max_batch=8) as engine:
        together = list(engine.read(pages))
        assert min(page.output_tokens for page in together) > 40
        (alone,) = engine.read([pages[3]])
        assert_same(alone, together[3])
        before = engine.steps
        early = [engine.submit(page) for page in (pages[6], pages[2])]
        while engine.steps < before + 20:
            time.sleep(0.001)
        assert_same(engine.submit(pages[3]).result(), alone)
        for future, expected in zip(early, (together[6], together[2]), strict=True):
            assert_same(future.result(), expected)


@pytest.mark.slow
def test_everything_kept_goes_through_the_gather_path_and_is_dense(
    reader: ModelAdapter, pages: list[PreparedPage]
) -> None:
    with Engine(reader, DecodePolicy.dense(), max_batch=4) as engine:
        dense = list(engine.read(pages[:4]))
    with Engine(reader, DecodePolicy.fastocr(kept_share=1.0), max_batch=4) as engine:
        kept = list(engine.read(pages[:4]))
        assert isinstance(engine.backend, GatherAttention)
        assert engine.backend.gathered_rows > 0
    assert [page.tokens for page in kept] == [page.tokens for page in dense]


@pytest.mark.slow
def test_the_gather_path_reads_what_the_masked_oracle_reads(
    reader: ModelAdapter, pages: list[PreparedPage]
) -> None:
    with Engine(reader, SPARSE, max_batch=4) as engine:
        fast = list(engine.read(pages[:4]))
    with Engine(reader, SPARSE, max_batch=4, backend="masked") as engine:
        oracle = list(engine.read(pages[:4]))
    assert [page.tokens for page in fast] == [page.tokens for page in oracle]
