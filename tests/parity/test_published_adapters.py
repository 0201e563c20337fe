"""Qwen2.5-VL, olmOCR-2 and LLaVA-OneVision on small seeded checkpoints under their published key names:
dense equals transformers' own generate, sparse with everything kept equals dense, company changes nothing.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor
from transformers import LlavaOnevisionForConditionalGeneration, Qwen2_5_VLForConditionalGeneration
from transformers.models.llava_onevision.image_processing_pil_llava_onevision import (
    LlavaOnevisionImageProcessorPil,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from fastocr_core import DecodePolicy, Engine, PageText
from fastocr_core.config import EngineLimits
from fastocr_core.models.base import ModelAdapter
from fastocr_core.models.llava_onevision.adapter import load_llava_onevision
from fastocr_core.models.olmocr.adapter import load_olmocr
from fastocr_core.models.qwen2_5_vl.adapter import load_qwen2_5_vl
from fastocr_core.vision import prepare
from tests.support.published_models import (
    LLAVA_PROCESSOR,
    LLAVA_TOKENS,
    QWEN_PROCESSOR,
    QWEN_TOKENS,
    noise_page,
    write_llava,
    write_qwen,
)

LIMITS = EngineLimits(max_output_tokens=40, stop_loops=False)
FASTOCR = DecodePolicy.fastocr(kept_share=0.25, floor=1, warmup_steps=3)
SIZES = ((180, 130), (60, 60), (300, 90), (112, 224), (84, 140), (500, 40), (170, 250), (28, 56))


@dataclass(frozen=True, slots=True)
class Case:
    """One family: how to write and load it, and what transformers needs to read a page itself."""

    name: str
    write: Callable[[Path], Path]
    load: Callable[[Path], ModelAdapter]
    oracle: Any
    image_token: int
    inputs: Callable[[Image.Image, Tensor, "ModelAdapter"], dict[str, Any]]


def qwen_inputs(image: Image.Image, ids: Tensor, adapter: ModelAdapter) -> dict[str, Any]:
    """Pixels by transformers' own image processor."""
    processor = Qwen2VLImageProcessorPil(**QWEN_PROCESSOR)
    pixels = processor(image, return_tensors="pt")
    kinds = (ids == QWEN_TOKENS["<|image_pad|>"]).long()
    return {**pixels, "mm_token_type_ids": kinds}


def olmocr_inputs(image: Image.Image, ids: Tensor, adapter: ModelAdapter) -> dict[str, Any]:
    """olmOCR fixes the size of a page before the processor sees it."""
    page = prepare(image, adapter.vision)
    return qwen_inputs(Image.fromarray(page.views[0]), ids, adapter)


def llava_inputs(image: Image.Image, ids: Tensor, adapter: ModelAdapter) -> dict[str, Any]:
    """Tiles by transformers' own image processor."""
    found = LlavaOnevisionImageProcessorPil(**LLAVA_PROCESSOR)(image, return_tensors="pt")
    return {name: found[name] for name in ("pixel_values", "image_sizes")}


CASES = (
    Case(
        "qwen-7b",
        write_qwen,
        load_qwen2_5_vl,
        Qwen2_5_VLForConditionalGeneration,
        QWEN_TOKENS["<|image_pad|>"],
        qwen_inputs,
    ),
    Case(
        "qwen-3b-tied",
        lambda folder: write_qwen(folder, tied=True),
        load_qwen2_5_vl,
        Qwen2_5_VLForConditionalGeneration,
        QWEN_TOKENS["<|image_pad|>"],
        qwen_inputs,
    ),
    Case(
        "olmocr",
        write_qwen,
        load_olmocr,
        Qwen2_5_VLForConditionalGeneration,
        QWEN_TOKENS["<|image_pad|>"],
        olmocr_inputs,
    ),
    Case(
        "llava-7b",
        write_llava,
        load_llava_onevision,
        LlavaOnevisionForConditionalGeneration,
        LLAVA_TOKENS["<image>"],
        llava_inputs,
    ),
    Case(
        "llava-0.5b-tied",
        lambda folder: write_llava(folder, tied=True),
        load_llava_onevision,
        LlavaOnevisionForConditionalGeneration,
        LLAVA_TOKENS["<image>"],
        llava_inputs,
    ),
)


