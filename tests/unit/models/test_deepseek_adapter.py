"""Loading DeepSeek-OCR and Unlimited-OCR: what is refused and how it is said; prompts, guard, tile reuse."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from fastocr_core.models import load
from fastocr_core.models.deepseek.adapter import DeepSeekOcrAdapter, load_deepseek_ocr, load_unlimited_ocr
from fastocr_core.models.deepseek.configuration import deepseek_config, unlimited_config
from fastocr_core.models.deepseek.ngram_guard import NgramGuard
from fastocr_core.models.deepseek.weights import UNUSED, renamed
from fastocr_core.vision import model_vision
from fastocr_core.vision.deepseek_view import prepare_deepseek, vision_deepseek
from fastocr_core.vision.prepared import PreparedPage
from tests.support.deepseek_checkpoint import (
    TOKENS,
    published_shapes,
    seeded_tensors,
    small_config,
    small_unlimited_config,
    write_small,
)
from tests.support.seeded_checkpoint import write_tokenizer

TENSORS = seeded_tensors(small_config())


def page_of(image: Image.Image, mode: str = "tiny") -> PreparedPage:
    return prepare_deepseek(image, vision_deepseek(mode), None)


BLANK = page_of(Image.new("RGB", (300, 200), "white"))


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> DeepSeekOcrAdapter:
    folder = tmp_path_factory.mktemp("deepseek")
    write_small(folder, tensors=TENSORS)
    return load_deepseek_ocr(folder, torch.float32)


def broken(folder: Path, change: dict[str, Tensor | None]) -> Path:
    """A folder with some tensors replaced or, None, left out."""
    tensors = {**TENSORS, **{key: value for key, value in change.items() if value is not None}}
    for key in (key for key, value in change.items() if value is None):
        del tensors[key]
    write_small(folder, tensors=tensors)
    return folder


EXPERT = "model.layers.1.mlp.experts.7.up_proj.weight"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model.layers.2.self_attn.o_proj.weight": None}, "1 missing: .*layers.2.self_attn.o_proj"),
        ({"model.sam_model.neck.3.bias": None}, "missing: .*neck.layer_norm2.bias"),
        ({"model.extra": torch.zeros(2)}, "1 unknown: model.extra"),
        ({"model.image_newline": torch.zeros(63)}, r"of another shape: model.image_newline \[63\]"),
        ({EXPERT: None}, f"missing, the first is {EXPERT}"),
        ({EXPERT: torch.zeros(24, 63)}, "experts.7.up_proj.weight has not the shape"),
        ({EXPERT.replace(".7.", ".8."): torch.zeros(24, 64)}, "missing, the first is .*experts.8.gate_proj"),
        (
            {"model.vision_model.transformer.layers.0.self_attn.qkv_proj.weight": torch.zeros(95, 32)},
            "not query, key and value together",
        ),
    ],
)
def test_every_key_and_shape_is_checked(tmp_path: Path, change: dict[str, Tensor | None], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        load_deepseek_ocr(broken(tmp_path, change), torch.float32)


def test_the_unused_tensor_may_be_missing(tmp_path: Path) -> None:
    load_deepseek_ocr(broken(tmp_path, {UNUSED: None}), torch.float32)


def test_every_published_name_has_a_rule() -> None:
    kept = [key for key in published_shapes(small_config()) if renamed(key) == key]
    assert kept == ["lm_head.weight", "model.image_newline"]


def test_the_published_count_of_tensors() -> None:
    config = small_config()
    config["language_config"] |= {"num_hidden_layers": 12, "n_routed_experts": 64}
    widths = config["vision_config"]["width"]
    widths["sam_vit_b"] |= {"layers": 12, "global_attn_indexes": [2, 5, 8, 11]}
    widths["clip-l-14-224"]["layers"] = 24
    assert len(published_shapes(config)) == 2710


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("use_mla", True),
        ("topk_method", "group_limited_greedy"),
        ("norm_topk_prob", True),
        ("scoring_func", "sigmoid"),
        ("rope_scaling", {"type": "yarn"}),
        ("routed_scaling_factor", 2.5),
        ("n_group", 8),
        ("moe_layer_freq", 2),
        ("attention_bias", True),
        ("tie_word_embeddings", True),
        ("hidden_act", "gelu"),
    ],
)
def test_config_differences_are_refused(name: str, value: object) -> None:
    config = small_config()
    config["language_config"][name] = value
    for build in (deepseek_config, unlimited_config):
        with pytest.raises(ValueError, match=f"{name} is "):
            build(config)


def test_all_differences_are_named_at_once() -> None:
    config = small_config()
    config["language_config"] |= {"use_mla": True, "norm_topk_prob": True}
    with pytest.raises(ValueError, match=r"norm_topk_prob .*use_mla|use_mla .*norm_topk_prob"):
        deepseek_config(config)


def without(config: dict[str, Any], name: str) -> dict[str, Any]:
    config = copy.deepcopy(config)
    config.pop(name, None)
    config["language_config"].pop(name, None)
    return config


def test_what_must_be_stated() -> None:
    with pytest.raises(ValueError, match="use_mla is None"):
        deepseek_config(without(small_config(), "use_mla"))
    with pytest.raises(ValueError, match="lacks num_experts_per_tok"):
        deepseek_config(without(small_config(), "num_experts_per_tok"))
    with pytest.raises(ValueError, match="projector_type is 'mlp'"):
        deepseek_config(small_config() | {"projector_config": {"projector_type": "mlp"}})


def test_windows_tell_the_two_models_apart() -> None:
    assert deepseek_config(small_config()).text_config.layer_types == ["full_attention"] * 3
    with pytest.raises(ValueError, match="sliding window"):
        deepseek_config(small_unlimited_config())
    text = unlimited_config(small_unlimited_config(9)).text_config
    assert text.layer_types == ["reference_sliding_attention"] * 3
    assert text.sliding_window == 9
    with pytest.raises(ValueError, match="states the sliding window"):
        unlimited_config(small_unlimited_config(9) | {"sliding_window": 8})


def test_a_config_written_by_transformers(tmp_path: Path) -> None:
    """It names things differently and leaves out defaults, the window of 128 among them."""
    expected = unlimited_config(small_unlimited_config(128), TOKENS["<image>"])
    written = json.loads(expected.to_json_string(use_diff=True))
    assert "language_config" not in written
    write_small(tmp_path, tensors=TENSORS)
    (tmp_path / "config.json").write_text(json.dumps(written), "utf-8")
    model = load_unlimited_ocr(tmp_path, torch.float32)
    assert model.text_window == 128
    assert model.model.config.text_config.to_dict() == expected.text_config.to_dict()
    assert model.encode(BLANK).shape == (73, 64)
    written["text_config"]["rope_parameters"] = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0}
    with pytest.raises(ValueError, match="rope_type is 'linear'"):
        unlimited_config(written)


@pytest.mark.parametrize(
    ("config", "name"), [(small_config(), "deepseek-ocr"), (small_unlimited_config(), "unlimited-ocr")]
)
def test_the_front_door_finds_the_family(tmp_path: Path, config: dict[str, Any], name: str) -> None:
    write_small(tmp_path, config, tensors=TENSORS)
    model = load(str(tmp_path), device="cpu")
    assert model.name == name
    assert model.dtype == torch.float32
    assert model_vision(name) == model.vision


def test_tokenizers_of_others_are_refused(tmp_path: Path) -> None:
    write_small(tmp_path, tensors=TENSORS)
    write_tokenizer(tmp_path, {key: value for key, value in TOKENS.items() if key != "<image>"})
    with pytest.raises(ValueError, match="knows no token '<image>'"):
        load_deepseek_ocr(tmp_path)
    write_tokenizer(tmp_path, TOKENS | {"<far>": 400})
    with pytest.raises(ValueError, match="401 tokens, the embedding only 288"):
        load_deepseek_ocr(tmp_path)
    write_tokenizer(tmp_path, TOKENS | {"<｜end▁of▁sentence｜>": 3})
    with pytest.raises(ValueError, match="ends a text with token 1"):
        load_deepseek_ocr(tmp_path)


def test_prompts(adapter: DeepSeekOcrAdapter) -> None:
    layout = adapter.layout(BLANK, None)
    assert (layout.ids[0], layout.image_start, layout.image_tokens) == (0, 1, 73)
    assert layout.ids[2] == TOKENS["<|grounding|>"]
    assert layout.positions.tolist() == [list(range(len(layout.ids) + 73))]
    plain = adapter.layout(BLANK, "<image>\nFree OCR. ")
    assert plain.ids == adapter.layout(BLANK, "Free OCR.").ids
    assert len(plain.ids) == 1 + len("\nFree OCR.")
    middle = adapter.layout(BLANK, "Read <image> now")
    assert middle.image_start == 1 + len("Read ")
    assert adapter.layout(BLANK, "").ids == (0,)
    with pytest.raises(ValueError, match="one <image>"):
        adapter.layout(BLANK, "<image> and <image>")
    with pytest.raises(ValueError, match="prompt has 1102 tokens"):
        adapter.layout(BLANK, "x" * 1100)


def test_unlimited_ocr(tmp_path: Path) -> None:
    write_small(tmp_path, small_unlimited_config(7), tensors=TENSORS)
    model = load_unlimited_ocr(tmp_path, torch.float32, "gundam")
    assert (model.name, model.text_window, model.vision.mode) == ("unlimited-ocr", 7, "gundam:32")
    assert len(model.layout(BLANK, None).ids) == 1 + len("document parsing.")
    assert model.guard == NgramGuard(35, 128)


def test_output_keeps_table_cells(adapter: DeepSeekOcrAdapter) -> None:
    ids = adapter._tokenizer.encode("<td>a</td><|ref|>text<|/ref|><|det|>[[0, 0, 999, 999]]<|/det|>b")
    parsed = adapter.parse([*ids, 1], BLANK)
    assert parsed.text == "<td>a</td>\n\nb"
    assert parsed.blocks[1].box == (0, 0, 300, 200)
    assert adapter.stop_ids == {1}
    assert adapter.max_output_tokens == 8192 - 1263 - adapter.max_prompt_tokens


def test_guard_of_the_adapter(adapter: DeepSeekOcrAdapter) -> None:
    repeated = list(range(40, 70))
    assert adapter.ban([*repeated, *repeated[:29]]) == {69}
    cells = [TOKENS["<td>"], TOKENS["</td>"]] * 20
    assert not adapter.ban(cells)


@given(
    st.lists(st.integers(0, 2), max_size=40),
    st.integers(2, 5),
    st.integers(0, 20),
    st.frozensets(st.integers(0, 2), max_size=1),
)
def test_guard_by_its_rule(tokens: list[int], size: int, more: int, allowed: frozenset[int]) -> None:
    window = size + more
    expected = set()
    if len(tokens) >= size:
        for start in range(max(0, len(tokens) - window), len(tokens) - size + 1):
            if tokens[start : start + size - 1] == tokens[len(tokens) - size + 1 :]:
                expected.add(tokens[start + size - 1])
    assert NgramGuard(size, window, allowed).banned(tokens) == expected - allowed


def test_guard_at_the_edge_of_its_window() -> None:
    tokens = [1, 2, 3, *range(10, 30), 1, 2]
    assert NgramGuard(3, len(tokens)).banned(tokens) == {3}
    assert not NgramGuard(3, len(tokens) - 1).banned(tokens)
    with pytest.raises(ValueError, match="2 <= size <= window"):
        NgramGuard(4, 3)


def test_identical_tiles_are_encoded_once(adapter: DeepSeekOcrAdapter) -> None:
    image = np.full((500, 1000, 3), 255, np.uint8)
    page = page_of(Image.fromarray(image), "gundam")
    adapter.tower.views = adapter.tower.reused_views = 0
    encoded = adapter.encode(page)
    assert (adapter.tower.views, adapter.tower.reused_views) == (3, 1)
    grid = adapter.image_grid(page)
    cells = encoded[: page.grid_rows * grid.stride].view(page.grid_rows, grid.stride, -1)
    assert torch.equal(cells[:, :10], cells[:, 10:20])
    assert torch.equal(cells[0, 20], adapter.model.model.image_newline)
    assert torch.equal(encoded[-1], adapter.model.model.view_separator)


def test_grid_and_markers(adapter: DeepSeekOcrAdapter) -> None:
    grid = adapter.image_grid(BLANK)
    assert (grid.rows, grid.columns, grid.stride) == (8, 8, 9)
    assert grid.markers == (*range(8, 72, 9), 72)
    assert grid.fits(BLANK.image_tokens)


def test_pages_of_other_models_are_refused(adapter: DeepSeekOcrAdapter) -> None:
    other = PreparedPage(
        (np.zeros((64, 32, 1), np.uint8),), 2, 1, 2, "page", 1, 1, BLANK.transform, 32, 64, 1.0, 0.0
    )
    with pytest.raises(ValueError, match="not prepared for this model"):
        adapter.encode(other)
