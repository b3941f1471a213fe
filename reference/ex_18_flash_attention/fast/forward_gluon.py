"""Attention forward at record speed on Hopper: warps with roles, written in Gluon, the language below Triton's.

Triton's compiler plans the same work for all warps of a program. It hides loads behind products, but the softmax of a
tile waits for q kᵀ, and p v waits for the softmax: near 500 TFLOP/s the tensor cores idle for half of the time. Here we
plan by hand. A program has three or four roles, each with its own warps, registers and code:

produce   one warp. It does nothing but ask the copy engine (TMA) for tiles of q, k and v, as early as a slot is free.
consume   four warps, two or three times over. Each owns 64 queries: products, softmax, and the result.

One step of a consumer is one tile of BLOCK_N keys. Two products run at a time: q kᵀ of this tile, and p v of the tile
before it. While p v runs on the tensor cores, the other units compute this tile's softmax:

    produce      k3  v3        k4  v4        k5  v5
    consumer 0   q·k2 | p1·v1 ─────|   q·k3 | p2·v2 ─────|
                      softmax 2 ───|        softmax 3 ───|
    consumer 1           q·k2 | p1·v1 ─────|   q·k3 | p2·v2 ─────|
                              softmax 2 ───|        softmax 3 ───|

Reasons, with what each gave on an H100, or on an H200 where it says so:

- Overlap inside a consumer. p goes into the second product from registers, and q kᵀ of the next tile is issued before
  p v of this one. `warpgroup_mma_wait(1)` waits for the older of the two only. All else builds on it.
- The assembler moves computations behind a wait for products, because it sees no reason against it: then the softmax
  runs after p v, and not beside it. It moves nothing across a wait for a barrier. So each step waits for the next v
  between its softmax and the wait for p v. With the sums of the next point, this gives 2 % to 4 % from S = 4096 on
  (H200). With two consumers at D = 64 it loses 1 %, so there v is waited for where it is needed (`beside`).
- A row is shared by four threads. Each adds up its own weights, and they add their sums at the end, not in each step:
  up to 2 % at D = 128, 1 % to 3 % at D = 64 (H200). It also frees registers.
- Programs stay, one for each multiprocessor, and walk over tiles of queries. The next tile's q, k and v are under way
  during the last products of this one, and o leaves by TMA in the background.
- D = 64 has half of the products for the same number of exponentials. Three consumers instead of two keep the tensor
  cores busier, if there are enough queries: 15 % at S = 16,384, but a loss at S = 1024.
- Causal tiles differ in length, and each program should have the same work. Tiles are sorted by length and dealt out
  to and fro: forward in one round, backward in the next. As k and v of all heads do not fit into L2, a part of the
  heads is walked at a time, with tiles for two rounds. One part goes from short to long tiles, the next from long to
  short, the last one always so: the end is short tiles. In plain order, some multiprocessors would take long tiles
  only: 12 % at S = 16,384. Pairs of the longest and the shortest have equal work too, but 10.4 rounds of pairs take as
  long as 11: 5 % slower at S = 16,384 (H200). All heads at a time: 10 % and 20 % slower at S = 1024 (H200).
- With two consumers, q is in registers. Its slot is free at once, and products read less shared memory: 4 % with the
  causal mask, 1 % without.
- Consumers take turns to issue their products (`turns`): one has the tensor cores while another has the softmax. 1 %.
  Long products at D = 128 do without: 2 % (H200).
- Registers move from the producer (24) to the consumers (240, or 160 with three). A program is launched with the mean.
- Keys are visited from the last to the first. Tiles that need the causal mask or the end of the keys come first, and
  the rest has no mask.

Tried, and left out: the next tile's first q kᵀ beside the last p v of this one (3 % slower with the causal mask); one
flat loop over the steps of all tiles (10 % slower, as the compiler copies p in every step); tiles of 64 keys (15 %
slower); two slots for q instead of registers (up to 2 % slower); every 8th or 4th exp2 as a polynomial, which other
units compute (4 % and 13 % slower); four slots for k and v at D = 64 (no difference). On the H200: p in 16 bits before
the wait for p v (spilled registers, half the speed at D = 64); one barrier to release k and v (a third slower at
D = 128, where k comes too late); the old sums multiplied while q kᵀ runs (up to 3 % slower); three consumers at D = 64
and S = 1024 (4 % slower, 22 % with the mask); 256 keys in a tile at D = 64 (the compiler runs products one by one).

What is left at S = 16,384 without a mask, from wrong kernels on the H200: with no exponentials, 14 % more speed at
D = 64 and 5 % at D = 128; with no maximum, 5 % and 7 %; with no rescaling, 5 % and 6 %.

Barriers (`full`, `empty`) are counters in shared memory. A copy counts its bytes on `full`; whoever read a slot last
counts on `empty`. Each is used once for each round through a ring of slots, and its phase, 0 or 1, tells the rounds
apart: a wait for phase 1 of a new barrier falls through, as if a round had gone before.

Descriptors tell TMA the sizes and strides of a tensor [B, H, S, D]. It fills rows beyond S with zeros, and writes none.
So S needs to be no multiple of anything, and strides are free as far as they are multiples of 16 bytes.

The portable kernel below does the rest: another GPU, D other than 64 and 128, a scale that is not positive, and tensors
whose addresses or strides TMA does not take.

On an H200 with Triton 3.6.0, it has 1.07 times the speed of cuDNN's attention, in the geometric mean over D = 64 and
128, with and without the causal mask, and S = 1024, 4096 and 16384. The smallest ratio is 0.97 (D = 64, causal,
S = 1024), the largest 1.17; at D = 128 it reaches 713 TFLOP/s. The version before had 1.05 times. Beside the faster of
cuDNN and FlashAttention-4 at each size it has 1.00 times the speed: 1.00 to 1.04 at D = 128 but for S = 16384 without a
mask (0.99), and 0.96 to 1.04 at D = 64, where the exponentials take longest.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
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


class Plan(NamedTuple):
    """Consumers of 64 queries, slots in the rings of k and v, and registers of a thread at launch and in a consumer.

    `turns`: consumers take turns. `beside`: a consumer's softmax runs beside its own p v.
    """

    consumers: int
    slots: int
    launched: int
    registers: int
    turns: bool
    beside: bool


BLOCK_N = 128
# From here on, tiles of 192 queries waste little at the end.
LONG = 2048
# By D, and whether there are LONG queries or more.
PLANS = {
    (64, False): Plan(2, 2, 168, 240, turns=True, beside=False),
    (64, True): Plan(3, 3, 128, 160, turns=True, beside=True),
    (128, False): Plan(2, 2, 168, 240, turns=True, beside=True),
    (128, True): Plan(2, 2, 168, 240, turns=False, beside=True),
}


# -- Hopper ----------------------------------------------------------------------------------------------------------


@gluon.jit
def tile_at(turn, sizes, CAUSAL: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr):
    """Return this program's tile number `turn`: head, tile of queries, tiles of keys that it sees, and if it exists.

    A row without a key needs one tile all the same, in which every key is hidden.
    """
    _, _, Sq, Skv, heads, tiles, together = sizes
    place = gl.program_id(0) + turn * gl.num_programs(0)
    if CAUSAL:
        # Each round of programs goes the other way than the one before.
        if turn % 2 == 1:
            place = (turn + 1) * gl.num_programs(0) - 1 - gl.program_id(0)
        part = place // (together * tiles)
        inside = place - part * together * tiles
        width = gl.minimum(together, heads - part * together)
        head = part * together + inside % width
        tile = inside // width
        # The last part begins with the longest tiles, the one before with the shortest, and so on.
        parts = (heads + together - 1) // together
        if (parts - part) % 2 == 1:
            tile = tiles - 1 - tile
    else:
        head = place // tiles
        tile = place - head * tiles
    last = Skv
    if CAUSAL:
        last = gl.minimum(gl.maximum(tile * BLOCK_M + BLOCK_M + Skv - Sq, 1), Skv)
    return head, tile, (last + BLOCK_N - 1) // BLOCK_N, place < heads * tiles


@gluon.jit
def produce(
    descriptors,
    memory,
    barriers,
    sizes,
    D: gl.constexpr,
    CAUSAL: gl.constexpr,
    BLOCK_N: gl.constexpr,
    CONSUMERS: gl.constexpr,
    SLOTS: gl.constexpr,
):
    """Load 64 · D elements of q for each consumer, then BLOCK_N · D of k and of v for each step."""
    q_desc, k_desc, v_desc, _ = descriptors
    q_smem, k_smem, v_smem, _ = memory
    q_full, q_empty, k_full, k_empty, v_full, v_empty, _ = barriers
    Hq, group, _, _, _, _, _ = sizes
    turn = 0
    step = 0
    head, tile, n, exists = tile_at(turn, sizes, CAUSAL, 64 * CONSUMERS, BLOCK_N)
    while exists:
        b = head // Hq
        hq = head - b * Hq
        for me in gl.static_range(CONSUMERS):
            mbarrier.wait(q_empty.index(me), (turn & 1) ^ 1)
            mbarrier.expect(q_full.index(me), 64 * D * 2)
            row = (tile * CONSUMERS + me) * 64
            tma.async_copy_global_to_shared(q_desc, [b, hq, row, 0], q_full.index(me), q_smem.index(me))
        for j in range(n):
            slot = step % SLOTS
            empty_phase = (step // SLOTS & 1) ^ 1
            key = (n - 1 - j) * BLOCK_N
            mbarrier.wait(k_empty.index(slot), empty_phase)
            mbarrier.expect(k_full.index(slot), BLOCK_N * D * 2)
            tma.async_copy_global_to_shared(k_desc, [b, hq // group, key, 0], k_full.index(slot), k_smem.index(slot))
            mbarrier.wait(v_empty.index(slot), empty_phase)
            mbarrier.expect(v_full.index(slot), BLOCK_N * D * 2)
            tma.async_copy_global_to_shared(v_desc, [b, hq // group, key, 0], v_full.index(slot), v_smem.index(slot))
            step += 1
        turn += 1
        head, tile, n, exists = tile_at(turn, sizes, CAUSAL, 64 * CONSUMERS, BLOCK_N)


@gluon.jit
def wait_for_turn(turns, step, ME: gl.constexpr, TURNS: gl.constexpr):
    """Wait until the consumer before this one has issued its products. The first one begins."""
    if TURNS:
        if ME == 0:
            mbarrier.wait(turns.index(ME), (step & 1) ^ 1)
        else:
            mbarrier.wait(turns.index(ME), step & 1)


@gluon.jit
def end_turn(turns, CONSUMERS: gl.constexpr, ME: gl.constexpr, TURNS: gl.constexpr):
    """Let the next consumer issue its products."""
    if TURNS:
        mbarrier.arrive(turns.index((ME + 1) % CONSUMERS))


@gluon.jit
def hide(s, first_row, first_key, sizes, CAUSAL: gl.constexpr, S_LAYOUT: gl.constexpr):
    """Give -inf to keys that do not exist or that a query must not see, if the tile has any."""
    _, _, Sq, Skv, _, _, _ = sizes
    visible_to_all = Skv
    if CAUSAL:
        visible_to_all = gl.minimum(first_row + 1 + Skv - Sq, Skv)
    if first_key + s.shape[1] > visible_to_all:
        rows = first_row + gl.arange(0, 64, gl.SliceLayout(1, S_LAYOUT))
        keys = first_key + gl.arange(0, s.shape[1], gl.SliceLayout(0, S_LAYOUT))
        visible = keys[None, :] < Skv
        if CAUSAL:
            visible = visible & (keys[None, :] <= rows[:, None] + (Skv - Sq))
        s = gl.where(visible, s, float("-inf"))
    return s


@gluon.jit
def weights(s, new_top, qk_scale):
    """Return 2**(s · qk_scale - top), one fused multiply-add and one exp2 each, and what was subtracted."""
    # A row that has seen no key yet: any finite shift will do, where -inf minus -inf would be NaN.
    shift = gl.where(new_top == float("-inf"), 0.0, new_top)
    return gl.exp2(s * qk_scale - shift[:, None]), shift


@gluon.jit
def partial_sums(weight):
    """Return [64, 4] sums of rows: of what each of the four threads that share a row holds, in pairs of columns."""
    columns: gl.constexpr = weight.shape[1] // 8
    return gl.sum(gl.sum(weight.reshape([64, columns, 4, 2]), 3), 1)


@gluon.jit
def consume(
    shared,
    D: gl.constexpr,
    CAUSAL: gl.constexpr,
    BLOCK_N: gl.constexpr,
    CONSUMERS: gl.constexpr,
    SLOTS: gl.constexpr,
    TURNS: gl.constexpr,
    BESIDE: gl.constexpr,
    ME: gl.constexpr,
):
    """Compute o and lse of 64 queries of each of this program's tiles.

    `acc` is relative to 2**top, the largest logit so far, and `total` holds the sums of the weights.
    """
    descriptors, lse_ptr, memory, barriers, sizes, qk_scale = shared
    _, _, _, o_desc = descriptors
    q_smem, k_smem, v_smem, o_smem = memory
    q_full, q_empty, k_full, k_empty, v_full, v_empty, turns = barriers
    _, _, Sq, _, _, _, _ = sizes
    dtype: gl.constexpr = o_desc.dtype
    # Both products are sums in registers. p becomes the left operand of the second one without leaving them.
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    Q_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, S_LAYOUT, 2)
    O_ROWS: gl.constexpr = gl.SliceLayout(1, O_LAYOUT)
    nothing = gl.zeros([64, BLOCK_N], gl.float32, S_LAYOUT)
    turn = 0
    step = 0
    head, tile, n, exists = tile_at(turn, sizes, CAUSAL, 64 * CONSUMERS, BLOCK_N)
    while exists:
        first_row = (tile * CONSUMERS + ME) * 64
        q = q_smem.index(ME).reshape([64, D])
        mbarrier.wait(q_full.index(ME), turn & 1)
        if CONSUMERS == 2:
            # There are registers for q: its slot is free for the next tile at once. The fence makes these reads come
            # before the write of the copy engine. Without it, a few rows were wrong now and then.
            q = q.load(Q_LAYOUT)
            fence_async_shared()
            mbarrier.arrive(q_empty.index(ME))

        # The first step has no p v to run beside.
        slot = step % SLOTS
        k = k_smem.index(slot).reshape([BLOCK_N, D]).permute((1, 0))
        mbarrier.wait(k_full.index(slot), step // SLOTS & 1)
        wait_for_turn(turns, step, ME, TURNS)
        s = warpgroup_mma(q, k, nothing, use_acc=False, is_async=True)
        end_turn(turns, CONSUMERS, ME, TURNS)
        s = warpgroup_mma_wait(0, deps=[s])
        mbarrier.arrive(k_empty.index(slot))
        s = hide(s, first_row, (n - 1) * BLOCK_N, sizes, CAUSAL, S_LAYOUT)
        top = gl.max(s, 1) * qk_scale
        weight, shift = weights(s, top, qk_scale)
        total = partial_sums(weight)
        p = gl.convert_layout(weight.to(dtype), P_LAYOUT)
        acc = gl.zeros([64, D], gl.float32, O_LAYOUT)
        if BESIDE:
            mbarrier.wait(v_full.index(slot), step // SLOTS & 1)
        step += 1
        for j in range(1, n):
            slot = step % SLOTS
            before = (step - 1) % SLOTS
            k = k_smem.index(slot).reshape([BLOCK_N, D]).permute((1, 0))
            v = v_smem.index(before).reshape([BLOCK_N, D])
            mbarrier.wait(k_full.index(slot), step // SLOTS & 1)
            wait_for_turn(turns, step, ME, TURNS)
            s = warpgroup_mma(q, k, nothing, use_acc=False, is_async=True)
            if not BESIDE:
                mbarrier.wait(v_full.index(before), (step - 1) // SLOTS & 1)
            acc = warpgroup_mma(p, v, acc, is_async=True)
            end_turn(turns, CONSUMERS, ME, TURNS)
            # The older of the two products is done; p v goes on.
            s = warpgroup_mma_wait(1, deps=[s])
            mbarrier.arrive(k_empty.index(slot))
            s = hide(s, first_row, (n - 1 - j) * BLOCK_N, sizes, CAUSAL, S_LAYOUT)
            new_top = gl.maximum(top, gl.max(s, 1) * qk_scale)
            weight, shift = weights(s, new_top, qk_scale)
            rescale = gl.exp2(top - shift)
            total = total * gl.convert_layout(rescale, gl.SliceLayout(1, total.type.layout))[:, None]
            total += partial_sums(weight)
            top = new_top
            if BESIDE:
                # The v that the next step needs. The compiler moves no computation across a wait for a barrier, but it
                # would compute all weights after the wait for p v.
                mbarrier.wait(v_full.index(slot), step // SLOTS & 1)
                acc, weight = warpgroup_mma_wait(0, deps=[acc, weight])
            else:
                acc = warpgroup_mma_wait(0, deps=[acc])
            mbarrier.arrive(v_empty.index(before))
            p = gl.convert_layout(weight.to(dtype), P_LAYOUT)
            # What was added up so far was relative to the old maximum.
            acc = acc * gl.convert_layout(rescale, O_ROWS)[:, None]
            step += 1
        if CONSUMERS != 2:
            mbarrier.arrive(q_empty.index(ME))

        # The last p v; lse is written beside it. A row without keys: log2(0) = -inf, and 0 / 1 = 0.
        before = (step - 1) % SLOTS
        if not BESIDE:
            mbarrier.wait(v_full.index(before), (step - 1) // SLOTS & 1)
        acc = warpgroup_mma(p, v_smem.index(before).reshape([BLOCK_N, D]), acc, is_async=True)
        total = gl.convert_layout(gl.sum(total, 1), gl.SliceLayout(1, S_LAYOUT))
        rows = first_row + gl.arange(0, 64, gl.SliceLayout(1, S_LAYOUT))
        lse = (top + gl.log2(total)) * 0.6931471805599453
        gl.store(lse_ptr + head.to(gl.int64) * Sq + rows, lse, mask=rows < Sq)
        inverse = 1.0 / gl.where(total == 0.0, 1.0, total)
        acc = warpgroup_mma_wait(0, deps=[acc])
        mbarrier.arrive(v_empty.index(before))
        o = acc * gl.convert_layout(inverse, O_ROWS)[:, None]
        # The copy of the tile before must have left the buffer.
        tma.store_wait(0)
        o_smem.index(ME).reshape([64, D]).store(o.to(dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(o_desc, [head, first_row, 0], o_smem.index(ME))
        turn += 1
        head, tile, n, exists = tile_at(turn, sizes, CAUSAL, 64 * CONSUMERS, BLOCK_N)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["lse_ptr", "Hq", "group", "Sq", "Skv", "heads", "tiles", "together", "qk_scale"])
def hopper_kernel(
    q_desc,
    k_desc,
    v_desc,
    o_desc,
    lse_ptr,
    Hq,
    group,
    Sq,
    Skv,
    heads,
    tiles,
    together,
    qk_scale,
    D: gl.constexpr,
    CAUSAL: gl.constexpr,
    BLOCK_N: gl.constexpr,
    CONSUMERS: gl.constexpr,
    SLOTS: gl.constexpr,
    TURNS: gl.constexpr,
    BESIDE: gl.constexpr,
    REGISTERS: gl.constexpr,
):
    """o and lse of this program's share of heads · tiles tiles of 64 · CONSUMERS queries.

    q_desc, k_desc, v_desc: [B, H, S, D] in boxes of 64 and BLOCK_N rows; o_desc: [B · Hq, Sq, D] in boxes of 64 rows.
    Four warps are launched as the first consumer; the other roles come on top.
    """
    dtype: gl.constexpr = q_desc.dtype
    q_smem = gl.allocate_shared_memory(dtype, [CONSUMERS, 1, 1, 64, D], q_desc.layout)
    k_smem = gl.allocate_shared_memory(dtype, [SLOTS, 1, 1, BLOCK_N, D], k_desc.layout)
    v_smem = gl.allocate_shared_memory(dtype, [SLOTS, 1, 1, BLOCK_N, D], v_desc.layout)
    o_smem = gl.allocate_shared_memory(dtype, [CONSUMERS, 1, 64, D], o_desc.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [CONSUMERS, 1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [CONSUMERS, 1], mbarrier.MBarrierLayout())
    turns = gl.allocate_shared_memory(gl.int64, [CONSUMERS, 1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(CONSUMERS):
        mbarrier.init(q_full.index(i), count=1)
        mbarrier.init(q_empty.index(i), count=1)
        mbarrier.init(turns.index(i), count=1)
    for i in gl.static_range(SLOTS):
        mbarrier.init(k_full.index(i), count=1)
        mbarrier.init(k_empty.index(i), count=CONSUMERS)
        mbarrier.init(v_full.index(i), count=1)
        mbarrier.init(v_empty.index(i), count=CONSUMERS)
    # The copy engine must see them.
    fence_async_shared()
    descriptors = (q_desc, k_desc, v_desc, o_desc)
    memory = (q_smem, k_smem, v_smem, o_smem)
    barriers = (q_full, q_empty, k_full, k_empty, v_full, v_empty, turns)
    sizes = (Hq, group, Sq, Skv, heads, tiles, together)
    shared = (descriptors, lse_ptr, memory, barriers, sizes, qk_scale)
    # Written out, because a tuple that gets a name holds no constants.
    if CONSUMERS == 2:
        gl.warp_specialize(
            [
                (consume, (shared, D, CAUSAL, BLOCK_N, 2, SLOTS, TURNS, BESIDE, 0)),
                (consume, (shared, D, CAUSAL, BLOCK_N, 2, SLOTS, TURNS, BESIDE, 1)),
                (produce, (descriptors, memory, barriers, sizes, D, CAUSAL, BLOCK_N, 2, SLOTS)),
            ],
            [4, 1],
            [REGISTERS, 24],
        )
    else:
        gl.warp_specialize(
            [
                (consume, (shared, D, CAUSAL, BLOCK_N, 3, SLOTS, TURNS, BESIDE, 0)),
                (consume, (shared, D, CAUSAL, BLOCK_N, 3, SLOTS, TURNS, BESIDE, 1)),
                (consume, (shared, D, CAUSAL, BLOCK_N, 3, SLOTS, TURNS, BESIDE, 2)),
                (produce, (descriptors, memory, barriers, sizes, D, CAUSAL, BLOCK_N, 3, SLOTS)),
            ],
            [4, 4, 1],
            [REGISTERS, REGISTERS, 24],
        )


def described(tensor: torch.Tensor, rows: int) -> TensorDescriptor:
    """Describe a tensor […, S, D] for TMA, in boxes of `rows` rows of one head."""
    box = [1] * (tensor.dim() - 2) + [rows, tensor.shape[-1]]
    layout = gl.NVMMASharedLayout.get_default_for(box, DTYPES[tensor.dtype])
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), box, layout)


def runs_on_hopper(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> bool:
    """Return whether the Gluon kernel takes this problem."""
    # Triton's interpreter does not know Gluon.
    if triton.knobs.runtime.interpret or not q.is_cuda or torch.cuda.get_device_capability(q.device) != (9, 0):
        return False
    if q.dtype not in DTYPES or q.shape[-1] not in (64, 128) or scale <= 0:
        return False
    return all(suits_copy_engine(one) for one in (q, k, v))


def suits_copy_engine(tensor: torch.Tensor) -> bool:
    """Return whether the address and the strides are multiples of 16 bytes, and rows are contiguous."""
    *steps, last = tensor.stride()
    return tensor.data_ptr() % 16 == 0 and last == 1 and all(step > 0 and step % 8 == 0 for step in steps)


def launch_on_hopper(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, causal: bool, scale: float
) -> None:
    """Launch one program for each multiprocessor, or fewer if there are fewer tiles."""
    batch, heads, queries, width = q.shape
    kv_heads, keys = k.shape[1:3]
    plan = PLANS[width, queries >= LONG]
    tiles = triton.cdiv(queries, 64 * plan.consumers)
    programs = min(batch * heads * tiles, torch.cuda.get_device_properties(q.device).multi_processor_count)
    # Heads whose causal tiles are walked together: two rounds of programs.
    together = max(1, min(batch * heads, round(2 * programs / tiles)))
    hopper_kernel[(programs,)](
        *(described(q, 64), described(k, BLOCK_N), described(v, BLOCK_N), described(o.view(-1, queries, width), 64)),
        *(lse, heads, heads // kv_heads, queries, keys, batch * heads, tiles, together, scale * LOG2_E),
        D=width,
        CAUSAL=causal,
        BLOCK_N=BLOCK_N,
        CONSUMERS=plan.consumers,
        SLOTS=plan.slots,
        TURNS=plan.turns,
        BESIDE=plan.beside,
        REGISTERS=plan.registers,
        num_warps=4,
        maxnreg=plan.launched,
    )


# -- everything else -------------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["Hq", "group", "Sq", "Skv", "qk_scale"])
def portable_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
    Hq,
    group,
    Sq,
    Skv,
    qk_scale,
    stride_qb,
    stride_qh,
    stride_qs,
    stride_kb,
    stride_kh,
    stride_ks,
    stride_vb,
    stride_vh,
    stride_vs,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    NEGATIVE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """o and lse of BLOCK_M queries of one head, with a mask for every tile. qk_scale = |scale| · log2 e."""
    tiles = tl.cdiv(Sq, BLOCK_M)
    head = (tl.program_id(0) // tiles).to(tl.int64)
    tile = tl.program_id(0) % tiles
    b = head // Hq
    hq = head % Hq
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)[None, :]
    row_mask = rows[:, None] < Sq
    # BLOCK_M · D elements of q, once; the sign of the scale goes with them.
    q_ptr += b * stride_qb + hq * stride_qh
    q = tl.load(q_ptr + rows.to(tl.int64)[:, None] * stride_qs + dims, mask=row_mask, other=0.0)
    if NEGATIVE:
        q = -q
    k_ptr += b * stride_kb + hq // group * stride_kh
    v_ptr += b * stride_vb + hq // group * stride_vh
    last = Skv
    if CAUSAL:
        last = tl.minimum(tl.maximum(tile * BLOCK_M + BLOCK_M + Skv - Sq, 0), Skv)
    acc = tl.full((BLOCK_M, D), 0.0, dtype=tl.float32)
    total = tl.full((BLOCK_M,), 0.0, dtype=tl.float32)
    top = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    for start in range(0, last, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        # BLOCK_N · D elements of k, and as many of v, for BLOCK_M queries.
        key_mask = keys[:, None] < Skv
        k = tl.load(k_ptr + keys.to(tl.int64)[:, None] * stride_ks + dims, mask=key_mask, other=0.0)
        v = tl.load(v_ptr + keys.to(tl.int64)[:, None] * stride_vs + dims, mask=key_mask, other=0.0)
        visible = keys[None, :] < Skv
        if CAUSAL:
            visible &= keys[None, :] <= rows[:, None] + (Skv - Sq)
        s = tl.where(visible, tl.dot(q, tl.trans(k)) * qk_scale, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        p = tl.exp2(s - shift[:, None])
        rescale = tl.exp2(top - shift)
        total = total * rescale + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * rescale[:, None])
        top = new_top
    o = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    o_ptrs = o_ptr + (head * Sq + rows)[:, None] * D + dims
    tl.store(o_ptrs, o.to(o_ptr.dtype.element_ty), mask=row_mask)
    tl.store(lse_ptr + head * Sq + rows, (top + tl.log2(total)) * 0.6931471805599453, mask=rows < Sq)


def launch_portable(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, causal: bool, scale: float
) -> None:
    """Launch one program for each tile of 64 queries of each head."""
    batch, heads, queries, width = q.shape
    kv_heads, keys = k.shape[1:3]
    portable_kernel[(triton.cdiv(queries, 64) * batch * heads,)](
        *(q, k, v, o, lse, heads, heads // kv_heads, queries, keys, abs(scale) * LOG2_E),
        *(step for one in (q, k, v) for step in one.stride()[:3]),
        D=width,
        CAUSAL=causal,
        NEGATIVE=scale < 0,
        BLOCK_M=64,
        BLOCK_N=64,
        num_warps=4,
        num_stages=2,
    )


def attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """o = softmax(scale · q kᵀ) v, and lse, the logarithm of every row's sum of exp."""
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    launch = launch_on_hopper if runs_on_hopper(q, k, v, scale) else launch_portable
    launch(q, k, v, o, lse, bool(causal), scale)
    return o, lse
