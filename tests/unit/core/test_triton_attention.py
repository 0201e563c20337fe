"""The Triton kernels in triton's interpreter: normaliser, scores, sets in any order, many splits; and that
they compile for GPUs that are not here.
"""

import subprocess
import sys

import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed: its kernels are not tested")

from fastocr_core.attention import attention_backend, triton_gather
from fastocr_core.attention.base import Step
from fastocr_core.attention.split_attention import (
    LOG2_E,
    CachedRows,
    RowSets,
    SplitPlan,
    needs_cuda,
    plan_splits,
    split_attention,
)
from fastocr_core.decoding.dense import DensePolicy

KV_HEADS, GROUP, HEAD_DIM, IMAGE, TEXT = 2, 3, 24, 150, 90
SCALING = 0.3
IMAGE_ROWS, TEXT_ROWS, KEPT = (IMAGE, 33, 0), (TEXT, 7, 0), (-1, 9, -1)


def made(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, CachedRows, RowSets]:
    """Three slots: one that looks at everything, one with a set in no order, one that is empty."""
    torch.manual_seed(5)
    stores = [torch.randn(3, KV_HEADS, rows, HEAD_DIM).to(dtype) for rows in (IMAGE, IMAGE, TEXT, TEXT)]
    lengths = torch.tensor([IMAGE_ROWS, TEXT_ROWS], dtype=torch.int32)
    rows = torch.full((3, KV_HEADS, 40), 10**6, dtype=torch.int32)  # what is past the set must not be read
    for head in range(KV_HEADS):
        rows[1, head, : KEPT[1]] = torch.randperm(IMAGE_ROWS[1])[: KEPT[1]]
    sets = RowSets(rows, torch.tensor(KEPT, dtype=torch.int32))
    query = torch.randn(3, KV_HEADS * GROUP, HEAD_DIM).to(dtype)
    return query, CachedRows(*stores, lengths[0], lengths[1]), sets


def seen_rows(slot: int, kv_head: int, sets: RowSets) -> torch.Tensor:
    kept = int(sets.kept[slot])
    return torch.arange(IMAGE_ROWS[slot]) if kept < 0 else sets.rows[slot, kv_head, :kept].long()


