"""All policies through the engine: backends agree, company and chunks do not matter, everything kept is
dense, text is always seen, and what is reported as read is what was read.
"""

import functools
from dataclasses import replace

import pytest
import torch

from fastocr_core import DecodePolicy, Engine, EngineLimits, PageText
from fastocr_core.attention.base import Selection, Step
from fastocr_core.config import POLICY_VARIANTS
from fastocr_core.decoding import build_policy
from fastocr_core.decoding.budget import budget_report
from fastocr_core.decoding.dense import DensePolicy
from tests.parity.random_model import RandomAdapter, page_of
from tests.support.counted_rows import ReadCounter

PAGES = [page_of(tokens, seed) for seed, tokens in enumerate((90, 17, 1, 64))]
OUTPUTS = 20
BASELINES = [
    DecodePolicy.named(name, kept_share=0.1, variant=variant)
    for name, variants in POLICY_VARIANTS.items()
    for variant in variants or ("",)
    if name not in ("dense", "fastocr") and variant != "attention"
]
PLAIN = DecodePolicy.fastocr(0.1, warmup_steps=3)
OPTIONS = [
    replace(PLAIN, focal="per_page"),
    replace(PLAIN, focal="per_page", focal_count=1, reuse=False),
    replace(PLAIN, dilate=True),
    replace(PLAIN, top_p=0.8),
    replace(PLAIN, dilate=True, top_p=0.8, pooling="layer_mean"),
]


def name_of(policy: DecodePolicy) -> str:
    options = f"{policy.focal}-{policy.dilate}-{policy.top_p}" if policy.name == "fastocr" else ""
    return f"{policy.name}-{policy.chosen_variant}{options}"


@functools.cache
def model() -> RandomAdapter:
    return RandomAdapter()


@functools.cache
def read(
    policy: DecodePolicy, backend: str = "gather", batch: int = 3, chunk: int = 1024
) -> tuple[PageText, ...]:
    limits = EngineLimits(max_output_tokens=OUTPUTS, prefill_chunk=chunk, stop_loops=False)
    with Engine(model(), policy, batch, limits, backend) as engine:
        results = tuple(engine.read(PAGES))
    assert [page.error for page in results] == [None] * len(PAGES)
    return results


@pytest.mark.parametrize("policy", BASELINES + OPTIONS, ids=name_of)
def test_gather_equals_masked_alone_and_in_chunks(policy: DecodePolicy) -> None:
    results = read(policy)
    assert [page.tokens for page in results] != [page.tokens for page in read(DecodePolicy.dense())]
    alone = read(policy, batch=1)
    assert [page.tokens for page in alone] == [page.tokens for page in results]
    assert [page.image_kv_read_share for page in alone] == [page.image_kv_read_share for page in results]
    for other in (read(policy, backend="masked"), read(policy, chunk=13)):
        for fast, reference in zip(results, other, strict=True):
            assert fast.tokens == reference.tokens
            assert fast.logprobs == pytest.approx(reference.logprobs, abs=1e-4)
            assert fast.image_kv_read_share == reference.image_kv_read_share
            assert fast.kv_resident_share == reference.kv_resident_share


@pytest.mark.parametrize("policy", BASELINES + OPTIONS, ids=name_of)
def test_everything_kept_is_dense_token_for_token(policy: DecodePolicy) -> None:
    for kept, dense in zip(
        read(replace(policy, kept_share=1.0, top_p=None)), read(DecodePolicy.dense()), strict=True
    ):
        assert kept.tokens == dense.tokens
        assert kept.logprobs == pytest.approx(dense.logprobs, abs=1e-5)
        assert kept.image_kv_read_share == 1.0


@pytest.mark.parametrize("together", [True, False], ids=["together", "one_by_one"])
@pytest.mark.parametrize("policy", [DecodePolicy.dense(), PLAIN, *BASELINES, *OPTIONS], ids=name_of)
def test_shares_equal_the_rows_counted_at_the_cache(policy: DecodePolicy, together: bool) -> None:
    pages, warmup = PAGES[:3], PLAIN.warmup_steps if policy.name == "fastocr" else 0
    with Engine(model(), policy, 3, EngineLimits(max_output_tokens=8, stop_loops=False)) as engine:
        assert engine._batch is not None
        counter = ReadCounter(engine._batch.cache)
        # One by one, all pages take the same slot; else the pages before are mostly still in theirs.
        results = list(engine.read(pages)) if together else [next(engine.read([page])) for page in pages]
    heads, layers = model().shape.kv_heads, model().shape.layers
    for number, (page, result) in enumerate(zip(pages, results, strict=True)):
        assert result.error is None
        steps = sorted(step for one, step in counter.image if one == number)
        assert steps == list(range(1, 8))  # the first token came from the prompt
        counted = [step for step in steps if step > warmup]
        # Keys and values both count.
        rows = sum(counter.image[number, step] for step in counted)
        cached = 2 * layers * heads * page.image_tokens * len(counted)
        assert result.image_kv_read_share == pytest.approx(rows / cached, abs=1e-12)
        for step in steps:
            assert counter.text[number, step] == 2 * layers * heads * (5 + step)  # five prompt tokens


