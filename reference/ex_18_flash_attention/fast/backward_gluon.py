"""Attention backward at record speed on Hopper: one pass over the keys, warps with roles, written in Gluon.

Triton's compiler plans the same work for all warps of a program, and at D = 128 their registers do not hold the sums of
dk and dv beside the weights of a tile. So the model solution makes two passes, with seven products in all, and half of
the time the tensor cores wait for exponentials. Here one pass makes the five products that are needed, and we plan by
hand. Three kernels run one after another:

prepare   delta = sum of o ∘ do, the numbers at which logits start, and zeros for the sums of dq.
hopper    A program owns 128 keys of a kv head, and walks over tiles of queries: 64 at D = 128, 128 at D = 64.
convert   dq from its sums.

A program of the second kernel has three roles, each with its own warps, registers and code:

produce   one warp. It asks the copy engine (TMA) for tiles of q and do, with lse and delta, as early as a slot is free.
consume   four warps, twice. Each owns 64 keys, dk and dv of which stay in its registers, and half of each tile of dq.

One step of a consumer is one tile of queries, here number 2. Products stand above what the other units do beside them:

    k·q2ᵀ | dk += ds1·q1 ──| v·do2ᵀ | dv += p2·do2 ──| ds1ᵀ·k ──| k·q3ᵀ | dk += ds2·q2 ──|
            p2 = exp2(…) ──|          ds2 = p2 ∘ … ──|            dq += | p3 = exp2(…) ──|

Reasons, with figures of an H100:

- Logits and gradients of weights are transposed: a row is a key. Then p and ds are the left operands of the sums dv and
  dk without leaving registers.
- dq sums over keys, so both consumers' ds go through shared memory, where each reads what the other wrote. The product
  comes one step late: then the other's ds is there, and the consumers need not run in step.
- Programs add to dq atomically, in float32. Each thread adds 16 bytes at a time: the sums lie in memory in the order in
  which threads hold them, and the last kernel puts them right. Without the additions, 23 % less time: the rest of what
  could be gained. The order of the additions differs from call to call, so the last bits of dq do as well.
- The logits' sums start with -lse / scale, and those of v·doᵀ with -delta: no subtractions, and no registers for lse.
- ds is made of the weights that went into dv, rounded to 16 bits. To keep them in float32 as well takes registers that
  are not there: 14 % more time at D = 128, nearly three times as much at D = 64. dk and dq have errors of 3.0e-3 in
  bfloat16 (norm of the error over norm of the gradient), instead of 2.4e-3.
- Rings of three slots instead of two: 1 %. Programs stay, one for each multiprocessor, and walk over tiles of keys:
  1 %.
- Causal tiles are dealt out to programs as in forward_gluon.py. Against pairs of the longest with the shortest, on an
  H200: 3 % at D = 128 and S = 4096; 6 % and 12 % at D = 64 and S = 4096 and 16,384.
- One wait for dv and dq instead of two, and one barrier fewer: a slot of q is free again together with the next one of
  do. On the H200, 1 % to 4 % with the causal mask. Without it at D = 128, q has a barrier of its own, and is free
  earlier (`EARLY`): that gives 5 % to 7 %, and a shared one 1 %.
- A wait names what must be computed before it (deps), or the compiler moves the exponentials behind it.

Tried, and left out: each program starts at another tile of queries, so that fewer additions meet (1 % slower); k·q3ᵀ
before dq is waited for (with three products in flight, the compiler lets all products run one after another); the
additions after k·q3ᵀ is issued (the same, or spilled registers); one barrier for the slots of q, do and ds (up to 3 %
slower with the mask at D = 64, S = 16,384, up to 5 % slower without it at D = 128). TMA can add
whole tiles to dq, under a name that Gluon has from Triton 3.8 on. On an H200 that is 1 % to 3 % faster at D = 128 and
S = 4096 or more, and up to 15 % slower at S = 1024. At D = 64 its buffer takes the third slot of the rings, and with
two slots it is 13 % to 19 % slower.

Barriers, their phases and descriptors are as in forward_gluon.py. Its page also says how registers move to consumers.

The portable kernel below does the rest: another GPU, D other than 64 and 128, scale 0, and tensors whose addresses or
strides TMA does not take.

On an H100 with Triton 3.6.0, it has 1.04 times the speed of cuDNN's backward pass and 0.88 times that of
FlashAttention-4's, in the geometric mean over D = 64 and 128, with and without the causal mask, and S = 1024, 4096 and
16384. Against cuDNN, the smallest ratio is 0.98 (D = 128, causal, S = 16384), the largest 1.11; at D = 128 it reaches
596 TFLOP/s. The version measured there took longer than this one, on an H200: by 5 % to 7 % at D = 128 without the
mask and 2 % to 6 % with it, by less than 1 % at D = 64 without the mask and 4 % to 14 % with it. This version on an
H200, beside the faster of cuDNN and FlashAttention-4 at each size: 0.90 times the speed in the mean, 0.90 to 1.06 at
D = 128, 0.81 to 0.94 at D = 64. Not tried yet: three consumers with tiles of 64 queries at D = 64, so that one's
exponentials run beside the others' products.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

LOG2_E = math.log2(math.e)
DTYPES = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16}
# Slots in the rings of q and do: 226 of 227 KiB are in use at D = 128.
SLOTS = gl.constexpr(3)


# -- Hopper ----------------------------------------------------------------------------------------------------------


@gluon.jit
def tile_at(turn, sizes, CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr):
    """Return this program's tile number `turn`: kv head, tile of 128 keys, first tile of queries, how many, if any.

    There are at least two tiles of queries; the second may lie beyond the last query.
    """
    _, _, Sq, Skv, kv_heads, tiles, together, _ = sizes
    place = gl.program_id(0) + turn * gl.num_programs(0)
    first = 0
    if CAUSAL:
        # Each round of programs goes the other way than the one before.
        if turn % 2 == 1:
            place = (turn + 1) * gl.num_programs(0) - 1 - gl.program_id(0)
        part = place // (together * tiles)
        inside = place - part * together * tiles
        width = gl.minimum(together, kv_heads - part * together)
        head = part * together + inside % width
        tile = inside // width
        # The last part begins with the longest tiles, the one before with the shortest, and so on.
        parts = (kv_heads + together - 1) // together
        if (parts - part) % 2 == 0:
            tile = tiles - 1 - tile
        first = gl.maximum(tile * 128 - (Skv - Sq), 0) // BLOCK_M
    else:
        head = place // tiles
        tile = place - head * tiles
    n = gl.maximum((Sq + BLOCK_M - 1) // BLOCK_M - first, 2)
    return head, tile, first, n, place < kv_heads * tiles


@gluon.jit
def produce(
    descriptors,
    memory,
    barriers,
    sizes,
    D: gl.constexpr,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
):
    """Load k and v of 128 keys, then BLOCK_M · D elements of q and of do, with lse and delta, for each step."""
    q_desc, do_desc, k_desc, v_desc, lse_desc, delta_desc, _, _ = descriptors
    q_smem, do_smem, k_smem, v_smem, lse_smem, delta_smem, _, _ = memory
    q_full, q_empty, do_full, do_empty, k_full, k_empty, v_full, v_empty, _, _ = barriers
    Hkv, group, _, _, _, _, _, _ = sizes
    EARLY: gl.constexpr = D == 128 and not CAUSAL
    turn = 0
    step = 0
    head, tile, first, n, exists = tile_at(turn, sizes, CAUSAL, BLOCK_M)
    while exists:
        b = head // Hkv
        hkv = head - b * Hkv
        mbarrier.wait(k_empty.index(0), (turn & 1) ^ 1)
        mbarrier.expect(k_full.index(0), 128 * D * 2)
        for c in gl.static_range(2):
            tma.async_copy_global_to_shared(k_desc, [b, hkv, tile * 128 + c * 64, 0], k_full.index(0), k_smem.index(c))
        for t in range(n * group):
            slot = step % SLOTS
            empty_phase = (step // SLOTS & 1) ^ 1
            member = t // n
            hq = hkv * group + member
            row = (first + t - member * n) * BLOCK_M
            if EARLY:
                mbarrier.wait(q_empty.index(slot), empty_phase)
            else:
                # With do of two steps ago, q of three steps ago was free.
                mbarrier.wait(do_empty.index((step + 1) % SLOTS), ((step + 1) // SLOTS & 1) ^ 1)
            mbarrier.expect(q_full.index(slot), BLOCK_M * (D * 2 + 4))
            tma.async_copy_global_to_shared(q_desc, [b, hq, row, 0], q_full.index(slot), q_smem.index(slot))
            tma.async_copy_global_to_shared(
                lse_desc, [b * Hkv * group + hq, row], q_full.index(slot), lse_smem.index(slot)
            )
            if t == 0:
                mbarrier.wait(v_empty.index(0), (turn & 1) ^ 1)
                mbarrier.expect(v_full.index(0), 128 * D * 2)
                for c in gl.static_range(2):
                    tma.async_copy_global_to_shared(
                        v_desc, [b, hkv, tile * 128 + c * 64, 0], v_full.index(0), v_smem.index(c)
                    )
            if EARLY:
                mbarrier.wait(do_empty.index(slot), empty_phase)
            mbarrier.expect(do_full.index(slot), BLOCK_M * (D * 2 + 4))
            tma.async_copy_global_to_shared(do_desc, [b, hq, row, 0], do_full.index(slot), do_smem.index(slot))
            tma.async_copy_global_to_shared(
                delta_desc, [b * Hkv * group + hq, row], do_full.index(slot), delta_smem.index(slot)
            )
            step += 1
        turn += 1
        head, tile, first, n, exists = tile_at(turn, sizes, CAUSAL, BLOCK_M)


@gluon.jit
def add_to_dq(sums_ptr, acc, block):
    """Add [64, 64] numbers to a block of dq's sums, in the order in which threads hold them."""
    # Rows are 4 warps, 2 halves, 8 groups of threads; columns are 8 tiles, 4 threads, 2 elements. The 2 halves and
    # 2 elements of a thread come last: 16 bytes. Before them come threads, so that a warp's bytes adjoin.
    acc = acc.reshape([4, 2, 8, 8, 4, 2]).permute((3, 0, 2, 4, 1, 5)).reshape([4096])
    places = gl.arange(0, 4096, layout=acc.type.layout)
    gl.atomic_add(sums_ptr + block.to(gl.int64) * 4096 + places, acc, sem="relaxed")


