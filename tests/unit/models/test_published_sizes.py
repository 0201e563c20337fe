"""The published sizes of Qwen2.5-VL and LLaVA-OneVision build with the parameters and tensors that their
checkpoints are known to have. Nothing is allocated.
"""

from typing import Any

import pytest
from transformers import (
    LlavaOnevisionConfig,
    LlavaOnevisionForConditionalGeneration,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)

from fastocr_core.decoding.focal import default_focal_layers
from fastocr_core.models.base import DecoderShape
from fastocr_core.models.checkpoint import weightless
from fastocr_core.models.text_decoder import decoder_shape
from tests.support.published_models import llava_config, qwen_config

QWEN_TOWER = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16}
SEVEN_BILLION = {
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
}
THREE_BILLION = {
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
}
SIGLIP = {
    "model_type": "siglip_vision_model",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 26,
    "num_attention_heads": 16,
    "image_size": 384,
    "patch_size": 14,
    "vision_use_head": False,
}


def published_qwen(text: dict[str, Any], vocabulary: int, tied: bool) -> Qwen2_5_VLConfig:
    tower = qwen_config()["vision_config"] | QWEN_TOWER
    tower |= {"out_hidden_size": text["hidden_size"], "fullatt_block_indexes": [7, 15, 23, 31]}
    sizes = {"vocab_size": vocabulary, "tie_word_embeddings": tied, "vision_config": tower}
    rotary = {"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}
    return Qwen2_5_VLConfig(**(qwen_config() | text | sizes | rotary))


@pytest.mark.parametrize(
    ("config", "parameters", "tensors", "shape"),
    [
        (
            published_qwen(SEVEN_BILLION, 152064, False),
            8_292_166_656,
            729,
            DecoderShape(28, 28, 4, 128, 3584, 152064),
        ),
        (
            published_qwen(THREE_BILLION, 151936, True),
            3_754_622_976,
            825,
            DecoderShape(36, 16, 2, 128, 2048, 151936),
        ),
        (
            LlavaOnevisionConfig(
                text_config=llava_config()["text_config"] | SEVEN_BILLION | {"vocab_size": 152128},
                vision_config=SIGLIP,
            ),
            8_030_807_584,
            765,
            DecoderShape(28, 28, 4, 128, 3584, 152128),
        ),
    ],
    ids=["qwen-7b", "qwen-3b", "llava-7b"],
)
def test_published_sizes(config: Any, parameters: int, tensors: int, shape: DecoderShape) -> None:
    kind = (
        Qwen2_5_VLForConditionalGeneration
        if config.model_type == "qwen2_5_vl"
        else LlavaOnevisionForConditionalGeneration
    )
    with weightless():
        model = kind(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert len(model.state_dict()) == tensors
    assert decoder_shape(config.text_config) == shape


def test_focal_layers_without_a_profile() -> None:
    assert default_focal_layers(28) == (3, 10, 17, 24)
    assert default_focal_layers(36) == (3, 10, 18, 25, 32)
    for layers in range(1, 60):
        chosen = default_focal_layers(layers)
        assert sorted(set(chosen)) == list(chosen)
        assert 0 <= chosen[0] <= chosen[-1] < layers
