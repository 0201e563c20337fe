"""What a dots.ocr folder must hold: each thing that differs is refused in one clear sentence."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fastocr_core import load
from fastocr_core.models.checkpoint import open_checkpoint, weightless
from fastocr_core.models.dots_ocr import loading, prompts
from fastocr_core.models.dots_ocr.adapter import DotsOcrAdapter, DotsOcrModel
from fastocr_core.models.revisions import model_revision
from fastocr_core.vision import count_image_tokens, model_vision, prepare
from tests.support.dots_checkpoint import (
    CONFIG,
    PREPROCESSOR,
    dots_shapes,
    noise_image,
    write_dots_checkpoint,
)
from tests.support.seeded_checkpoint import write_tensors, write_tokenizer

PUBLISHED: dict[str, Any] = {
    **CONFIG,
    "vocab_size": 151_936,
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "max_position_embeddings": 131_072,
    "vision_config": {
        **CONFIG["vision_config"],
        "embed_dim": 1536,
        "hidden_size": 1536,
        "intermediate_size": 4224,
        "num_hidden_layers": 42,
        "num_attention_heads": 12,
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_dots_checkpoint(tmp_path)
    return tmp_path


def changed(folder: Path, key: str, value: object) -> None:
    """Write another value under a dotted key of config.json; None removes it."""
    config = copy.deepcopy(CONFIG)
    *parents, last = key.split(".")
    inner = config
    for parent in parents:
        inner = inner[parent]
    inner[last] = value
    if value is None:
        del inner[last]
    (folder / "config.json").write_text(json.dumps(config))


def loaded(folder: Path) -> DotsOcrAdapter:
    adapter = load(str(folder), device="cpu")
    assert isinstance(adapter, DotsOcrAdapter)
    return adapter


def test_loads_and_says_what_it_is(folder: Path) -> None:
    adapter = loaded(folder)
    assert adapter.name == "dots-ocr"
    assert adapter.verification == "unverified against real weights"
    assert adapter.revision == model_revision(str(folder)) == open_checkpoint(folder).revision
    assert adapter.stop_ids == {256, 263}
    assert adapter.vision == model_vision(str(folder))
    assert adapter.default_prompt.startswith("Please output the layout information")
    assert adapter.dtype == torch.float32
    with pytest.raises(ValueError, match="not 'other'"):
        load(str(folder), device="cpu", revision="other")


def test_the_published_sizes_give_the_published_counts() -> None:
    shapes = dots_shapes(PUBLISHED)
    with weightless():
        model = DotsOcrModel(loading._text_config(PUBLISHED), loading._tower_shape(PUBLISHED))
    built = {key.removeprefix("causal."): tuple(value.shape) for key, value in model.state_dict().items()}
    assert built == shapes
    assert len(shapes) == 643
    assert sum(value.numel() for value in model.parameters()) == 3_039_179_264
    assert sum(value.numel() for value in model.vision_tower.parameters()) == 1_262_091_264
    assert sum(value.numel() for value in model.causal.parameters()) == 1_777_088_000


@pytest.mark.parametrize(
    ("width", "height", "view", "tokens"),
    [
        (1654, 2339, (1652, 2352), 4956),
        (2481, 3508, None, 11_125),
        (5000, 7000, None, 101 * 141),
        (3360, 3360, None, 14_400),
    ],
)
def test_worked_examples_of_sizes(width: int, height: int, view: tuple[int, int] | None, tokens: int) -> None:
    vision = model_vision("dots-ocr")
    assert count_image_tokens(width, height, vision) == tokens
    assert tokens <= vision.max_image_tokens
    assert dict(vision.settings)["max_pixels"] == 11_289_600
    assert (vision.wanted_dpi, vision.takes_prompt) == (200, True)
    if view is not None:
        page = prepare(noise_image(2, 2).resize((width, height)), vision)
        assert page.views[0].shape == (view[1], view[0], 3)
        assert (page.grid_columns, page.grid_rows) == (59, 84)


def test_modes_and_the_folders_own_limits(folder: Path) -> None:
    assert dict(model_vision(str(folder)).settings)["max_pixels"] == PREPROCESSOR["max_pixels"]
    few = model_vision("dots-ocr", "tokens-100")
    assert count_image_tokens(1654, 2339, few) <= 100
    assert load(str(folder), device="cpu", mode="tokens-9").vision == model_vision(str(folder), "tokens-9")
    assert model_vision("rednote-hilab/dots.ocr") == model_vision("dots-ocr")
    with pytest.raises(ValueError, match="no mode 'huge'"):
        model_vision("dots-ocr", "huge")


def test_boxes_come_back_in_pixels_of_the_given_image(folder: Path) -> None:
    adapter = loaded(folder)
    page = prepare(noise_image(4, 6).resize((200, 310)), adapter.vision)
    height, width = page.views[0].shape[:2]
    answer = [
        {"bbox": [0, 0, width, height], "category": "Text", "text": "all"},
        {"bbox": [width // 2, 10, 9999, 9999], "category": "Section-header", "text": "## part"},
    ]
    parsed = adapter.parse(adapter.tokenizer.encode(json.dumps(answer)), page)
    assert (parsed.text, parsed.format) == ("all\n\n## part", "markdown")
    assert [block.kind for block in parsed.blocks] == ["text", "section-header"]
    assert parsed.blocks[0].box == pytest.approx((0, 0, 200, 310))
    assert parsed.blocks[1].box == pytest.approx((100, 10 * 310 / height, 200, 310), abs=200 / width)
    plain = adapter.parse(adapter.tokenizer.encode("just words"), page)
    assert (plain.text, plain.blocks[0].box) == ("just words", None)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("hidden_act", "gelu", "hidden_act is 'gelu' instead of 'silu'"),
        ("rope_scaling", {"type": "yarn"}, "rope_scaling is .* instead of None"),
        ("use_sliding_window", True, "use_sliding_window is True instead of False"),
        ("vision_config.use_bias", True, "vision_config.use_bias is True"),
        ("vision_config.patch_size", 16, "vision_config.patch_size is 16 instead of 14"),
        ("vision_config.temporal_patch_size", 2, "vision_config.temporal_patch_size is 2"),
        ("vision_config.hidden_size", 32, "the tower gives vectors of 32, the decoder takes 64"),
        ("vision_config", None, "no vision_config"),
        ("vision_config.embed_dim", None, "vision_config of a dots.ocr must give embed_dim"),
        ("num_hidden_layers", None, "must give num_hidden_layers"),
        ("rope_parameters", {"rope_type": "linear"}, "rope_type is 'linear'"),
        ("image_token_id", 5, "image token 5, the vocabulary 257"),
        ("vocab_size", 200, "has 264 tokens, the model 200"),
        ("quantization_config", {"quant_method": "fp8"}, r"quantised \(fp8\)"),
        ("num_hidden_layers", 4, "12 unknown: model.layers.4"),
        ("num_hidden_layers", 6, "12 missing: causal.model.layers.5"),
        (
            "intermediate_size",
            100,
            r"15 of another shape: model.layers.0.mlp.down_proj.weight \[64, 96\] instead",
        ),
        ("model_type", "dots_other", "cannot be read here"),
    ],
)
def test_a_config_that_differs_is_refused(folder: Path, key: str, value: object, said: str) -> None:
    changed(folder, key, value)
    if key == "model_type":
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "architectures": ["DotsOther"]}))
    with pytest.raises(ValueError, match=said) as failure:
        load(str(folder), device="cpu")
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("key", "shape", "said"),
    [
        ("vision_tower.merger.ln_q.bias", None, "1 missing: vision_tower.merger.ln_q.bias"),
        ("model.layers.0.self_attn.o_proj.bias", (64,), "1 unknown: model.layers.0.self_attn.o_proj.bias"),
        (
            "vision_tower.blocks.1.mlp.fc1.weight",
            (48, 33),
            r"1 of another shape: .*fc1.weight \[48, 33\] instead",
        ),
    ],
)
def test_a_key_that_differs_is_refused(
    folder: Path, key: str, shape: tuple[int, ...] | None, said: str
) -> None:
    tensors = write_dots_checkpoint(folder)
    tensors.pop(key, None)
    if shape is not None:
        tensors[key] = torch.zeros(shape)
    write_tensors(folder, tensors, shards=2)
    with pytest.raises(ValueError, match=said):
        load(str(folder), device="cpu")


def test_a_pickled_checkpoint_is_refused(folder: Path) -> None:
    for file in folder.glob("*.safetensors"):
        file.rename(file.with_suffix(".bin"))
    with pytest.raises(ValueError, match="never read"):
        load(str(folder), device="cpu")


def test_published_token_numbers_are_checked_at_the_published_size(folder: Path) -> None:
    small = write_dots_checkpoint(folder)
    config = {**CONFIG, "vocab_size": prompts.PUBLISHED_VOCABULARY}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"token <\|endoftext\|> is 256 in .*, published as 151643"):
        load(str(folder), device="cpu")
    assert small.keys() == dots_shapes(CONFIG).keys()
    write_tokenizer(folder, {"<|img|>": 258})
    (folder / "config.json").write_text(json.dumps(CONFIG))
    with pytest.raises(ValueError, match=r"knows no token '<\|imgpad\|>'"):
        load(str(folder), device="cpu")