@gluon.jit
def start_dq(ds_smem, k_smem, side, D: gl.constexpr, ME: gl.constexpr):
    """Start the products, over both consumers' keys, that make this one's [64, 64] of a tile of dq."""
    # 64 columns of 2 bytes: the widest rows of swizzled shared memory. Wider tiles are several such panels.
    PANEL: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    acc = gl.zeros([64, 64], gl.float32, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))
    if D == 128:
        # All 64 queries, half of the columns: a panel of k.
        panels = k_smem._reinterpret(k_smem.dtype, [4, 64, 64], PANEL)
        acc = warpgroup_mma(
            ds_smem.index(side * 2).permute((1, 0)), panels.index(ME), acc, use_acc=False, is_async=True
        )
        acc = warpgroup_mma(ds_smem.index(side * 2 + 1).permute((1, 0)), panels.index(2 + ME), acc, is_async=True)
    else:
        # Half of the 128 queries, a panel of ds; all columns.
        panels = ds_smem._reinterpret(k_smem.dtype, [8, 64, 64], PANEL)
        k0 = k_smem.index(0).reshape([64, D])
        k1 = k_smem.index(1).reshape([64, D])
        acc = warpgroup_mma(panels.index(side * 4 + ME).permute((1, 0)), k0, acc, use_acc=False, is_async=True)
        acc = warpgroup_mma(panels.index(side * 4 + 2 + ME).permute((1, 0)), k1, acc, is_async=True)
    return acc


