"""A mixture-of-experts decoder in the engine: company changes nothing, and its load is counted."""

import pytest
import torch
from transformers import UnlimitedOcrTextConfig
from transformers.models.unlimited_ocr.modeling_unlimited_ocr import UnlimitedOcrTextExperts

from fastocr_core import DecodePolicy, Engine, EngineLimits
from fastocr_core.expert_load import ExpertLoad
from fastocr_core.step_experts import EXPERTS_NAME, StepExperts, step_experts
from tests.parity.random_model import RandomAdapter
from tests.support.queued import read_at_once
from tests.support.small_generators import SamePrompt, unlimited

POLICIES = [DecodePolicy.dense(), DecodePolicy.fastocr(0.25, floor=1, warmup_steps=4)]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@torch.inference_mode()
def test_alone_and_in_a_batch(policy: DecodePolicy) -> None:
    model = SamePrompt(unlimited(rows=4), (1, 2), 40)
    with Engine(model, policy, 5, EngineLimits(prefill_chunk=32)) as engine:
        together = list(engine.read(model.page_of_row(row) for row in range(4)))
        assert len({page.tokens for page in together}) == 4
        for row, expected in enumerate(together):
            (alone,) = engine.read([model.page_of_row(row)])
            assert alone.tokens == expected.tokens
            assert torch.equal(torch.tensor(alone.logprobs), torch.tensor(expected.logprobs))


@pytest.mark.parametrize(("tokens", "experts"), [(2, 16), (9, 16), (1, 4), (5, 4)])
def test_a_step_through_the_experts_is_the_weighted_sum(tokens: int, experts: int) -> None:
    torch.manual_seed(tokens)
    config = UnlimitedOcrTextConfig(
        hidden_size=24, num_attention_heads=2, moe_intermediate_size=10, n_routed_experts=experts
    )
    module = UnlimitedOcrTextExperts(config)
    for parameter in module.parameters():
        parameter.data.normal_()
    hidden = torch.randn(tokens, 24)
    chosen = torch.rand(tokens, experts).topk(2).indices
    weights = torch.rand(tokens, 2)
    with torch.inference_mode():
        result = step_experts(module, hidden, chosen, weights)
        expected = torch.zeros(tokens, 24)
        for token in range(tokens):
            for expert, weight in zip(chosen[token].tolist(), weights[token], strict=True):
                gate, up = (module.gate_up_proj[expert] @ hidden[token]).chunk(2)
                inner = torch.nn.functional.silu(gate) * up
                expected[token] += weight * (module.down_proj[expert] @ inner)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
        other = torch.cat((hidden[:1], torch.randn(tokens - 1, 24) * 9))
        moved = torch.cat((chosen[:1], torch.rand(tokens - 1, experts).topk(2).indices))
        assert torch.equal(step_experts(module, other, moved, weights)[0], result[0])


def test_the_models_own_way_comes_back_after_a_step() -> None:
    model = SamePrompt(unlimited(), (1, 2), 4)
    config = model.decoder.config  # type: ignore[union-attr]
    before = config._experts_implementation  # type: ignore[union-attr]
    experts = StepExperts(model.decoder)

    def broken_step() -> None:
        with experts.in_step():
            assert config._experts_implementation == EXPERTS_NAME != before  # type: ignore[union-attr]
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        broken_step()
    assert config._experts_implementation == before  # type: ignore[union-attr]


def test_load_is_counted_at_the_routers() -> None:
    model = SamePrompt(unlimited(rows=2), (1, 2), 20)
    chosen: list[torch.Tensor] = []
    router = model.decoder.layers[2].mlp.gate  # type: ignore[index, union-attr]
    hook = router.register_forward_hook(lambda module, inputs, output: chosen.append(output[2]))  # type: ignore[union-attr]
    with Engine(model, max_batch=2) as engine, ExpertLoad(model.decoder) as load:
        read_at_once(engine, [model.page_of_row(row) for row in (0, 1)])
    hook.remove()  # type: ignore[union-attr]
    routers = load.routers()
    assert [router.name for router in routers] == [
        "layers.1.mlp.gate",
        "layers.2.mlp.gate",
        "layers.3.mlp.gate",
    ]
    seen = routers[1]
    everything = torch.cat([each.flatten() for each in chosen]).tolist()
    assert seen.tokens == tuple(everything.count(expert) for expert in range(4))
    assert seen.calls == len(chosen) == 2 + 19
    assert seen.experts_hit == pytest.approx(sum(len(each.unique()) for each in chosen) / len(chosen))
    assert seen.imbalance == max(seen.tokens) * 4 / len(everything)
    before = seen.tokens
    with Engine(model, max_batch=2) as engine:
        list(engine.read([model.page_of_row(0)]))
    assert load.routers()[1].tokens == before, "nothing is counted once it is closed"
    with pytest.raises(ValueError, match="no experts"):
        ExpertLoad(RandomAdapter().decoder)
