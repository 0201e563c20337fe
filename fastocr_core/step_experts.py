"""Experts of a decode step, computed so that no token's numbers depend on its neighbours.

The usual ways gather the tokens of each expert into one product, whose shape, and with it the rounding, then
depends on where the other pages' tokens go. Here the shapes follow from the number of slots alone. Prompts keep
the usual way: a page's prompt runs without company.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

EXPERTS_NAME = "fastocr_step"
# Weights picked out by token are read, written and read again; all weights are read once.
_COPY_COST = 3


def step_experts(module: Any, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """`hidden` [tokens, width] through the experts `chosen` int64 [tokens, each], weighted by `weights`
    [tokens, each]: [tokens, width], summed in fp32.

    Few tokens take their experts' weights with them; many go through all experts, what was not chosen being
    dropped.
    """
    tokens, each = chosen.shape
    experts = module.gate_up_proj.shape[0]
    if tokens * each * _COPY_COST <= experts:
        picked = chosen.flatten()
        rows = hidden.repeat_interleave(each, dim=0)[:, :, None]  # [tokens * each, width, 1]
        inner = module._apply_gate(torch.bmm(module.gate_up_proj[picked], rows)[:, :, 0])
        outer = torch.bmm(module.down_proj[picked], inner[:, :, None]).view(tokens, each, -1)
        total = (outer.float() * weights[:, :, None].float()).sum(1)
    else:
        spread = hidden.expand(experts, *hidden.shape)
        inner = module._apply_gate(torch.bmm(spread, module.gate_up_proj.transpose(1, 2)))
        outer = torch.bmm(inner, module.down_proj.transpose(1, 2))  # [experts, tokens, width]
        share = torch.zeros(tokens, experts, device=hidden.device).scatter(1, chosen, weights.float())
        taken = torch.zeros_like(share, dtype=torch.bool).scatter(1, chosen, value=True)
        weighted = outer.float() * share.t()[:, :, None]
        total = weighted.masked_fill(~taken.t()[:, :, None], 0.0).sum(0)
    return total.to(hidden.dtype)


class StepExperts:
    """Switches the experts of a transformers decoder over for the length of a step; idle without experts."""

    def __init__(self, decoder: nn.Module) -> None:
        configs: list[Any] = [module.config for module in decoder.modules() if _is_plain_experts(module)]
        self._configs = list({id(config): config for config in configs}.values())
        if self._configs:
            from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

            ALL_EXPERTS_FUNCTIONS.register(EXPERTS_NAME, step_experts)

    @contextmanager
    def in_step(self) -> Iterator[None]:
        """Within, experts are computed by `step_experts`."""
        before = [config._experts_implementation for config in self._configs]
        for config in self._configs:
            config._experts_implementation = EXPERTS_NAME
        try:
            yield
        finally:
            for config, implementation in zip(self._configs, before, strict=True):
                config._experts_implementation = implementation


def _is_plain_experts(module: Any) -> bool:
    """Experts of transformers without biases and norms, all on this machine, weights as in a linear layer."""
    return (
        hasattr(getattr(module, "config", None), "_experts_implementation")
        and hasattr(module, "_apply_gate")
        and getattr(module, "has_gate", False)
        and not module.has_bias
        and not module.is_transposed
        and not getattr(module, "has_post_expert_norm", False)
        and not getattr(module, "_is_expert_parallel", False)
    )