@gluon.jit
def starting_with(numbers, S_LAYOUT: gl.constexpr, BLOCK_M: gl.constexpr):
    """Return sums [64, BLOCK_M] that start with a number for each query."""
    row = numbers.reshape([BLOCK_M]).load(gl.SliceLayout(0, S_LAYOUT))
    return gl.expand_dims(row, 0).broadcast_to([64, BLOCK_M])


@gluon.jit
def weights(
    s,
    dk,
    step,
    first_key,
    row,
    memory,
    barriers,
    sizes,
    qk_scale,
    D: gl.constexpr,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    FIRST: gl.constexpr,
):
    """Return weights of 64 keys and BLOCK_M queries from `row` on, as left operand, and dk.

    In flight are the logits s, then dk of the step before; both have ended on return.
    """
    q_smem, _, _, _, _, _, _, _ = memory
    _, q_empty, _, _, _, _, _, _, _, _ = barriers
    EARLY: gl.constexpr = D == 128 and not CAUSAL
    _, _, Sq, Skv, _, _, _, _ = sizes
    dtype: gl.constexpr = q_smem.dtype
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    G_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, G_LAYOUT, 2)
    s = warpgroup_mma_wait(0 if FIRST else 1, deps=[s])
    p = gl.exp2(s * qk_scale)
    visible_to_all = Skv
    if CAUSAL:
        visible_to_all = gl.minimum(row + 1 + Skv - Sq, Skv)
    if first_key + 64 > visible_to_all:
        keys = first_key + gl.arange(0, 64, gl.SliceLayout(1, S_LAYOUT))
        visible = keys[:, None] < Skv
        if CAUSAL:
            queries = row + gl.arange(0, BLOCK_M, gl.SliceLayout(0, S_LAYOUT))
            visible = visible & (keys[:, None] <= queries[None, :] + (Skv - Sq))
        p = gl.where(visible, p, 0.0)
    weight = gl.convert_layout(p.to(dtype), P_LAYOUT)
    if not FIRST:
        # The weights are computed before the wait, beside dk.
        dk, weight = warpgroup_mma_wait(0, deps=[dk, weight])
        if EARLY:
            mbarrier.arrive(q_empty.index((step - 1) % SLOTS))
    return weight, dk


