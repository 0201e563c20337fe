"""DeepSeek-OCR and Unlimited-OCR in the engine: against transformers' own generate, sparse against dense,
alone against batched.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList

from fastocr_core import DecodePolicy, Engine, PageText
from fastocr_core.attention.gather import GatherAttention
from fastocr_core.config import EngineLimits
from fastocr_core.models.deepseek.adapter import DeepSeekOcrAdapter, load_deepseek_ocr, load_unlimited_ocr
from fastocr_core.models.deepseek.ngram_guard import NgramGuard
from fastocr_core.vision.deepseek_view import prepare_deepseek, vision_deepseek
from fastocr_core.vision.prepared import PreparedPage
from tests.support.deepseek_checkpoint import small_unlimited_config, write_small

OUTPUTS = 40
WINDOW = 6
LIMITS = EngineLimits(max_output_tokens=OUTPUTS, stop_loops=False)
POLICIES = {
    "dense": DecodePolicy.dense(),
    "fastocr": DecodePolicy.fastocr(kept_share=0.1, floor=1, warmup_steps=3, focal_layers=(1,)),
}
FAMILIES = ("deepseek-ocr", "unlimited-ocr")


def page_of(mode: str, seed: int, width: int = 400, height: int = 300) -> PreparedPage:
    pixels = np.random.default_rng(seed).integers(0, 256, (height // 20, width // 20, 3), dtype=np.uint8)
    image = Image.fromarray(pixels).resize((width, height), Image.Resampling.NEAREST)
    return prepare_deepseek(image, vision_deepseek(mode), None)


@pytest.fixture(scope="module")
def pages() -> list[PreparedPage]:
    """Eight pages of five sizes."""
    modes = ("tiny", "small", "gundam", "tiny", "base", "small", "tiny", "tiny")
    return [page_of(mode, seed, 660 if mode == "gundam" else 400, 330) for seed, mode in enumerate(modes)]


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DeepSeekOcrAdapter:
    return loaded(request.param, tmp_path_factory.mktemp(request.param))


def loaded(family: str, folder: Path) -> DeepSeekOcrAdapter:
    """Without the guard, so that plain greedy decoding can be compared; every page is encoded once."""
    if family == "deepseek-ocr":
        write_small(folder)
        adapter = load_deepseek_ocr(folder, torch.float32)
    else:
        write_small(folder, small_unlimited_config(WINDOW))
        adapter = load_unlimited_ocr(folder, torch.float32)
        assert adapter.text_window == WINDOW
    adapter.guard = None
    encode, encoded = adapter.encode, dict[int, Tensor]()

    def remembered(page: PreparedPage) -> Tensor:
        key = hash(tuple(view.tobytes() for view in page.views))
        if key not in encoded:
            encoded[key] = encode(page)
        return encoded[key]

    adapter.encode = remembered  # type: ignore[method-assign]
    return adapter


@pytest.fixture
def engines(model: DeepSeekOcrAdapter) -> Iterator[dict[str, Engine]]:
    opened = {name: Engine(model, policy, 8, LIMITS) for name, policy in POLICIES.items()}
    yield opened
    for engine in opened.values():
        engine.close()


def generated(
    adapter: DeepSeekOcrAdapter, page: PreparedPage, processors: list[LogitsProcessor]
) -> tuple[list[int], tuple[Tensor, ...]]:
    """Tokens and raw logits of transformers' greedy generate, from pixels, with its own attention."""
    layout = adapter.layout(page, None)
    ids = list(layout.ids)
    ids[layout.image_start : layout.image_start] = [adapter.model.config.image_token_id] * page.image_tokens
    views = [torch.from_numpy(view).permute(2, 0, 1).float() / 127.5 - 1 for view in page.views]
    tiled = {}
    if len(views) > 1:
        tiled = {
            "pixel_values_local": torch.stack(views[:-1]),
            "num_local_patches": [len(views) - 1],
            "patches_grid": [[page.tile_columns, page.tile_rows]],
        }
    adapter.model.set_attn_implementation({"text_config": "sdpa"})
    output = adapter.model.generate(
        input_ids=torch.tensor([ids]),
        attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        pixel_values=views[-1][None],
        **tiled,
        max_new_tokens=OUTPUTS,
        do_sample=False,
        pad_token_id=2,
        logits_processor=LogitsProcessorList(processors),
        output_logits=True,
        return_dict_in_generate=True,
    )
    return output.sequences[0, len(ids) :].tolist(), output.logits


@pytest.mark.parametrize("number", [0, 2], ids=["tiny", "gundam"])
@torch.inference_mode()
def test_dense_tokens_equal_generate_up_to_the_first_tie(
    model: DeepSeekOcrAdapter, pages: list[PreparedPage], number: int
) -> None:
    theirs, logits = generated(model, pages[number], [])
    with Engine(model, POLICIES["dense"], 2, LIMITS) as engine:
        (ours,) = engine.read([pages[number]])
    assert ours.error is None
    compared = compare(ours.tokens, theirs, logits)
    assert compared >= 3 * WINDOW


