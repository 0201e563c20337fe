"""M-RoPE positions, and the scores of image tokens, against transformers and against whole attention maps."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers import AttentionInterface, Qwen2_5_VLConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel
from transformers.vision_utils import get_vision_window_index

from fastocr_core.models import attention_received as blockwise
from fastocr_core.models.attention_received import attention_received
from fastocr_core.models.checkpoint import weightless
from fastocr_core.models.llava_onevision.adapter import load_llava_onevision
from fastocr_core.models.qwen2_5_vl.adapter import load_qwen2_5_vl
from fastocr_core.models.qwen2_5_vl.positions import prompt_positions
from fastocr_core.models.qwen2_5_vl.tower_scores import window_order
from fastocr_core.vision import prepare
from tests.support.published_models import noise_page, qwen_config, write_llava, write_qwen


def test_known_positions() -> None:
    positions = prompt_positions(2, 4, 6, 7)  # patches 8 x 12
    assert positions.shape == (3, 33)
    assert positions[:, 26].tolist() == [8, 8, 8]
    assert int(positions.max()) + 1 - 33 == -18
    assert positions[:, 2 + 7].tolist() == [2, 3, 3]  # row 1, column 1


@pytest.fixture(scope="module")
def oracle() -> Qwen2_5_VLModel:
    """Transformers' own model, which computes positions without its weights."""
    with weightless():
        return Qwen2_5_VLModel(Qwen2_5_VLConfig(**qwen_config()))


@given(before=st.integers(0, 5), rows=st.integers(1, 9), columns=st.integers(1, 9), after=st.integers(1, 5))
def test_positions_equal_those_of_transformers(
    oracle: Qwen2_5_VLModel, before: int, rows: int, columns: int, after: int
) -> None:
    kinds = torch.tensor([[0] * before + [1] * (rows * columns) + [0] * after])
    expected, _ = oracle.get_rope_index(kinds, kinds, torch.tensor([[1, 2 * rows, 2 * columns]]))
    assert torch.equal(prompt_positions(before, rows, columns, after), expected[:, 0])


@given(st.integers(1, 23), st.integers(1, 23))
def test_window_order_equals_that_of_transformers(rows: int, columns: int) -> None:
    expected, _ = get_vision_window_index(torch.tensor([[1, 2 * rows, 2 * columns]]), 2, 112, 14)
    assert torch.equal(window_order(rows, columns, 4), expected)


@pytest.mark.parametrize("entries", [1, 37, 1 << 24])
def test_blockwise_sums_equal_the_whole_map(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blockwise, "_MAP_ENTRIES_AT_ONCE", entries)
    generator = torch.Generator().manual_seed(3)
    query, key = (torch.randn(2, 19, 8, generator=generator) for _ in range(2))
    whole = (query @ key.transpose(1, 2) * 0.4).softmax(-1).mean((0, 1))
    received = attention_received(query, key, 0.4)
    assert torch.allclose(received, whole, atol=1e-6)
    assert float(received.sum()) == pytest.approx(1, abs=1e-5)


class MapRecorder:
    """An attention function for vision towers that keeps every whole map."""

    def __init__(self, name: str) -> None:
        self.maps: list[Tensor] = []
        AttentionInterface.register(name, self)

    def __call__(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *arguments: Any, **named: Any
    ) -> tuple[Tensor, Tensor]:
        attention = (query @ key.transpose(2, 3) * named["scaling"]).softmax(-1)
        self.maps.append(attention)
        return (attention @ value).transpose(1, 2), attention


@torch.inference_mode()
def test_scores_of_qwen_equal_the_whole_map(tmp_path: Path) -> None:
    adapter = load_qwen2_5_vl(write_qwen(tmp_path))
    page = prepare(noise_page(180, 130), adapter.vision)
    scored = adapter.encode_scored(page)
    recorder = MapRecorder("whole_map_qwen")
    adapter.model.model.visual.set_attn_implementation("whole_map_qwen")
    adapter.encode(page)
    patches = page.image_tokens * 4
    last = [attention for attention in recorder.maps if attention.shape[-1] == patches][-1]
    per_token = last[0].mean((0, 1)).view(-1, 4).mean(1)
    sides = torch.tensor([[1, 2 * page.grid_rows, 2 * page.grid_columns]])
    order, _ = get_vision_window_index(sides, 2, 112, 14)
    expected = torch.empty_like(per_token)
    expected[order] = per_token
    assert scored.received is not None
    assert len(order.unique()) > 16, "the page should have more than one window"
    assert torch.allclose(scored.received, expected, atol=1e-6)


@torch.inference_mode()
def test_scores_of_llava_equal_the_whole_maps(tmp_path: Path) -> None:
    adapter = load_llava_onevision(write_llava(tmp_path))
    page = prepare(noise_page(100, 100), adapter.vision)  # 2 x 2 tiles, nothing cut off or shrunk
    scored = adapter.encode_scored(page)
    recorder = MapRecorder("whole_map_llava")
    adapter.model.model.vision_tower.set_attn_implementation("whole_map_llava")
    adapter.encode(page)
    views = recorder.maps[-1].mean((1, 2))  # [views, patches]
    assert scored.received is not None
    assert scored.keys is not None
    assert torch.allclose(scored.received[:16], views[0], atol=1e-6)
    assert page.grid_columns == 8
    for row in range(8):
        begin = 16 + row * 9
        left, right = views[1 + row // 4 * 2], views[2 + row // 4 * 2]
        expected = torch.cat((left[row % 4 * 4 :][:4], right[row % 4 * 4 :][:4], torch.zeros(1)))
        assert torch.allclose(scored.received[begin : begin + 9], expected, atol=1e-6)
        assert torch.equal(scored.keys[begin + 8], scored.keys[begin + 7])