@gluon.jit
def products(
    weight,
    dk,
    dv,
    step,
    before,
    memory,
    barriers,
    sums_ptr,
    D: gl.constexpr,
    BLOCK_M: gl.constexpr,
    ME: gl.constexpr,
    FIRST: gl.constexpr,
    LAST: gl.constexpr,
):
    """Return the next step's logits and dk, both in flight, and dv; add the dq of the step before, block `before`."""
    q_smem, do_smem, k_smem, v_smem, lse_smem, delta_smem, ds_smem, _ = memory
    q_full, _, do_full, do_empty, _, _, _, v_empty, ds_full, ds_empty = barriers
    dtype: gl.constexpr = q_smem.dtype
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    G_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, G_LAYOUT, 2)
    slot = step % SLOTS
    q = q_smem.index(slot).reshape([BLOCK_M, D])
    do = do_smem.index(slot).reshape([BLOCK_M, D])
    v = v_smem.index(ME).reshape([64, D])
    mbarrier.wait(do_full.index(slot), step // SLOTS & 1)
    dp = starting_with(delta_smem.index(slot), S_LAYOUT, BLOCK_M)
    dp = warpgroup_mma(v, do.permute((1, 0)), dp, is_async=True)
    dv = warpgroup_mma(weight, do, dv, is_async=True)
    dp = warpgroup_mma_wait(1, deps=[dp])
    ds = (gl.convert_layout(weight, S_LAYOUT).to(gl.float32) * dp).to(dtype)
    # Two steps ago, both consumers' products read this slot.
    side = step % 2
    mbarrier.wait(ds_empty.index(side), (step // 2 & 1) ^ 1)
    ds_smem.index(side * 2 + ME).store(ds)
    fence_async_shared()
    mbarrier.arrive(ds_full.index(side))
    ds = gl.convert_layout(ds, P_LAYOUT)
    if not FIRST:
        other = (step - 1) % 2
        mbarrier.wait(ds_full.index(other), (step - 1) // 2 & 1)
        dq = start_dq(ds_smem, k_smem, other, D, ME)
        # One wait for both: the compiler orders what follows better than after two.
        dv, dq = warpgroup_mma_wait(0, deps=[dv, dq])
    else:
        dv = warpgroup_mma_wait(0, deps=[dv])
    mbarrier.arrive(do_empty.index(slot))
    if not FIRST:
        mbarrier.arrive(ds_empty.index((step - 1) % 2))
        add_to_dq(sums_ptr, dq, before)
    if LAST:
        mbarrier.arrive(v_empty.index(0))
        # There is no next one; something must be returned.
        s = dp
        dk = warpgroup_mma(ds, q, dk, is_async=True)
    else:
        after = (step + 1) % SLOTS
        k = k_smem.index(ME).reshape([64, D])
        mbarrier.wait(q_full.index(after), (step + 1) // SLOTS & 1)
        s = starting_with(lse_smem.index(after), S_LAYOUT, BLOCK_M)
        s = warpgroup_mma(k, q_smem.index(after).reshape([BLOCK_M, D]).permute((1, 0)), s, is_async=True)
        dk = warpgroup_mma(ds, q, dk, is_async=True)
    return s, dk, dv


@gluon.jit
def consume(
    descriptors,
    sums_ptr,
    memory,
    barriers,
    sizes,
    scale,
    qk_scale,
    D: gl.constexpr,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    ME: gl.constexpr,
):
    """Compute dk and dv of 64 keys of each of this program's tiles, and what they add to dq.

    The first step has no dq of a step before, and the last one no step behind it.
    """
    _, _, _, _, _, _, dk_desc, dv_desc = descriptors
    q_smem, _, k_smem, _, lse_smem, _, ds_smem, out_smem = memory
    q_full, q_empty, _, _, k_full, k_empty, v_full, _, ds_full, ds_empty = barriers
    _, group, _, _, _, _, _, query_tiles = sizes
    EARLY: gl.constexpr = D == 128 and not CAUSAL
    dtype: gl.constexpr = q_smem.dtype
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    G_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    k = k_smem.index(ME).reshape([64, D])
    out = out_smem.index(ME).reshape([64, D])
    turn = 0
    step = 0
    head, tile, first, n, exists = tile_at(turn, sizes, CAUSAL, BLOCK_M)
    while exists:
        first_key = tile * 128 + ME * 64
        dk = gl.zeros([64, D], gl.float32, G_LAYOUT)
        dv = gl.zeros([64, D], gl.float32, G_LAYOUT)
        mbarrier.wait(k_full.index(0), turn & 1)
        slot = step % SLOTS
        mbarrier.wait(q_full.index(slot), step // SLOTS & 1)
        s = starting_with(lse_smem.index(slot), S_LAYOUT, BLOCK_M)
        s = warpgroup_mma(k, q_smem.index(slot).reshape([BLOCK_M, D]).permute((1, 0)), s, is_async=True)
        mbarrier.wait(v_full.index(0), turn & 1)
        row = first * BLOCK_M
        last_row = (first + n) * BLOCK_M
        # Blocks of dq's sums: two for each tile of queries.
        block = (head * group * query_tiles + first) * 2 + ME
        weight, dk = weights(s, dk, step, first_key, row, memory, barriers, sizes, qk_scale, D, CAUSAL, BLOCK_M, True)
        s, dk, dv = products(weight, dk, dv, step, block, memory, barriers, sums_ptr, D, BLOCK_M, ME, True, False)
        step += 1
        before = block
        row += BLOCK_M
        block += 2
        weight, dk = weights(s, dk, step, first_key, row, memory, barriers, sizes, qk_scale, D, CAUSAL, BLOCK_M, False)
        for _t in range(2, n * group):
            s, dk, dv = products(weight, dk, dv, step, before, memory, barriers, sums_ptr, D, BLOCK_M, ME, False, False)
            step += 1
            before = block
            row += BLOCK_M
            block += 2
            # The next query head.
            block += gl.where(row == last_row, (query_tiles - n) * 2, 0)
            row = gl.where(row == last_row, first * BLOCK_M, row)
            weight, dk = weights(
                s, dk, step, first_key, row, memory, barriers, sizes, qk_scale, D, CAUSAL, BLOCK_M, False
            )
        s, dk, dv = products(weight, dk, dv, step, before, memory, barriers, sums_ptr, D, BLOCK_M, ME, False, True)
        # The last step's dq; dv leaves meanwhile, then dk. The copy before must have left the buffer.
        side = step % 2
        mbarrier.wait(ds_full.index(side), step // 2 & 1)
        dq = start_dq(ds_smem, k_smem, side, D, ME)
        tma.store_wait(0)
        out.store(dv.to(dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(dv_desc, [head, first_key, 0], out_smem.index(ME))
        dk = warpgroup_mma_wait(2, deps=[dk])
        if EARLY:
            mbarrier.arrive(q_empty.index(step % SLOTS))
        dk = dk * scale
        dq = warpgroup_mma_wait(0, deps=[dq])
        mbarrier.arrive(ds_empty.index(side))
        mbarrier.arrive(k_empty.index(0))
        add_to_dq(sums_ptr, dq, block)
        tma.store_wait(0)
        out.store(dk.to(dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(dk_desc, [head, first_key, 0], out_smem.index(ME))
        step += 1
        turn += 1
        head, tile, first, n, exists = tile_at(turn, sizes, CAUSAL, BLOCK_M)
    tma.store_wait(0)


@gluon.jit(
    do_not_specialize=["Hkv", "group", "Sq", "Skv", "kv_heads", "tiles", "together", "query_tiles", "scale", "qk_scale"]
)
def hopper_kernel(
    q_desc,
    do_desc,
    k_desc,
    v_desc,
    lse_desc,
    delta_desc,
    dk_desc,
    dv_desc,
    sums_ptr,
    Hkv,
    group,
    Sq,
    Skv,
    kv_heads,
    tiles,
    together,
    query_tiles,
    scale,
    qk_scale,
    D: gl.constexpr,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
):
    """dk and dv of this program's share of kv_heads · tiles tiles of 128 keys; adds their part of dq at sums_ptr.

    q_desc, do_desc, k_desc, v_desc: [B, H, S, D] in boxes of BLOCK_M and 64 rows; lse_desc, delta_desc: [B · Hq,
    query_tiles · BLOCK_M]; dk_desc, dv_desc: [B · Hkv, Skv, D] in boxes of 64 rows; sums_ptr: blocks of 64 · 64 sums.
    """
    dtype: gl.constexpr = q_desc.dtype
    q_smem = gl.allocate_shared_memory(dtype, [SLOTS, 1, 1, BLOCK_M, D], q_desc.layout)
    do_smem = gl.allocate_shared_memory(dtype, [SLOTS, 1, 1, BLOCK_M, D], do_desc.layout)
    k_smem = gl.allocate_shared_memory(dtype, [2, 1, 1, 64, D], k_desc.layout)
    v_smem = gl.allocate_shared_memory(dtype, [2, 1, 1, 64, D], v_desc.layout)
    lse_smem = gl.allocate_shared_memory(gl.float32, [SLOTS, 1, BLOCK_M], lse_desc.layout)
    delta_smem = gl.allocate_shared_memory(gl.float32, [SLOTS, 1, BLOCK_M], delta_desc.layout)
    ds_smem = gl.allocate_shared_memory(dtype, [4, 64, BLOCK_M], gl.NVMMASharedLayout(128, 16, 2))
    out_smem = gl.allocate_shared_memory(dtype, [2, 1, 64, D], dk_desc.layout)
    BAR: gl.constexpr = mbarrier.MBarrierLayout()
    q_full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], BAR)
    q_empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], BAR)
    do_full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], BAR)
    do_empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], BAR)
    k_full = gl.allocate_shared_memory(gl.int64, [1, 1], BAR)
    k_empty = gl.allocate_shared_memory(gl.int64, [1, 1], BAR)
    v_full = gl.allocate_shared_memory(gl.int64, [1, 1], BAR)
    v_empty = gl.allocate_shared_memory(gl.int64, [1, 1], BAR)
    ds_full = gl.allocate_shared_memory(gl.int64, [2, 1], BAR)
    ds_empty = gl.allocate_shared_memory(gl.int64, [2, 1], BAR)
    for i in gl.static_range(SLOTS):
        mbarrier.init(q_full.index(i), count=1)
        mbarrier.init(q_empty.index(i), count=2)
        mbarrier.init(do_full.index(i), count=1)
        mbarrier.init(do_empty.index(i), count=2)
    for i in gl.static_range(2):
        mbarrier.init(ds_full.index(i), count=2)
        mbarrier.init(ds_empty.index(i), count=2)
    mbarrier.init(k_full.index(0), count=1)
    mbarrier.init(k_empty.index(0), count=2)
    mbarrier.init(v_full.index(0), count=1)
    mbarrier.init(v_empty.index(0), count=2)
    # The copy engine must see them.
    fence_async_shared()
    descriptors = (q_desc, do_desc, k_desc, v_desc, lse_desc, delta_desc, dk_desc, dv_desc)
    memory = (q_smem, do_smem, k_smem, v_smem, lse_smem, delta_smem, ds_smem, out_smem)
    barriers = (q_full, q_empty, do_full, do_empty, k_full, k_empty, v_full, v_empty, ds_full, ds_empty)
    sizes = (Hkv, group, Sq, Skv, kv_heads, tiles, together, query_tiles)
    gl.warp_specialize(
        [
            (consume, (descriptors, sums_ptr, memory, barriers, sizes, scale, qk_scale, D, CAUSAL, BLOCK_M, 0)),
            (consume, (descriptors, sums_ptr, memory, barriers, sizes, scale, qk_scale, D, CAUSAL, BLOCK_M, 1)),
            (produce, (descriptors, memory, barriers, sizes, D, CAUSAL, BLOCK_M)),
        ],
        [4, 1],
        [240, 24],
    )


@triton.jit(do_not_specialize=["Hq", "Sq", "query_tiles", "scale"])
def prepare_kernel(
    do_ptr,
    o_ptr,
    lse_ptr,
    start_ptr,
    delta_ptr,
    sums_ptr,
    Hq,
    Sq,
    query_tiles,
    scale,
    stride_gb,
    stride_gh,
    stride_gs,
    stride_ob,
    stride_oh,
    stride_os,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """-delta and -lse / scale of BLOCK queries, with rows beyond Sq, and zeros for their sums of dq."""
    head = (tl.program_id(0) // query_tiles).to(tl.int64)
    tile = tl.program_id(0) % query_tiles
    b, hq = head // Hq, head % Hq
    rows, dims = tile * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)[None, :]
    mask = rows < Sq
    wide_rows = rows.to(tl.int64)[:, None]
    # BLOCK · D elements of do, and as many of o.
    do_ptrs = do_ptr + b * stride_gb + hq * stride_gh + wide_rows * stride_gs + dims
    o_ptrs = o_ptr + b * stride_ob + hq * stride_oh + wide_rows * stride_os + dims
    do = tl.load(do_ptrs, mask=mask[:, None], other=0.0)
    o = tl.load(o_ptrs, mask=mask[:, None], other=0.0)
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    lse = tl.load(lse_ptr + head * Sq + rows, mask=mask, other=float("-inf"))
    # A row that sees no key, or does not exist: 2**-inf = 0, whatever the sign of the scale.
    start = tl.where(lse == float("-inf"), float("inf"), lse) / -scale
    place = (head * query_tiles + tile) * BLOCK
    tl.store(delta_ptr + place + tl.arange(0, BLOCK), -delta)
    tl.store(start_ptr + place + tl.arange(0, BLOCK), start)
    tl.store(sums_ptr + place * D + tl.arange(0, BLOCK * D), tl.zeros([BLOCK * D], tl.float32))


@triton.jit(do_not_specialize=["Sq", "query_tiles", "scale"])
def convert_kernel(sums_ptr, dq_ptr, Sq, query_tiles, scale, D: tl.constexpr):
    """64 · 64 elements of dq, from a block of sums in the order of threads."""
    block = tl.program_id(0).to(tl.int64)
    part = block % 2
    head = block // 2 // query_tiles
    tile = block // 2 % query_tiles
    x = tl.load(sums_ptr + block * 4096 + tl.arange(0, 4096)) * scale
    # 8 tiles of columns, 4 warps, 8 groups, 4 threads, 2 halves of rows, 2 elements.
    x = tl.reshape(tl.permute(tl.reshape(x, (8, 4, 8, 4, 2, 2)), (1, 4, 2, 0, 3, 5)), (64, 64))
    if D == 128:
        rows, columns = tile * 64 + tl.arange(0, 64), part * 64 + tl.arange(0, 64)
    else:
        rows, columns = tile * 128 + part * 64 + tl.arange(0, 64), tl.arange(0, 64)
    ptrs = dq_ptr + (head * Sq + rows)[:, None] * D + columns[None, :]
    tl.store(ptrs, x.to(dq_ptr.dtype.element_ty), mask=rows[:, None] < Sq)


def described(tensor: Tensor, rows: int) -> TensorDescriptor:
    """Describe a tensor […, S, D] for TMA, in boxes of `rows` rows of one head."""
    box = [1] * (tensor.dim() - 2) + [rows, tensor.shape[-1]]
    layout = gl.NVMMASharedLayout.get_default_for(box, DTYPES[tensor.dtype])
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), box, layout)


def described_numbers(tensor: Tensor, block: int) -> TensorDescriptor:
    """Describe float32 [heads, rows] for TMA, in boxes of `block` rows of one head."""
    layout = gl.NVMMASharedLayout.get_default_for([1, block], gl.float32)
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), [1, block], layout)


