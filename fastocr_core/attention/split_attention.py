"""Split-K decode attention on tensors: what lies on the device, how the work is split, and the two launches.

All shapes are fixed and every length is read on the device, so a call can be captured in a CUDA graph and
never waits for the host. Import needs triton.
"""

import math
from dataclasses import dataclass
from functools import partial

import torch
import triton
from torch import Tensor

from fastocr_core.attention.triton_kernels import attend_split, merge_splits

LOG2_E = math.log2(math.e)
_ROWS_PER_BLOCK = 64
_MOST_SPLITS = 64
_KINDS = {"none": 0, "heads": 1, "group": 2}


@dataclass(frozen=True, slots=True, eq=False)
class CachedRows:
    """Keys and values of one layer, [slots, kv_heads, capacity, head_dim] with contiguous rows, and int32
    [slots] how many of them count.
    """

    image_keys: Tensor
    image_values: Tensor
    text_keys: Tensor
    text_values: Tensor
    image_rows: Tensor
    text_rows: Tensor

    def tensors(self) -> tuple[Tensor, ...]:
        """All six, in order."""
        keys_and_values = (self.image_keys, self.image_values, self.text_keys, self.text_values)
        return (*keys_and_values, self.image_rows, self.text_rows)


@dataclass(frozen=True, slots=True, eq=False)
class RowSets:
    """Image rows that each slot looks at: `rows` int32 [slots, kv_heads, set capacity], of which the first
    `kept` (int32 [slots]) count; below zero the slot looks at everything.
    """

    rows: Tensor
    kept: Tensor


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """Into how many programs the rows of one KV head are split, image and text."""

    image_splits: int
    text_splits: int

    @property
    def splits(self) -> int:
        """All of them."""
        return self.image_splits + self.text_splits


@dataclass(frozen=True, slots=True, eq=False)
class Attended:
    """`output` [slots, query_heads, head_dim]; `normaliser` fp32 [slots, query_heads]: base-2 log-sum-exp over
    image and text; `scores` base-2 image scores where asked for, meaningless past a slot's rows.
    """

    output: Tensor
    normaliser: Tensor
    scores: Tensor | None


def plan_splits(slots: int, kv_heads: int, image_rows: int, text_rows: int, processors: int) -> SplitPlan:
    """Enough programs for two waves over so many processors, none with less than a block of rows.

    `image_rows` and `text_rows` are the most that a slot reads. It must not depend on what is in the slots:
    a page's sums are cut the same way whoever it is batched with.
    """
    wanted = max(2, math.ceil(2 * processors / (slots * kv_heads)))
    rows = max(1, image_rows + text_rows)

    def part(own: int) -> int:
        most = min(_MOST_SPLITS, max(1, math.ceil(own / _ROWS_PER_BLOCK)))
        return max(1, min(most, round(wanted * own / rows)))

    return SplitPlan(part(image_rows), part(text_rows))


def split_attention(
    query: Tensor,
    scaling: float,
    cached: CachedRows,
    sets: RowSets,
    plan: SplitPlan,
    scores: str = "none",
    shift: Tensor | None = None,
) -> Attended:
    """One new token per slot: `query` [slots, query_heads, head_dim], rotated, not scaled.

    `scores`: `none`; `heads`: fp32 [slots, query_heads, image capacity], by place in the set where there is
    one; `group`: fp32 [slots, kv_heads, image capacity], the maximum over a group of (score - `shift`), with
    `shift` fp32 [slots, query_heads]. With the normaliser as `shift` that is the base-2 logarithm of the
    largest probability in the group. This step's normaliser is known only at its end, so a decoder passes
    the one of the step before and saves writing the scores of every head.
    """
    slots, query_heads, head_dim = query.shape
    kv_heads, image_capacity = cached.image_keys.shape[1:3]
    group, splits, kind = query_heads // kv_heads, plan.splits, _KINDS[scores]
    if kind == 2 and shift is None:
        raise ValueError("group scores need the heads' normalisers as shift")
    room = partial(torch.empty, device=query.device, dtype=torch.float32)
    per_split = (slots, query_heads, splits)
    parts = (room((*per_split, head_dim)), room(per_split), room(per_split))
    output = torch.empty_like(query, memory_format=torch.contiguous_format)
    normaliser = room((slots, query_heads))
    rows = kv_heads if kind == 2 else query_heads
    written = room((slots, rows, image_capacity)) if kind else normaliser
    attend_split[(slots, kv_heads, splits)](
        query.contiguous(),
        *cached.tensors(),
        sets.kept,
        sets.rows,
        normaliser if shift is None else shift,
        *parts,
        written,
        scaling * LOG2_E,
        *cached.image_keys.stride()[:2],
        *cached.text_keys.stride()[:2],
        head_dim,
        sets.rows.shape[2],
        image_capacity,
        plan.image_splits,
        splits,
        **_tiles(group, head_dim, kind, query.dtype),
    )
    merge_splits[(slots * query_heads,)](
        *parts,
        output,
        normaliser,
        splits,
        SPLIT_TILE=triton.next_power_of_2(splits),
        HEAD_DIM=head_dim,
        HEAD_TILE=max(16, triton.next_power_of_2(head_dim)),
    )
    return Attended(output, normaliser, written if kind else None)


def needs_cuda() -> bool:
    """Whether the kernels are compiled ones; False in triton's interpreter, which runs anywhere, slowly."""
    return isinstance(attend_split, triton.JITFunction)


def _tiles(group: int, head_dim: int, kind: int, dtype: torch.dtype) -> dict[str, int | bool]:
    """Compile-time arguments; a tile of the tensor cores has at least 16 rows."""
    return {
        "GROUP": group,
        "GROUP_TILE": max(16, triton.next_power_of_2(group)),
        "HEAD_DIM": head_dim,
        "HEAD_TILE": max(16, triton.next_power_of_2(head_dim)),
        "BLOCK": _ROWS_PER_BLOCK,
        "SCORES": kind,
        "WIDEN": not needs_cuda() and dtype.itemsize < 4,
    }
