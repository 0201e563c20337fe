"""How the routed experts are computed: row by row in the decode steps of a CPU, grouped otherwise.

Grouped products have as many rows as tokens that chose an expert, so the last bits of a page's numbers would
depend on which pages are decoded beside it. Row by row they do not, and at the batch sizes of a CPU this
reads hardly more weights: 8 tokens with 6 of 64 experts each choose about 35 different ones.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers.integrations.moe import ExpertsInterface, grouped_mm_experts_forward

EXPERTS_NAME = "fastocr_rows"
MOST_SINGLE_ROWS = 32


def rowwise_experts(
    module: nn.Module, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor
) -> Tensor:
    """Weighted sum of the chosen experts: [tokens, hidden] with [tokens, k] choices and weights."""
    if hidden_states.device.type != "cpu" or len(hidden_states) > MOST_SINGLE_ROWS:
        grouped: Tensor = grouped_mm_experts_forward(module, hidden_states, top_k_index, top_k_weights)
        return grouped
    experts: Any = module
    rows = []
    for row, chosen, weights in zip(
        hidden_states.unbind(0), top_k_index.tolist(), top_k_weights.unbind(0), strict=True
    ):
        outputs = []
        for number in chosen:
            gate, up = nn.functional.linear(row[None], experts.gate_up_proj[number]).chunk(2, dim=-1)
            outputs.append(nn.functional.linear(experts.act_fn(gate) * up, experts.down_proj[number]))
        rows.append((torch.cat(outputs) * weights[:, None]).sum(0, keepdim=True))  # [1, hidden], float32
    return torch.cat(rows).to(hidden_states.dtype)


def use_rowwise_experts(model: nn.Module) -> None:
    """Let every expert layer of a transformers model call `rowwise_experts`."""
    ExpertsInterface.register(EXPERTS_NAME, rowwise_experts)
    choose: Any = model.set_experts_implementation
    choose(EXPERTS_NAME)
