"""Triton kernels: split-K attention of one new token per slot over image and text rows, and the merge.

Nothing is copied: the image rows of a slot's set are gathered inside the kernel, row by row. Everything that
changes from step to step (lengths, sets) lies on the device, so that a CUDA graph can hold a launch. Scores
are in base 2 (logits times log2 e). Import needs triton; `triton_gather` calls these.
"""

# ruff: noqa: N803 - compile-time arguments are written in capitals
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="no-untyped-def,misc"

import triton
import triton.language as tl


@triton.jit
def _share_of_split(rows, split, splits, BLOCK: tl.constexpr):
    """Begin and end of one split's rows: equal shares in whole blocks, empty for the last splits of few rows."""
    share = tl.cdiv(tl.cdiv(rows, splits), BLOCK) * BLOCK
    begin = split * share
    return begin, tl.minimum(begin + share, rows)


@triton.jit
def _write_scores(scores, score, shift, heads, kv_row, real, place, end, capacity, SCORES: tl.constexpr):
    """Scores [GROUP_TILE, BLOCK] of the rows at `place` below `end`: of every head, or the group's maximum."""
    if SCORES == 1:
        target = scores + heads[:, None] * capacity + place[None, :]
        tl.store(target, score, mask=real[:, None] & (place < end)[None, :])
    else:
        moved = tl.load(shift + heads, mask=real, other=0.0)
        best = tl.max(tl.where(real[:, None], score - moved[:, None], float("-inf")), 0)
        tl.store(scores + kv_row * capacity + place, best, mask=place < end)