def test_fastv_equals_dropping_the_rows_in_the_prompt() -> None:
    """The published in-place variant, run naively on the layers of transformers' own adapter."""
    policy = DecodePolicy.named("fastv", kept_share=0.2, prune_layer=2)
    result = read(policy)[0]
    adapter, page = model(), PAGES[0]
    # The decoder's attention is ours since it has been in an engine, and plain without our cache.
    ids = adapter.layout(page, None).ids
    text = adapter.embed(torch.tensor(ids), torch.empty(0))
    hidden = torch.cat((text[:2], adapter.encode(page), text[2:]))[None]
    positions = torch.arange(hidden.shape[1])[None]
    maps: list[torch.Tensor] = []

    def note_query_and_key(module: torch.nn.Module, args: tuple, kwargs: dict) -> None:
        states, (cos, sin) = kwargs["hidden_states"], kwargs["position_embeddings"]
        heads = []
        for projection, count in ((module.q_proj, 4), (module.k_proj, 2)):
            each = projection(states).view(1, -1, count, 16).transpose(1, 2)
            turned = torch.cat((-each[..., 8:], each[..., :8]), -1)
            heads.append(each * cos[:, None] + turned * sin[:, None])
        query, key = heads[0], heads[1].repeat_interleave(2, 1)
        maps.append((query[:, :, -1:] @ key.transpose(2, 3) * 16**-0.5).softmax(-1)[0, :, 0])

    with torch.inference_mode():
        for index, layer in enumerate(adapter.decoder.layers):
            if index == 2:
                image = maps[-1].mean(0)[2 : 2 + page.image_tokens]
                kept = 2 + image.topk(18).indices.sort().values
                rows = torch.cat((torch.arange(2), kept, torch.arange(92, 95)))
                hidden, positions = hidden[:, rows], positions[:, rows]
            rotary = adapter.decoder.rotary_emb(hidden, positions)
            hook = layer.self_attn.register_forward_pre_hook(note_query_and_key, with_kwargs=True)
            hidden = layer(hidden, position_ids=positions, position_embeddings=rotary)
            hook.remove()
        logprobs = adapter.logits(adapter.decoder.norm(hidden[:, -1])).log_softmax(-1)[0]
    assert int(logprobs.argmax()) == result.tokens[0]
    assert float(logprobs.max()) == pytest.approx(result.logprobs[0], abs=1e-4)
    assert read(DecodePolicy.dense())[0].logprobs[0] != pytest.approx(result.logprobs[0], abs=1e-3)


def test_a_page_that_a_policy_does_not_apply_to_is_an_error_result() -> None:
    with Engine(model(), DecodePolicy.named("visionzip"), 2) as engine:
        (result,) = engine.read(PAGES[:1])
    assert result.finish_reason == "error"
    assert result.error is not None
    assert "visionzip does not apply to random" in result.error


def test_the_gaze_of_a_sparse_slot_is_the_mean_index_of_what_it_sees() -> None:

    class Sparse(DensePolicy):
        def selection(self, layer: int) -> Selection:
            return Selection((torch.tensor([[3, 7], [10, 20]]),))

    step = Step((0,), Sparse(1), {}, frozenset({0}), 2)
    step.emit(2, 0, torch.tensor([[[0.1, 0.3]], [[0.4, 0.0]]]))
    assert step.gaze[0] == pytest.approx((0.3 + 2.1 + 4.0) / 0.8)


def test_budget_report_adds_up() -> None:
    adapter = model()
    policy = DecodePolicy.named("snapkv", kept_share=0.1)
    results = read(policy)
    report = budget_report(build_policy(policy, adapter, 1), adapter.shape, 4, results)
    tokens = [90, 17, 1, 64]
    kept = [9, 4, 1, 7]  # a tenth, at least the floor of 4
    assert report.pages == 4
    assert report.image_tokens == pytest.approx(sum(tokens) / 4)
    assert report.kept_tokens_per_layer == pytest.approx(sum(kept) / 4)
    row = 2 * 5 * 2 * 16 * 4  # keys and values, 5 layers, 2 kv heads of 16, 4 bytes
    assert report.kv_bytes_read_per_step == pytest.approx(row * sum(kept) / 4)
    assert report.kv_bytes_resident == report.kv_bytes_read_per_step
    assert report.kv_bytes_full == pytest.approx(row * sum(tokens) / 4)
    assert report.extra_bytes == pytest.approx(2 * 5 * 8 * sum(kept) / 4)
    fixation = budget_report(build_policy(PLAIN, adapter, 1), adapter.shape, 4, read(PLAIN))
    assert fixation.kv_resident_share == 1.0
    assert fixation.image_kv_read_share < 0.5
    with pytest.raises(ValueError, match="no page was read"):
        budget_report(build_policy(policy, adapter, 1), adapter.shape, 4, [])