@dataclass(frozen=True, slots=True)
class Written:
    """A case with its checkpoint on disk and its adapter loaded."""

    case: Case
    folder: Path
    adapter: ModelAdapter


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Written and loaded once per family."""
    case: Case = request.param
    folder = case.write(tmp_path_factory.mktemp(case.name))
    return Written(case, folder, case.load(folder))


def read(adapter: ModelAdapter, policy: DecodePolicy, pages: list[Image.Image], batch: int) -> list[PageText]:
    with Engine(adapter, policy, batch, LIMITS) as engine:
        return list(engine.read(pages))


def assert_same(one: PageText, other: PageText) -> None:
    assert one.error is None
    assert one.tokens == other.tokens
    assert torch.equal(torch.tensor(one.logprobs), torch.tensor(other.logprobs))
    assert one.finish_reason == other.finish_reason


@pytest.mark.parametrize("size", SIZES[:4], ids=str)
@torch.inference_mode()
def test_dense_equals_generate_up_to_the_first_tie(written: Written, size: tuple[int, int]) -> None:
    adapter, case = written.adapter, written.case
    image = noise_page(*size)
    (ours,) = read(adapter, DecodePolicy.dense(), [image], 2)
    assert ours.error is None
    layout = adapter.layout(prepare(image, adapter.vision), None)
    ids = list(layout.ids)
    ids[layout.image_start : layout.image_start] = [case.image_token] * layout.image_tokens
    prompt = torch.tensor([ids])
    oracle = case.oracle.from_pretrained(written.folder, dtype=torch.float32).eval()
    generated = oracle.generate(
        input_ids=prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=LIMITS.max_output_tokens,
        do_sample=False,
        eos_token_id=sorted(adapter.stop_ids),
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
        **case.inputs(image, prompt, adapter),
    )
    theirs = generated.sequences[0, len(ids) :].tolist()
    compared = 0
    for index, logits in enumerate(generated.logits):
        top = logits[0].topk(2).values
        if float(top[0] - top[1]) < 1e-4:
            break
        if theirs[index] in adapter.stop_ids:
            assert len(ours.tokens) == index
            break
        assert ours.tokens[index] == theirs[index]
        expected = float(logits[0].float().log_softmax(-1).max())
        assert ours.logprobs[index] == pytest.approx(expected, abs=1e-3)
        compared += 1
    assert compared >= 10


def test_keeping_everything_through_the_gather_path_equals_dense(written: Written) -> None:
    pages = [noise_page(*size, seed) for seed, size in enumerate(SIZES[:4])]
    dense = read(written.adapter, DecodePolicy.dense(), pages, 4)
    whole = DecodePolicy.fastocr(kept_share=1.0, floor=1, warmup_steps=1)
    with Engine(written.adapter, whole, 4, LIMITS) as engine:
        sparse = list(engine.read(pages))
        assert engine.backend.gathered_rows > 0
    for one, other in zip(sparse, dense, strict=True):
        assert one.error is None
        assert one.tokens == other.tokens
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


@pytest.mark.parametrize("policy", [DecodePolicy.dense(), FASTOCR], ids=lambda policy: policy.name)
def test_alone_in_a_batch_and_joining_late(written: Written, policy: DecodePolicy) -> None:
    pages = [noise_page(*size, seed) for seed, size in enumerate(SIZES)]
    with Engine(written.adapter, policy, 8, LIMITS) as engine:
        together = list(engine.read(pages))
        assert len({page.image_tokens for page in together}) >= 4
        for page, expected in zip(pages, together, strict=True):
            (alone,) = engine.read([page])
            assert_same(alone, expected)
        before = engine.steps
        early = [engine.submit(page) for page in pages[:3]]
        while engine.steps < before + 5 and not all(future.done() for future in early):
            time.sleep(0.001)
        late = engine.submit(pages[3])
        assert_same(late.result(), together[3])
        for future, expected in zip(early, together, strict=False):
            assert_same(future.result(), expected)


def test_sparse_decoding_reads_less(written: Written) -> None:
    (sparse,) = read(written.adapter, FASTOCR, [noise_page(*SIZES[0])], 1)
    assert sparse.error is None
    assert sparse.image_kv_read_share < 0.9


@torch.inference_mode()
def test_scored_encoding_is_the_plain_one_with_scores(written: Written) -> None:
    page = prepare(noise_page(*SIZES[0]), written.adapter.vision)
    scored = written.adapter.encode_scored(page)
    assert torch.equal(scored.embeddings, written.adapter.encode(page))
    assert scored.received is not None
    assert scored.keys is not None
    assert scored.received.shape == (page.image_tokens,)
    assert len(scored.keys) == page.image_tokens
    assert float(scored.received.min()) >= 0
    assert float(scored.received.std()) > 0
    grid = written.adapter.image_grid(page)
    assert grid.fits(page.image_tokens)
    assert grid.rows * grid.columns + len(grid.markers) + grid.first == page.image_tokens