def runs_on_hopper(do: Tensor, q: Tensor, k: Tensor, v: Tensor, scale: float) -> bool:
    """Return whether the Gluon kernel takes this problem."""
    # Triton's interpreter does not know Gluon.
    if triton.knobs.runtime.interpret or not q.is_cuda or torch.cuda.get_device_capability(q.device) != (9, 0):
        return False
    # Sums start with lse / scale.
    if q.dtype not in DTYPES or q.shape[-1] not in (64, 128) or scale == 0:
        return False
    return all(suits_copy_engine(one) for one in (do, q, k, v))


def suits_copy_engine(tensor: Tensor) -> bool:
    """Return whether the address and the strides are multiples of 16 bytes, and rows are contiguous."""
    *steps, last = tensor.stride()
    return tensor.data_ptr() % 16 == 0 and last == 1 and all(step > 0 and step % 8 == 0 for step in steps)


def launch_on_hopper(
    do: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    dk: Tensor,
    dv: Tensor,
    causal: bool,
    scale: float,
) -> Tensor:
    """Launch the three kernels: the second with a program for each multiprocessor, or fewer if there are fewer tiles.

    Writes dk and dv, and returns dq.
    """
    batch, heads, queries, width = q.shape
    kv_heads, keys = k.shape[1:3]
    block_m = 8192 // width
    # A program takes two tiles of queries at least, so one may lie beyond the last query.
    query_tiles = triton.cdiv(queries, block_m)
    query_tiles += causal or query_tiles == 1
    # 8192 sums for each of them: two blocks.
    sums = torch.empty(batch * heads * query_tiles * 8192, dtype=torch.float32, device=q.device)
    padded = (batch * heads, query_tiles * block_m)
    starts, delta = (torch.empty(padded, dtype=torch.float32, device=q.device) for _ in range(2))
    prepare_kernel[(batch * heads * query_tiles,)](
        *(do, o, lse.contiguous(), starts, delta, sums, heads, queries, query_tiles, scale),
        *(step for one in (do, o) for step in one.stride()[:3]),
        D=width,
        BLOCK=block_m,
        num_warps=8,
    )
    tiles = triton.cdiv(keys, 128)
    programs = min(batch * kv_heads * tiles, torch.cuda.get_device_properties(q.device).multi_processor_count)
    # Heads whose causal tiles are walked together: two rounds of programs.
    together = max(1, min(batch * kv_heads, round(2 * programs / tiles)))
    hopper_kernel[(programs,)](
        *(described(q, block_m), described(do, block_m), described(k, 64), described(v, 64)),
        *(described_numbers(starts, block_m), described_numbers(delta, block_m)),
        *(described(one.view(-1, keys, width), 64) for one in (dk, dv)),
        *(sums, kv_heads, heads // kv_heads, queries, keys, batch * kv_heads, tiles, together, query_tiles),
        *(scale, scale * LOG2_E),
        D=width,
        CAUSAL=causal,
        BLOCK_M=block_m,
        num_warps=4,
        maxnreg=168,
    )
    dq = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    convert_kernel[(batch * heads * query_tiles * 2,)](sums, dq, queries, query_tiles, scale, D=width, num_warps=4)
    return dq


# -- everything else -------------------------------------------------------------------------------------------------

STRIDES = [f"stride_{tensor}{axis}" for tensor in "gqkvo" for axis in "bhs"]


@triton.jit(do_not_specialize=["Hkv", "group", "Sq", "Skv", "offset", "scale", *STRIDES])
def portable_kernel(
    do_ptr,
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
    dq_ptr,
    dk_ptr,
    dv_ptr,
    Hkv,
    group,
    Sq,
    Skv,
    offset,
    scale,
    stride_gb,
    stride_gh,
    stride_gs,
    stride_qb,
    stride_qh,
    stride_qs,
    stride_kb,
    stride_kh,
    stride_ks,
    stride_vb,
    stride_vh,
    stride_vs,
    stride_ob,
    stride_oh,
    stride_os,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """dk and dv of BLOCK_N keys of one kv head, and their share of dq, which is in float32 and zero at first."""
    tiles = tl.cdiv(Skv, BLOCK_N)
    head = (tl.program_id(0) // tiles).to(tl.int64)
    b, hkv = head // Hkv, head % Hkv
    keys = tl.program_id(0) % tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    dims = tl.arange(0, D)[None, :]
    key_mask = keys[:, None] < Skv
    wide_keys = keys.to(tl.int64)[:, None]
    k = tl.load(k_ptr + b * stride_kb + hkv * stride_kh + wide_keys * stride_ks + dims, mask=key_mask, other=0.0)
    v = tl.load(v_ptr + b * stride_vb + hkv * stride_vh + wide_keys * stride_vs + dims, mask=key_mask, other=0.0)
    dk = tl.full((BLOCK_N, D), 0.0, tl.float32)
    dv = tl.full((BLOCK_N, D), 0.0, tl.float32)
    first = tl.maximum(tl.program_id(0) % tiles * BLOCK_N - offset, 0) // BLOCK_M * BLOCK_M
    for member in range(group):
        h = hkv * group + member
        place = (b * Hkv * group + h) * Sq
        for start in range(first, Sq, BLOCK_M):
            rows = start + tl.arange(0, BLOCK_M)
            row_mask = rows[:, None] < Sq
            wide_rows = rows.to(tl.int64)[:, None]
            q = tl.load(q_ptr + b * stride_qb + h * stride_qh + wide_rows * stride_qs + dims, mask=row_mask, other=0.0)
            do = tl.load(
                do_ptr + b * stride_gb + h * stride_gh + wide_rows * stride_gs + dims, mask=row_mask, other=0.0
            )
            o = tl.load(o_ptr + b * stride_ob + h * stride_oh + wide_rows * stride_os + dims, mask=row_mask, other=0.0)
            lse = tl.load(lse_ptr + place + rows, mask=rows < Sq, other=float("-inf"))
            lse = tl.where(lse == float("-inf"), float("inf"), lse)
            delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
            p = tl.exp(tl.dot(q, tl.trans(k)) * scale - lse[:, None])
            p = tl.where((keys[None, :] < Skv) & (keys[None, :] <= rows[:, None] + offset), p, 0.0)
            ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
            tl.atomic_add(dq_ptr + place * D + wide_rows * D + dims, tl.dot(ds.to(k.dtype), k) * scale, mask=row_mask)
            dv = tl.dot(tl.trans(p.to(do.dtype)), do, dv)
            dk = tl.dot(tl.trans(ds.to(q.dtype)), q, dk)
    places = (head * Skv + keys)[:, None] * D + dims
    tl.store(dk_ptr + places, (dk * scale).to(k.dtype), mask=key_mask)
    tl.store(dv_ptr + places, dv.to(v.dtype), mask=key_mask)


def launch_portable(
    do: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    dk: Tensor,
    dv: Tensor,
    causal: bool,
    scale: float,
) -> Tensor:
    """Launch one program for each tile of 64 keys of each kv head. Writes dk and dv, and returns dq."""
    batch, heads, queries, width = q.shape
    kv_heads, keys = k.shape[1:3]
    dq = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
    portable_kernel[(triton.cdiv(keys, 64) * batch * kv_heads,)](
        *(do, q, k, v, o, lse.contiguous(), dq, dk, dv),
        *(kv_heads, heads // kv_heads, queries, keys, keys - queries if causal else keys, scale),
        *(step for one in (do, q, k, v, o) for step in one.stride()[:3]),
        D=width,
        BLOCK_M=32,
        BLOCK_N=64,
        num_warps=4,
        num_stages=2,
    )
    return dq.to(q.dtype)


def attention_backward(
    do: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    causal: bool = False,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """dq, dk and dv, from weights exp(s - lse) that are computed again, tile by tile."""
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    dk, dv = (torch.empty(one.shape, dtype=one.dtype, device=one.device) for one in (k, v))
    launch = launch_on_hopper if runs_on_hopper(do, q, k, v, scale) else launch_portable
    return launch(do, q, k, v, o, lse, dk, dv, bool(causal), scale), dk, dv