def compare(ours: tuple[int, ...], theirs: list[int], logits: tuple[Tensor, ...]) -> int:
    """How many tokens agree before the first one that was a close call."""
    for count, (token, other, step) in enumerate(zip(ours, theirs, logits, strict=False)):
        top = step[0].topk(2).values
        if float(top[0] - top[1]) < 1e-4:
            return count
        assert token == other, f"token {count}"
    return min(len(ours), len(theirs))


class BruteForceGuard(LogitsProcessor):
    """The rule of the guard once more, over the outputs alone."""

    def __init__(self, prompt: int, size: int, window: int, allowed: set[int]) -> None:
        self.prompt, self.size, self.window, self.allowed = prompt, size, window, allowed
        self.changed = 0

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        ids, size = input_ids[0, self.prompt :].tolist(), self.size
        best = int(scores[0].argmax())
        for start in range(max(0, len(ids) - self.window), len(ids) - size + 1):
            if ids[start : start + size - 1] == ids[len(ids) - size + 1 :]:
                banned = ids[start + size - 1]
                if banned not in self.allowed:
                    scores[0, banned] = -torch.inf
        self.changed += int(scores[0].argmax()) != best
        return scores


@torch.inference_mode()
def test_the_guard_bans_as_its_rule_says(tmp_path: Path, pages: list[PreparedPage]) -> None:
    model = loaded("deepseek-ocr", tmp_path)
    model.guard = NgramGuard(2, 30, frozenset({5}))
    prompt = pages[0].image_tokens + len(model.layout(pages[0], None).ids)
    oracle = BruteForceGuard(prompt, 2, 30, {5})
    theirs, _ = generated(model, pages[0], [oracle])
    with Engine(model, POLICIES["dense"], 2, LIMITS) as engine:
        (ours,) = engine.read([pages[0]])
    assert list(ours.tokens) == theirs[: len(ours.tokens)]
    assert ours.banned_tokens == oracle.changed > 0


def test_keeping_everything_is_dense(model: DeepSeekOcrAdapter, pages: list[PreparedPage]) -> None:
    whole = replace(POLICIES["fastocr"], kept_share=1.0)
    with Engine(model, POLICIES["dense"], 4, LIMITS) as dense, Engine(model, whole, 4, LIMITS) as sparse:
        for ours, expected in zip(sparse.read(pages), dense.read(pages), strict=True):
            assert ours.error is None
            assert ours.tokens == expected.tokens
            assert ours.image_kv_read_share == 1.0
        assert isinstance(sparse.backend, GatherAttention)
        assert sparse.backend.gathered_rows > 0
        assert isinstance(dense.backend, GatherAttention)
        assert dense.backend.gathered_rows == 0


def assert_same(one: PageText, other: PageText) -> None:
    assert one.error is None
    assert one.tokens == other.tokens
    assert torch.equal(torch.tensor(one.logprobs), torch.tensor(other.logprobs))
    assert one.image_kv_read_share == other.image_kv_read_share


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_alone_batched_and_late(engines: dict[str, Engine], pages: list[PreparedPage], policy: str) -> None:
    engine = engines[policy]
    together = list(engine.read(pages))
    assert len({page.image_tokens for page in together}) >= 4
    assert len({page.tokens for page in together}) == len(together), "pages should read differently"
    for number in (0, 2, 4):
        (alone,) = engine.read([pages[number]])
        assert_same(alone, together[number])
    before = engine.steps
    early = [engine.submit(page) for page in pages[:4]]
    while engine.steps < before + 5:
        time.sleep(0.001)
    assert_same(engine.submit(pages[7]).result(), together[7])
    for future, expected in zip(early, together, strict=False):
        assert_same(future.result(), expected)
    assert engine.steps > before + OUTPUTS, "the late page should have outlived the early ones"
    if policy == "fastocr":
        assert all(page.image_kv_read_share < 0.6 for page in together)


@torch.inference_mode()
def test_floating_types(tmp_path: Path, pages: list[PreparedPage]) -> None:
    write_small(tmp_path)
    adapter = load_deepseek_ocr(tmp_path, torch.bfloat16)
    routers = [value for name, value in adapter.model.named_parameters() if name.endswith("mlp.gate.weight")]
    assert routers
    assert all(router.dtype == torch.float32 for router in routers)
    assert adapter.dtype == torch.bfloat16
    assert adapter.decoder.rotary_emb.inv_freq.dtype == torch.float32
    with Engine(adapter, POLICIES["fastocr"], 2, LIMITS) as engine:
        (page,) = engine.read([pages[0]])
    assert page.error is None
    assert page.tokens
    unasked = load_deepseek_ocr(tmp_path)
    unasked.to(torch.device("cpu"))
    assert unasked.dtype == torch.float32
