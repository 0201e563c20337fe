"""The untrained decoder of the embedded reader: three position axes and a text window in the same engine."""

from dataclasses import replace

import pytest
import torch
from transformers import Qwen2_5_VLTextConfig, Qwen2_5_VLTextModel

from fastocr_core import DecodePolicy, Engine, EngineLimits, PageText
from fastocr_core.bench.decode import noise_page
from fastocr_core.models.mini.adapter import MiniAdapter
from fastocr_core.models.mini.reader import DECODER_SIZE, MiniReader
from fastocr_core.models.mini.text_decoder import TextDecoder
from fastocr_core.vision.mini_view import MINI_VISION
from fastocr_core.vision.prepared import PreparedPage

PAGES = [noise_page(cells, MINI_VISION, cells) for cells in (24, 60, 12, 35, 48)]
LIMITS = EngineLimits(max_output_tokens=40)
POLICIES = [DecodePolicy.dense(), DecodePolicy.fastocr(0.1, floor=2, warmup_steps=3)]


@pytest.fixture(scope="module")
def model() -> MiniAdapter:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return MiniAdapter(MiniReader(), {"focal_layers": [2]}, "untrained")


def read(
    model: MiniAdapter, policy: DecodePolicy, backend: str, pages: list[PreparedPage], batch: int = 8
) -> list[PageText]:
    with Engine(model, policy, batch, LIMITS, backend) as engine:
        return list(engine.read(pages))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_backends_agree_and_company_does_not_matter(model: MiniAdapter, policy: DecodePolicy) -> None:
    together = read(model, policy, "gather", PAGES)
    for fast, reference in zip(together, read(model, policy, "masked", PAGES), strict=True):
        assert fast.error is None
        assert fast.tokens == reference.tokens
    for index in (0, 4):
        (alone,) = read(model, policy, "gather", [PAGES[index]])
        assert alone.tokens == together[index].tokens
        assert torch.equal(torch.tensor(alone.logprobs), torch.tensor(together[index].logprobs))


def test_everything_kept_is_dense(model: MiniAdapter) -> None:
    everything = replace(POLICIES[1], kept_share=1.0)
    dense, kept = (read(model, policy, "gather", PAGES) for policy in (POLICIES[0], everything))
    assert [page.tokens for page in kept] == [page.tokens for page in dense]


def _of_transformers() -> Qwen2_5_VLTextModel:
    """The class that the decoder is written after, at its size."""
    size = DECODER_SIZE
    config = Qwen2_5_VLTextConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.hidden,
        intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        max_position_embeddings=16384,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": list(size.rotary_pairs)},
        rms_norm_eps=1e-6,
        pad_token_id=0,
        attn_implementation="sdpa",
    )
    return Qwen2_5_VLTextModel(config).eval()


@torch.inference_mode()
def test_the_decoder_is_that_of_qwen2_5_vl() -> None:
    """Same names and shapes of weights, same hidden states, at places far apart on all three axes."""
    with torch.random.fork_rng():
        torch.manual_seed(11)
        theirs, ours = _of_transformers(), TextDecoder(DECODER_SIZE, 0).eval()
        for parameter in theirs.parameters():
            parameter.normal_(0.0, 0.2)
        ours.load_state_dict(theirs.state_dict())
        inputs = torch.randn(2, 40, DECODER_SIZE.hidden)
        positions = torch.randint(0, 6000, (3, 2, 40))
    expected = theirs(inputs_embeds=inputs, position_ids=positions, use_cache=False).last_hidden_state
    assert torch.equal(ours(inputs, positions).last_hidden_state, expected)


def test_an_attention_that_is_not_registered_is_refused() -> None:
    with pytest.raises(KeyError):
        TextDecoder(DECODER_SIZE, 0).set_attn_implementation("nobody's")