# Arguments: query [slots, kv_heads * GROUP, HEAD_DIM]; keys and values [slots, kv_heads, capacity, HEAD_DIM],
# image and text with strides of their own; int32 [slots] image_rows (cached), text_rows (visible), kept_rows
# (length of the slot's set; below zero: no set, everything); int32 sets [slots, kv_heads, set capacity];
# fp32 shift [slots, query_heads], read where SCORES is 2. Results, all fp32: partial_output [slots,
# query_heads, splits, HEAD_DIM], not normalised; partial_top and partial_sum [slots, query_heads, splits];
# scores [slots, query_heads (SCORES 1) or kv_heads (SCORES 2), score capacity]. `scale`: times log2 e.
# fmt: off
@triton.jit(do_not_specialize=["image_splits", "splits"])
def attend_split(
    query, image_keys, image_values, text_keys, text_values, image_rows, text_rows, kept_rows, sets, shift,
    partial_output, partial_top, partial_sum, scores, scale,
    image_slot_stride, image_head_stride, text_slot_stride, text_head_stride, row_stride,
    set_capacity, score_capacity, image_splits, splits,
    GROUP: tl.constexpr, GROUP_TILE: tl.constexpr, HEAD_DIM: tl.constexpr, HEAD_TILE: tl.constexpr,
    BLOCK: tl.constexpr, SCORES: tl.constexpr, WIDEN: tl.constexpr,
):
    """Grid (slots, kv_heads, splits): one split of one KV head's rows for the whole group of query heads.

    Splits below `image_splits` share the image rows (or the set), the others the text rows; a slot's splits
    follow from its own lengths alone. SCORES: 0 none; 1 of every head; 2 per KV head the maximum over the
    group of (score - shift). WIDEN computes in fp32: the interpreter's dot knows no bf16.
    """
    slot, kv_head, split = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64), tl.program_id(2)
    kv_row = slot * tl.num_programs(1) + kv_head  # row of [slots, kv_heads]
    kept, cached = tl.load(kept_rows + slot), tl.load(image_rows + slot)
    if split < image_splits:
        base = slot * image_slot_stride + kv_head * image_head_stride
        key_base, value_base = image_keys + base, image_values + base
        rows = tl.where(kept >= 0, tl.minimum(kept, cached), cached)
        begin, end = _share_of_split(rows, split, image_splits, BLOCK)
        # Conditions on the split as bounds: the interpreter cannot spread a truth value over a block.
        scored_end, listed_end = end, tl.where(kept >= 0, end, begin)
    else:
        base = slot * text_slot_stride + kv_head * text_head_stride
        key_base, value_base = text_keys + base, text_values + base
        begin, end = _share_of_split(tl.load(text_rows + slot), split - image_splits, splits - image_splits, BLOCK)
        scored_end, listed_end = begin, begin
    group, dim = tl.arange(0, GROUP_TILE), tl.arange(0, HEAD_TILE)
    real, heads = group < GROUP, kv_row * GROUP + group  # heads: rows of [slots, query_heads]
    whole = real[:, None] & (dim[None, :] < HEAD_DIM)
    asked = tl.load(query + heads[:, None] * HEAD_DIM + dim[None, :], mask=whole, other=0.0)
    asked = asked.to(tl.float32) if WIDEN else asked
    top = tl.full((GROUP_TILE,), float("-inf"), tl.float32)
    total, output = tl.zeros((GROUP_TILE,), tl.float32), tl.zeros((GROUP_TILE, HEAD_TILE), tl.float32)
    for start in range(begin, end, BLOCK):
        place = start + tl.arange(0, BLOCK)
        inside, listed = place < end, place < listed_end
        row = tl.where(listed, tl.load(sets + kv_row * set_capacity + place, mask=listed, other=0), place)
        offset = row.to(tl.int64)[:, None] * row_stride + dim[None, :]
        present = inside[:, None] & (dim[None, :] < HEAD_DIM)
        key = tl.load(key_base + offset, mask=present, other=0.0)  # [BLOCK, HEAD_TILE]
        value = tl.load(value_base + offset, mask=present, other=0.0)
        key, value = (key.to(tl.float32), value.to(tl.float32)) if WIDEN else (key, value)
        score = tl.dot(asked, tl.trans(key), input_precision="ieee") * scale  # [GROUP_TILE, BLOCK]
        if SCORES > 0:
            _write_scores(scores, score, shift, heads, kv_row, real, place, scored_end, score_capacity, SCORES)
        score = tl.where(inside[None, :], score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        weight, fade = tl.exp2(score - higher[:, None]), tl.exp2(top - higher)
        total = total * fade + tl.sum(weight, 1)
        output = output * fade[:, None] + tl.dot(weight.to(value.dtype), value, input_precision="ieee")
        top = higher
    part = heads * splits + split
    tl.store(partial_top + part, top, mask=real)
    tl.store(partial_sum + part, total, mask=real)
    # An empty split leaves its output unwritten; the merge does not read it.
    written = real[:, None] & (dim[None, :] < tl.where(begin < end, HEAD_DIM, 0))
    tl.store(partial_output + part[:, None] * HEAD_DIM + dim[None, :], output, mask=written)
# fmt: on


@triton.jit(do_not_specialize=["splits"])
def merge_splits(
    partial_output,  # float32 [slots * query_heads, splits, HEAD_DIM]
    partial_top,  # float32 [slots * query_heads, splits]
    partial_sum,
    output,  # [slots * query_heads, HEAD_DIM]
    normaliser,  # float32 [slots * query_heads]: base-2 log-sum-exp
    splits,
    SPLIT_TILE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    HEAD_TILE: tl.constexpr,
):
    """Grid (slots * query_heads): log-sum-exp merge of all splits of one head, image and text alike.

    A head that saw no row gets zeros, and minus infinity as normaliser.
    """
    head = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, SPLIT_TILE)
    dim = tl.arange(0, HEAD_TILE)
    top = tl.load(partial_top + head * splits + split, mask=split < splits, other=float("-inf"))
    total = tl.load(partial_sum + head * splits + split, mask=split < splits, other=0.0)
    filled = total > 0.0
    highest = tl.max(tl.where(filled, top, float("-inf")), 0)
    base = tl.where(highest > float("-inf"), highest, 0.0)  # no infinity minus infinity below
    weight = tl.where(filled, tl.exp2(tl.where(filled, top, base) - base), 0.0)
    mass = tl.sum(weight * total, 0)
    parts = tl.load(
        partial_output + (head * splits + split)[:, None] * HEAD_DIM + dim[None, :],
        mask=filled[:, None] & (dim[None, :] < HEAD_DIM),
        other=0.0,
    )
    merged = tl.sum(parts * weight[:, None], 0) / tl.where(mass > 0.0, mass, 1.0)
    tl.store(output + head * HEAD_DIM + dim, merged.to(output.dtype.element_ty), mask=dim < HEAD_DIM)
    known = tl.where(mass > 0.0, tl.log2(tl.where(mass > 0.0, mass, 1.0)) + base, float("-inf"))
    tl.store(normaliser + head, known)
