"""The dense engine against the greedy generate of transformers, the text window against an explicit mask."""

import pytest
import torch
from torch import Tensor

from fastocr_core import DecodePolicy, Engine
from fastocr_core.vision.prepared import PreparedPage
from tests.parity.random_model import RandomAdapter, page_of

PAGES = [page_of(tokens, seed) for seed, tokens in enumerate((90, 17, 150, 1))]


def embedded(model: RandomAdapter, ids: tuple[int, ...]) -> Tensor:
    """[len(ids), hidden]"""
    return torch.nn.functional.embedding(torch.tensor(ids), model.causal.get_input_embeddings().weight)


def prompt_embeddings(model: RandomAdapter, page: PreparedPage) -> Tensor:
    """[1, T, hidden], built by hand: two tokens, the image, three tokens."""
    layout = model.layout(page, None)
    text = model.embed(torch.tensor(layout.ids), layout.positions)
    return torch.cat((text[:2], model.encode(page), text[2:]))[None]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.image_tokens))
@torch.inference_mode()
def test_dense_tokens_equal_generate_up_to_the_first_tie(page: PreparedPage) -> None:
    model = RandomAdapter()
    with Engine(model, DecodePolicy.dense(), max_batch=3) as engine:
        (ours,) = engine.read([page])
    oracle = RandomAdapter().causal  # untouched by the engine: the default attention of transformers
    generated = oracle.generate(
        inputs_embeds=prompt_embeddings(model, page),
        attention_mask=torch.ones(1, page.image_tokens + 5, dtype=torch.long),
        max_new_tokens=model.max_output_tokens,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
    )
    compared = 0
    for token, theirs, logits in zip(
        ours.tokens, generated.sequences[0].tolist(), generated.logits, strict=True
    ):
        top = logits[0].topk(2).values
        if float(top[0] - top[1]) < 1e-4:
            break
        assert token == theirs
        compared += 1
    assert compared >= 20


@pytest.mark.parametrize("window", [1, 6, 200])
@torch.inference_mode()
def test_text_window_equals_explicit_mask(window: int) -> None:
    page = PAGES[1]
    model = RandomAdapter(text_window=window)
    with Engine(model, DecodePolicy.dense(), max_batch=2) as engine:
        (ours,) = engine.read([page])
    oracle = RandomAdapter().causal
    prompt = prompt_embeddings(model, page)
    tokens = torch.tensor(ours.tokens[:-1])
    outputs = model.embed(tokens, tokens[None])[None]
    prompt_length, length = prompt.shape[1], prompt.shape[1] + outputs.shape[1]
    query, key = torch.arange(length)[:, None], torch.arange(length)[None]
    visible = (key <= query) & ((key < prompt_length) | (key > query - window))
    logits = oracle(
        inputs_embeds=torch.cat((prompt, outputs), 1), attention_mask=visible[None, None], use_cache=False
    ).logits[0, prompt_length - 1 :]
    expected = logits.log_softmax(-1).max(-1)
    assert list(ours.tokens) == expected.indices.tolist()
    assert ours.logprobs == pytest.approx(expected.values.tolist(), abs=1e-4)
