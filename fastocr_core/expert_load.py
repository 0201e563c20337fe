"""How evenly a mixture-of-experts decoder uses its experts, counted at its routers.

Tells whether a decode step at some batch size reads all expert weights or few, which decides what sparse
attention can save on such models.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class RouterLoad:
    """One router: `tokens` by expert (a token counts once for each expert it goes to), `calls` of the router,
    and `experts_hit`, the mean number of different experts in a call.
    """

    name: str
    tokens: tuple[int, ...]
    calls: int
    experts_hit: float

    @property
    def imbalance(self) -> float:
        """Tokens of the busiest expert per token of the mean one; 1.0 is even, 0.0 nothing seen."""
        total = sum(self.tokens)
        return max(self.tokens) * len(self.tokens) / total if total else 0.0


class ExpertLoad:
    """Counts while it is open: `with ExpertLoad(adapter.decoder) as load: ...; load.routers()`.

    Counts every token that runs through the decoder, prompts, steps and the dummy tokens of empty slots.
    ValueError for a decoder without routers. A router is a module with `num_experts` and `top_k` whose output
    ends with the chosen experts, as in transformers.
    """

    def __init__(self, decoder: nn.Module) -> None:
        self._routers = {
            name: module
            for name, module in decoder.named_modules()
            if hasattr(module, "num_experts") and hasattr(module, "top_k")
        }
        if not self._routers:
            raise ValueError(f"{type(decoder).__name__} has no experts")
        # By router: tokens by expert, and the sum of experts hit; on the router's device, so that no step waits.
        self._tokens: dict[str, Tensor] = {}
        self._hits: dict[str, Tensor] = {}
        self._calls = dict.fromkeys(self._routers, 0)
        self._hooks: list[Any] = []

    def __enter__(self) -> "ExpertLoad":
        for name, module in self._routers.items():

            def count(module: nn.Module, inputs: Any, output: Any, name: str = name) -> None:
                self._count(name, output[-1], int(module.num_experts))  # type: ignore[arg-type]

            self._hooks.append(module.register_forward_hook(count))
        return self

    def __exit__(self, *exception: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def routers(self) -> tuple[RouterLoad, ...]:
        """What was counted so far, in the order of the layers."""
        return tuple(
            RouterLoad(
                name,
                tuple(self._tokens[name].tolist()),
                calls,
                float(self._hits[name]) / calls,
            )
            for name, calls in self._calls.items()
            if calls
        )

    def _count(self, name: str, chosen: Tensor, experts: int) -> None:
        """`chosen` int64 [tokens, experts per token]"""
        tokens = torch.bincount(chosen.flatten(), minlength=experts)
        self._calls[name] += 1
        hit = (tokens > 0).sum()
        self._tokens[name] = self._tokens[name] + tokens if name in self._tokens else tokens
        self._hits[name] = self._hits[name] + hit if name in self._hits else hit