def oracle(
    slot: int, head: int, query: torch.Tensor, cached: CachedRows, sets: RowSets
) -> tuple[torch.Tensor, torch.Tensor]:
    """In double precision: output [HEAD_DIM] and base-2 scores over image rows seen, then text rows."""
    kv_head = head // GROUP
    rows = seen_rows(slot, kv_head, sets)
    image, text = (slot, kv_head, rows), (slot, kv_head, slice(TEXT_ROWS[slot]))
    keys = torch.cat((cached.image_keys[image], cached.text_keys[text])).double()
    values = torch.cat((cached.image_values[image], cached.text_values[text])).double()
    scores = keys @ query[slot, head].double() * SCALING
    return scores.softmax(0) @ values, scores * LOG2_E


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("plan", [SplitPlan(1, 1), SplitPlan(3, 2), SplitPlan(7, 4)], ids=str)
def test_output_normaliser_and_scores_of_every_head(plan: SplitPlan, dtype: torch.dtype) -> None:
    query, cached, sets = made(dtype)
    attended = split_attention(query, SCALING, cached, sets, plan, scores="heads")
    assert attended.scores is not None
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-2, "atol": 2e-2}
    for slot in (0, 1):
        for head in range(KV_HEADS * GROUP):
            output, scores = oracle(slot, head, query, cached, sets)
            rows = len(seen_rows(slot, head // GROUP, sets))
            torch.testing.assert_close(attended.output[slot, head].double(), output, **close)
            expected = torch.logsumexp(scores / LOG2_E, 0) * LOG2_E
            torch.testing.assert_close(attended.normaliser[slot, head].double(), expected, **close)
            written = attended.scores[slot, head, :rows].double()
            torch.testing.assert_close(written, scores[:rows], **close)
    assert not attended.output[2].any()
    assert torch.isneginf(attended.normaliser[2]).all()


def test_group_scores_are_the_largest_probability_of_the_group() -> None:
    query, cached, sets = made()
    plan = SplitPlan(3, 2)
    normaliser = split_attention(query, SCALING, cached, sets, plan).normaliser
    attended = split_attention(query, SCALING, cached, sets, plan, scores="group", shift=normaliser)
    assert attended.scores is not None
    assert attended.scores.shape == (3, KV_HEADS, IMAGE)
    for kv_head in range(KV_HEADS):
        heads = range(kv_head * GROUP, (kv_head + 1) * GROUP)
        scores = [oracle(0, head, query, cached, sets)[1] / LOG2_E for head in heads]
        largest = torch.stack([score.softmax(0)[:IMAGE] for score in scores]).amax(0)
        written = attended.scores[0, kv_head].exp2().double()
        torch.testing.assert_close(written, largest, rtol=1e-4, atol=1e-7)
    with pytest.raises(ValueError, match="normalisers"):
        split_attention(query, SCALING, cached, sets, plan, scores="group")


def test_a_set_of_everything_is_bit_for_bit_everything() -> None:
    query, cached, _ = made()
    everything = torch.arange(IMAGE, dtype=torch.int32).expand(3, KV_HEADS, IMAGE).contiguous()
    listed = RowSets(everything, torch.tensor(IMAGE_ROWS, dtype=torch.int32))
    unlisted = RowSets(everything, torch.full((3,), -1, dtype=torch.int32))
    results = [split_attention(query, SCALING, cached, sets, SplitPlan(3, 2)) for sets in (listed, unlisted)]
    assert torch.equal(results[0].output, results[1].output)
    assert torch.equal(results[0].normaliser, results[1].normaliser)


def test_splits_fill_the_processors_and_are_never_smaller_than_a_block() -> None:
    for slots, kv_heads, image, text in (
        (1, 4, 4900, 1000),
        (128, 4, 4900, 1000),
        (8, 10, 900, 1000),
        (1, 1, 0, 5),
    ):
        plan = plan_splits(slots, kv_heads, image, text, 132)
        assert 1 <= plan.image_splits <= max(1, -(-image // 64))
        assert 1 <= plan.text_splits <= max(1, -(-text // 64))
        programs = slots * kv_heads * plan.splits
        assert programs >= 132 or plan.image_splits == min(64, -(-image // 64)) or image == 0


def test_without_triton_or_a_gpu_the_backend_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = attention_backend("triton")
    monkeypatch.setattr(triton_gather.split, "needs_cuda", lambda: True)
    step = Step((), DensePolicy(1), {})
    with pytest.raises(RuntimeError, match="needs a CUDA device"):
        backend.attend(0, torch.zeros(1, 2, 1, 4), 1.0, None, step)  # type: ignore[arg-type]
    monkeypatch.setattr(triton_gather, "split", None)
    with pytest.raises(RuntimeError, match="needs the package triton"):
        attention_backend("triton")
    with pytest.raises(ValueError, match="known: gather, together, triton, masked"):
        attention_backend("nonsense")


COMPILE = """
import sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile as compiled
from fastocr_core.attention.triton_kernels import attend_split, merge_splits

HALF = ("query", "image_keys", "image_values", "text_keys", "text_values", "output")
INTEGERS = ("image_rows", "text_rows", "kept_rows", "sets")

def size(kernel, fixed):
    names = kernel.arg_names
    types = {name: "*bf16" if name in HALF else "*i32" if name in INTEGERS else "*fp32" for name in names}
    types |= {name: "i32" for name in names if name.endswith(("_stride", "_capacity", "splits"))} | {"scale": "fp32"}
    types = {name: "constexpr" if name in fixed else types[name] for name in names}
    constants = {(names.index(name),): value for name, value in fixed.items()}
    source = ASTSource(kernel, types, constants)
    return len(compiled(source, target=GPUTarget("cuda", int(sys.argv[1]), 32)).asm["cubin"])

tile = {"HEAD_DIM": 128, "HEAD_TILE": 128}
split = {"GROUP": 7, "GROUP_TILE": 16, "BLOCK": 64, "WIDEN": False}
for scores in (0, 1, 2):
    assert size(attend_split, tile | split | {"SCORES": scores}) > 1000
assert size(merge_splits, tile | {"SPLIT_TILE": 16}) > 1000
print("compiled")
"""


@pytest.mark.slow
@pytest.mark.parametrize("compute_capability", ["90"])
def test_kernels_compile_to_machine_code_without_a_gpu(
    compute_capability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not needs_cuda(), "in the tests the kernels are interpreted"
    monkeypatch.delenv("TRITON_INTERPRET")
    command = [sys.executable, "-W", "ignore", "-c", COMPILE, compute_capability]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "compiled\n", done.stderr
