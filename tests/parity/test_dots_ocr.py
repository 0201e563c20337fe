"""A small seeded dots.ocr: its tower against a plain one, its engine against transformers' generate, sparse
decoding with everything kept against dense, and a page alone against the same page in company.
"""

import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import Qwen2Config, Qwen2ForCausalLM

from fastocr_core import DecodePolicy, Engine, EngineLimits, PageText, load
from fastocr_core.models.dots_ocr import prompts, tower
from fastocr_core.models.dots_ocr.adapter import DotsOcrAdapter
from fastocr_core.vision import prepare
from fastocr_core.vision.prepared import PreparedPage
from tests.support.dots_checkpoint import CONFIG, PREPROCESSOR, noise_image, write_dots_checkpoint

SIZES = [(5, 8), (3, 2), (6, 6), (1, 4), (9, 5), (2, 2), (4, 7), (8, 3)]  # columns, rows
QUESTION = prompts.PLAIN_OCR
LIMITS = EngineLimits(max_output_tokens=60)
POLICIES = [DecodePolicy.dense(), DecodePolicy.fastocr(0.2, floor=1, warmup_steps=3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models") / "dots"
    write_dots_checkpoint(place)
    return place


@pytest.fixture(scope="module")
def model(folder: Path) -> DotsOcrAdapter:
    adapter = load(str(folder), device="cpu")
    assert isinstance(adapter, DotsOcrAdapter)
    return adapter


@pytest.fixture(scope="module")
def pages(model: DotsOcrAdapter) -> list[PreparedPage]:
    return [prepare(noise_image(*size, seed), model.vision) for seed, size in enumerate(SIZES)]


def reference_tower(tensors: dict[str, Tensor], view: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    """Image tokens, attention received and keys by image token, in double precision, on the grid of patches."""
    weights = {key.removeprefix("vision_tower."): value.double() for key, value in tensors.items()}
    mean, deviation = (torch.tensor(PREPROCESSOR[key]).double() for key in ("image_mean", "image_std"))
    image = ((torch.from_numpy(view.copy()).double() / 255 - mean) / deviation).permute(2, 0, 1)[None]
    shape = CONFIG["vision_config"]
    width, heads = shape["embed_dim"], shape["num_attention_heads"]

    def norm(rows: Tensor, name: str) -> Tensor:
        return rows / (rows.square().mean(-1, keepdim=True) + shape["rms_norm_eps"]).sqrt() * weights[name]

    embedded = functional.conv2d(
        image,
        weights["patch_embed.patchifier.proj.weight"],
        weights["patch_embed.patchifier.proj.bias"],
        stride=14,
    )[0]
    rows_count, columns_count = embedded.shape[1:]
    rows = norm(embedded.flatten(1).T, "patch_embed.patchifier.norm.weight")  # raster order of patches
    place = torch.cartesian_prod(torch.arange(rows_count), torch.arange(columns_count)).double()
    quarter = width // heads // 4
    speeds = 10_000.0 ** -(torch.arange(quarter).double() / quarter)
    turn = torch.polar(
        torch.ones(len(rows), 2 * quarter).double(),
        torch.cat((place[:, :1] * speeds, place[:, 1:] * speeds), 1),
    )
    for block in range(shape["num_hidden_layers"]):
        name = f"blocks.{block}."
        projected = norm(rows, f"{name}norm1.weight") @ weights[f"{name}attn.qkv.weight"].T
        query, key, value = projected.view(len(rows), 3, heads, -1).transpose(0, 2).unbind(1)
        spun = [
            torch.view_as_real(torch.complex(*part.chunk(2, -1)) * turn).transpose(-1, -2).flatten(-2)
            for part in (query, key)
        ]
        attention = (spun[0] @ spun[1].mT / (width // heads) ** 0.5).softmax(-1)
        attended = (attention @ value).transpose(0, 1).flatten(1)
        rows = rows + attended @ weights[f"{name}attn.proj.weight"].T
        inner = norm(rows, f"{name}norm2.weight")
        gate = functional.silu(inner @ weights[f"{name}mlp.fc1.weight"].T)
        rows = (
            rows + (gate * (inner @ weights[f"{name}mlp.fc3.weight"].T)) @ weights[f"{name}mlp.fc2.weight"].T
        )
    rows = norm(rows, "post_trunk_norm.weight")
    rows = functional.layer_norm(
        rows, (width,), weights["merger.ln_q.weight"], weights["merger.ln_q.bias"], 1e-6
    )

    def merged(values: Tensor) -> Tensor:
        """[patches, n] in raster order -> [tokens, 4, n]."""
        grid = values.view(rows_count, columns_count, -1)
        corners = [grid[row::2, column::2] for row in (0, 1) for column in (0, 1)]
        return torch.stack(corners, 2).flatten(0, 1)

    hidden = merged(rows).flatten(1) @ weights["merger.mlp.0.weight"].T + weights["merger.mlp.0.bias"]
    tokens = functional.gelu(hidden) @ weights["merger.mlp.2.weight"].T + weights["merger.mlp.2.bias"]
    received = merged(attention.mean((0, 1))[:, None]).mean((1, 2))
    return tokens, received, merged(key.mean(0)).mean(1)


@pytest.mark.parametrize("entries", [1 << 28, 300])
def test_the_tower_equals_a_plain_one(
    tmp_path: Path,
    model: DotsOcrAdapter,
    pages: list[PreparedPage],
    entries: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tower, "ENTRIES_AT_ONCE", entries)  # 300: a few queries at a time
    tensors = write_dots_checkpoint(tmp_path)
    for page in pages[:4]:
        tokens, received, keys = reference_tower(tensors, page.views[0])
        scored = model.encode_scored(page)
        assert model.encode(page).shape == (page.image_tokens, 64)
        assert torch.equal(scored.embeddings, model.encode(page))
        torch.testing.assert_close(scored.embeddings.double(), tokens, rtol=1e-4, atol=1e-4)
        assert scored.received is not None
        assert scored.keys is not None
        torch.testing.assert_close(scored.received.double(), received, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(scored.keys.double(), keys, rtol=1e-4, atol=1e-4)


def test_the_prompt_is_markers_image_question(model: DotsOcrAdapter, pages: list[PreparedPage]) -> None:
    layout = model.layout(pages[0], "Ab")
    question = model.tokenizer.encode("Ab")
    assert layout.ids == (260, 258, 259, *question, 261, 262)
    assert (layout.image_start, layout.image_tokens) == (2, 40)
    assert layout.positions.tolist() == [list(range(40 + 7))]
    whole = model.layout(pages[0], None)
    assert model.tokenizer.decode(whole.ids[3:-2]) == prompts.LAYOUT_ALL
    with pytest.raises(ValueError, match="must not contain"):
        model.layout(pages[0], f"{prompts.IMAGE_PAD} again")


def read(model: DotsOcrAdapter, pages: list[PreparedPage], policy: DecodePolicy) -> list[PageText]:
    with Engine(model, policy, max_batch=8, limits=LIMITS) as engine:
        return list(engine.read(pages, QUESTION))


def test_dense_tokens_equal_generate_up_to_the_first_tie(
    folder: Path, model: DotsOcrAdapter, pages: list[PreparedPage], tmp_path: Path
) -> None:
    tensors = write_dots_checkpoint(tmp_path)
    names = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    config = Qwen2Config(
        **{name: CONFIG[name] for name in (*names, "num_key_value_heads", "rms_norm_eps")},
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    oracle = Qwen2ForCausalLM(config).eval()
    oracle.load_state_dict({key: value for key, value in tensors.items() if "vision" not in key})
    for page, ours in zip(pages, read(model, pages, POLICIES[0]), strict=True):
        layout = model.layout(page, QUESTION)
        text = functional.embedding(torch.tensor(layout.ids), tensors["model.embed_tokens.weight"])
        prompt = torch.cat((text[:2], model.encode(page), text[2:]))[None]
        with torch.inference_mode():
            generated = oracle.generate(
                inputs_embeds=prompt,
                attention_mask=torch.ones(prompt.shape[:2], dtype=torch.long),
                max_new_tokens=60,
                do_sample=False,
                output_logits=True,
                return_dict_in_generate=True,
            )
        compared = 0
        for token, theirs, logits in zip(
            ours.tokens, generated.sequences[0].tolist(), generated.logits, strict=False
        ):
            top = logits[0].topk(2).values
            if float(top[0] - top[1]) < 1e-4:
                break
            assert token == theirs
            compared += 1
        assert compared >= 20 or ours.finish_reason == "stop"


def test_everything_kept_is_dense_token_for_token(model: DotsOcrAdapter, pages: list[PreparedPage]) -> None:
    dense = read(model, pages, POLICIES[0])
    policy = DecodePolicy.fastocr(kept_share=1.0, floor=1, warmup_steps=1)
    with Engine(model, policy, max_batch=8, limits=LIMITS) as engine:
        kept = list(engine.read(pages, QUESTION))
        assert engine.backend.gathered_rows > 0
    for one, other in zip(dense, kept, strict=True):
        assert one.error is None
        assert one.tokens == other.tokens
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    sparse = read(model, pages, POLICIES[1])
    assert [page.tokens for page in sparse] != [page.tokens for page in dense]


def test_the_models_own_prompt_is_asked_unless_another_is_given(
    model: DotsOcrAdapter, pages: list[PreparedPage]
) -> None:
    with Engine(model, POLICIES[0], max_batch=1, limits=EngineLimits(max_output_tokens=4)) as engine:
        (own,) = engine.read(pages[:1])
        (same,) = engine.read(pages[:1], prompts.LAYOUT_ALL)
        (other,) = engine.read(pages[:1], QUESTION)
    assert own.error is None
    assert own.logprobs == same.logprobs != other.logprobs


def assert_same(one: PageText, other: PageText) -> None:
    assert one.error is None
    assert one.tokens == other.tokens
    assert one.logprobs == other.logprobs
    assert one.finish_reason == other.finish_reason


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_alone_in_a_batch_and_joining_late(
    model: DotsOcrAdapter, pages: list[PreparedPage], policy: DecodePolicy
) -> None:
    with Engine(model, policy, max_batch=8, limits=LIMITS) as engine:
        together = list(engine.read(pages, QUESTION))
        for page, expected in zip(pages, together, strict=True):
            (alone,) = engine.read([page], QUESTION)
            assert_same(alone, expected)
        before = engine.steps
        early = [engine.submit(page, QUESTION) for page in pages[:5]]
        while engine.steps < before + 5:
            time.sleep(0.001)
        assert_same(engine.submit(pages[6], QUESTION).result(), together[6])
        for future, expected in zip(early, together, strict=False):
            assert_same(future.result(), expected)
