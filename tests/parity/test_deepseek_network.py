"""The network that is built from published tensors, against an independent one that reads the same tensors."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from transformers import UnlimitedOcrConfig, UnlimitedOcrForConditionalGeneration

from fastocr_core.models.deepseek.adapter import DeepSeekOcrAdapter, load_deepseek_ocr, load_unlimited_ocr
from fastocr_core.models.deepseek.configuration import deepseek_config
from fastocr_core.vision.deepseek_view import prepare_deepseek, vision_deepseek
from fastocr_core.vision.prepared import PreparedPage
from tests.support.deepseek_checkpoint import small_config, small_unlimited_config, write_small
from tests.support.deepseek_reference import DeepSeekReference

TOLERANCE = 1e-4  # of the largest absolute value, in float32
MODES = {"tiny": (500, 400), "small": (500, 400), "base": (500, 400), "gundam": (1000, 500)}


def page_in(mode: str) -> PreparedPage:
    width, height = MODES[mode]
    pixels = np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return prepare_deepseek(Image.fromarray(pixels), vision_deepseek(mode), None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("deepseek")


@pytest.fixture(scope="module")
def tensors(folder: Path) -> dict[str, Tensor]:
    return write_small(folder)


@pytest.fixture(scope="module")
def adapter(folder: Path, tensors: dict[str, Tensor]) -> DeepSeekOcrAdapter:
    return load_deepseek_ocr(folder, torch.float32)


def pixels_of(page: PreparedPage) -> tuple[Tensor | None, Tensor]:
    views = [torch.from_numpy(view).permute(2, 0, 1).float() / 127.5 - 1 for view in page.views]
    return torch.stack(views[:-1]) if len(views) > 1 else None, views[-1][None]


def difference(ours: Tensor, theirs: Tensor) -> float:
    """Relative to the largest value; infinite where the shapes differ."""
    if ours.shape != theirs.shape:
        return float("inf")
    return float((ours - theirs).abs().max() / theirs.abs().max())


def reference_image(tensors: dict[str, Tensor], page: PreparedPage, wrong: str = "") -> Tensor:
    tiles, whole = pixels_of(page)
    return DeepSeekReference(tensors, small_config(), wrong).image(tiles, page.tile_columns, whole)


def spoken(adapter: DeepSeekOcrAdapter, page: PreparedPage, image: Tensor) -> Tensor:
    """Prompt embeddings [T, hidden]."""
    layout = adapter.layout(page, None)
    text = adapter.embed(torch.tensor(layout.ids), layout.positions)
    return torch.cat((text[: layout.image_start], image, text[layout.image_start :]))


@pytest.mark.parametrize("mode", sorted(MODES))
@torch.inference_mode()
def test_image_tokens(adapter: DeepSeekOcrAdapter, tensors: dict[str, Tensor], mode: str) -> None:
    page = page_in(mode)
    ours = adapter.encode(page)
    assert ours.shape == (page.image_tokens, adapter.shape.hidden)
    assert difference(ours, reference_image(tensors, page)) < TOLERANCE
    tiles, whole = pixels_of(page)
    grid = [] if tiles is None else [[page.tile_columns, page.tile_rows]]
    theirs = adapter.model.get_image_features(
        whole, tiles, None if tiles is None else [len(tiles)], grid or None
    ).pooler_output[0]
    assert difference(ours, theirs) < TOLERANCE


@torch.inference_mode()
def test_scored_encoding(adapter: DeepSeekOcrAdapter) -> None:
    page = page_in("gundam")
    scored = adapter.encode_scored(page)
    assert torch.equal(scored.embeddings, adapter.encode(page))
    assert scored.received is not None
    assert scored.keys is not None
    assert scored.keys.shape == (page.image_tokens, 16)
    markers = torch.tensor(adapter.image_grid(page).markers)
    assert (scored.received[markers] == 0).all()
    cells = torch.ones(page.image_tokens, dtype=torch.bool)
    cells[markers] = False
    assert (scored.received[cells] > 0).all()
    clip = adapter.model.model.vision_tower.vision_encoder
    clip.set_attn_implementation("eager")  # the only one that hands out its attention
    captured: list[Tensor] = []
    handle = clip.encoder.layers[-1].self_attn.register_forward_hook(
        lambda _, __, output: captured.append(output[1])
    )
    try:
        adapter.model.model.vision_tower(pixels_of(page)[1])
    finally:
        handle.remove()
        clip.set_attn_implementation("sdpa")
    whole = captured[0][0].mean((0, 1))[1:]  # over heads and queries
    assert difference(scored.received[-273:-1].view(16, 17)[:, :16].flatten(), whole) < TOLERANCE


@torch.inference_mode()
def test_logits_and_cached_greedy_tokens(adapter: DeepSeekOcrAdapter, tensors: dict[str, Tensor]) -> None:
    page = page_in("tiny")
    reference = DeepSeekReference(tensors, small_config())
    sequence = spoken(adapter, page, reference_image(tensors, page))
    ours = adapter.logits(adapter.decoder(inputs_embeds=sequence[None]).last_hidden_state[0])
    assert difference(ours, reference.logits(sequence)) < TOLERANCE
    cache, fed, tokens, expected = None, sequence[None], [], []
    for _ in range(12):
        output = adapter.decoder(inputs_embeds=fed, cache=cache, use_cache=True)
        cache = output.cache
        tokens.append(int(adapter.logits(output.last_hidden_state[0, -1]).argmax()))
        expected.append(int(reference.logits(sequence)[-1].argmax()))
        assert tokens == expected
        new = adapter.embed(torch.tensor(tokens[-1:]), torch.zeros(1, 1))
        fed, sequence = new[None], torch.cat((sequence, new))
    assert len(set(tokens)) > 3, "the checkpoint should not repeat one token"


@pytest.mark.parametrize("wrong", ["concat", "newline"])
@torch.inference_mode()
def test_wrong_images_are_noticed(
    adapter: DeepSeekOcrAdapter, tensors: dict[str, Tensor], wrong: str
) -> None:
    page = page_in("tiny")
    assert difference(adapter.encode(page), reference_image(tensors, page, wrong)) > 100 * TOLERANCE


@pytest.mark.parametrize("wrong", ["gate", "top"])
@torch.inference_mode()
def test_wrong_experts_are_noticed(
    adapter: DeepSeekOcrAdapter, tensors: dict[str, Tensor], wrong: str
) -> None:
    sequence = spoken(adapter, page_in("tiny"), torch.zeros(73, adapter.shape.hidden))
    ours = adapter.logits(adapter.decoder(inputs_embeds=sequence[None]).last_hidden_state[0])
    theirs = DeepSeekReference(tensors, small_config(), wrong).logits(sequence)
    assert difference(ours, theirs) > 100 * TOLERANCE


@torch.inference_mode()
def test_a_sliding_window_left_on_is_noticed(
    tmp_path: Path, adapter: DeepSeekOcrAdapter, tensors: dict[str, Tensor]
) -> None:
    window = 6
    write_small(tmp_path, small_unlimited_config(window), tensors=tensors)
    windowed = load_unlimited_ocr(tmp_path, torch.float32)
    page = page_in("tiny")
    differences = []
    caches: list[object] = [None, None]
    fed = spoken(adapter, page, adapter.encode(page))[None]
    for step in range(window + 4):
        logits = []
        for number, model in enumerate((adapter, windowed)):
            output = model.decoder(inputs_embeds=fed, cache=caches[number], use_cache=True)
            caches[number] = output.cache
            logits.append(model.logits(output.last_hidden_state[0, -1:]))
        differences.append(difference(*logits))
        fed = adapter.embed(torch.tensor([[step + 20]]), torch.zeros(1, 1))
    # step 0 is the prompt; steps 1 .. window see everything either way
    assert max(differences[: window + 1]) < TOLERANCE
    assert min(differences[window + 1 :]) > 10 * TOLERANCE


@torch.inference_mode()
def test_transformers_own_loading_agrees(
    folder: Path, adapter: DeepSeekOcrAdapter, tensors: dict[str, Tensor]
) -> None:
    theirs, report = UnlimitedOcrForConditionalGeneration.from_pretrained(
        folder,
        config=deepseek_config(small_config(), 270),
        dtype=torch.float32,
        output_loading_info=True,
    )
    assert not any(report.values()), report
    ours = adapter.model.state_dict()
    assert ours.keys() == theirs.state_dict().keys()
    for key, value in theirs.state_dict().items():
        assert torch.equal(ours[key], value), key


def test_published_size() -> None:
    text = {
        "num_hidden_layers": 12,
        "hidden_size": 1280,
        "num_attention_heads": 10,
        "num_key_value_heads": 10,
        "intermediate_size": 6848,
        "moe_intermediate_size": 896,
        "n_routed_experts": 64,
        "n_shared_experts": 2,
        "num_experts_per_tok": 6,
        "first_k_dense_replace": 1,
        "vocab_size": 129280,
        "max_position_embeddings": 8192,
        "use_mla": False,
    }
    config: UnlimitedOcrConfig = deepseek_config({"language_config": text})
    assert config.text_config.layer_types == ["full_attention"] * 12
    with torch.device("meta"):
        model = UnlimitedOcrForConditionalGeneration(config)
    state = model.state_dict()
    assert len(state) == 715
    assert sum(value.numel() for value in state.values()) == 3_335_504_128
