"""Four stages of cp.async, ldmatrix and mma.sync; each tile of C is rounded once and stored by whole rows."""

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.nvgpu import CopyUniversalOp, cpasync, warp
from cutlass.cute.runtime import from_dlpack

TILER_MNK = (128, 128, 32)
STAGES = 4
WARPS_MN = (2, 2)
# Tiles that run at the same time should share rows of a and columns of b: this many tile rows are walked together.
GROUP_M = 8
# cp.async and the stores move 16 bytes: 8 elements.
VECTOR = 8


@cute.kernel
def gemm_kernel(
    mA: cute.Tensor,
    mB: cute.Tensor,
    mC: cute.Tensor,
    sA_layout: cute.ComposedLayout,
    sB_layout: cute.ComposedLayout,
    sC_layout: cute.ComposedLayout,
    copy_A: cute.TiledCopy,
    copy_B: cute.TiledCopy,
    copy_C: cute.TiledCopy,
    tiled_mma: cute.TiledMma,
):
    """One tile of C: mA [M, K], mB [N, K], mC [M, N]; K is contiguous in A, N in B and C."""
    bM, bN, bK = TILER_MNK
    thread, _, _ = cute.arch.thread_idx()
    m, n = tile_of_block(mC)

    gA = cute.local_tile(mA, (bM, bK), (m, None))
    gB = cute.local_tile(mB, (bN, bK), (n, None))
    gC = cute.local_tile(mC, (bM, bN), (m, n))
    cA = cute.local_tile(cute.make_identity_tensor(mA.shape), (bM, bK), (m, None))
    cB = cute.local_tile(cute.make_identity_tensor(mB.shape), (bN, bK), (n, None))
    cC = cute.local_tile(cute.make_identity_tensor(mC.shape), (bM, bN), (m, n))

    smem = cutlass.memory.SmemAllocator()
    sA = smem.allocate_tensor(mA.element_type, sA_layout, 128)
    sB = smem.allocate_tensor(mB.element_type, sB_layout, 128)

    # This thread's part of every copy: (one copy, copies along the rows, copies along K, tiles of K or stages).
    thr_A, thr_B = copy_A.get_slice(thread), copy_B.get_slice(thread)
    tAgA, tAsA, tAcA = thr_A.partition_S(gA), thr_A.partition_D(sA), thr_A.partition_S(cA)
    tBgB, tBsB, tBcB = thr_B.partition_S(gB), thr_B.partition_D(sB), thr_B.partition_S(cB)
    tiles_k = cute.size(tAgA, mode=[3])
    pA, pB = predicate_like(tAsA), predicate_like(tBsB)

    # The last tile of K, which may reach past the end, comes first, into a stage of zeros. All others are whole, and
    # then only rows are left to be asked about: what is multiplied for rows beyond the end is never stored.
    last = tiles_k - 1
    tAsA[None, None, None, 0].fill(0.0)
    tBsB[None, None, None, 0].fill(0.0)
    cute.arch.sync_threads()
    inside(pA, tAcA[None, None, None, last], mA.shape)
    inside(pB, tBcB[None, None, None, last], mB.shape)
    cute.copy(copy_A, tAgA[None, None, None, last], tAsA[None, None, None, 0], pred=pA)
    cute.copy(copy_B, tBgB[None, None, None, last], tBsB[None, None, None, 0], pred=pB)
    cute.arch.cp_async_commit_group()
    rows_inside(pA, tAcA[None, None, None, 0], mA.shape[0])
    rows_inside(pB, tBcB[None, None, None, 0], mB.shape[0])
    for stage in cutlass.range_constexpr(1, STAGES - 1):
        if stage < tiles_k:
            cute.copy(copy_A, tAgA[None, None, None, stage - 1], tAsA[None, None, None, stage], pred=pA)
            cute.copy(copy_B, tBgB[None, None, None, stage - 1], tBsB[None, None, None, stage], pred=pB)
        # An empty group where there is nothing to load keeps the count of groups right.
        cute.arch.cp_async_commit_group()

    thr_mma = tiled_mma.get_slice(thread)
    tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(sA[None, None, 0]))
    tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB[None, None, 0]))
    acc = tiled_mma.make_fragment_C(thr_mma.partition_C(gC))
    acc.fill(0.0)
    # B's tile lies with N contiguous, and mma.sync wants K: ldmatrix transposes on the way.
    load_A = cute.make_tiled_copy_A(cute.make_copy_atom(warp.LdMatrix8x8x16bOp(False, 4), mA.element_type), tiled_mma)
    load_B = cute.make_tiled_copy_B(cute.make_copy_atom(warp.LdMatrix8x8x16bOp(True, 4), mB.element_type), tiled_mma)
    tXsA, tXrA = load_A.get_slice(thread).partition_S(sA), load_A.get_slice(thread).retile(tCrA)
    tXsB, tXrB = load_B.get_slice(thread).partition_S(sB), load_B.get_slice(thread).retile(tCrB)
    steps = cute.size(tCrA, mode=[2])

    # The first stage has arrived in all threads: its first step goes to registers.
    cute.arch.cp_async_wait_group(STAGES - 2)
    cute.arch.sync_threads()
    cute.copy(load_A, tXsA[None, None, 0, 0], tXrA[None, None, 0])
    cute.copy(load_B, tXsB[None, None, 0, 0], tXrB[None, None, 0])
    read, write = cutlass.Int32(0), cutlass.Int32(STAGES - 1)
    for tile in range(tiles_k):
        for step in cutlass.range_constexpr(steps):
            if cutlass.const_expr(step == steps - 1):
                # The next stage has arrived, and everybody has left the stage that is written next.
                cute.arch.cp_async_wait_group(STAGES - 2)
                cute.arch.sync_threads()
                read = read + 1 if read + 1 < STAGES else cutlass.Int32(0)
            # Registers for the next step are loaded while this one multiplies.
            ahead = (step + 1) % steps
            cute.copy(load_A, tXsA[None, None, ahead, read], tXrA[None, None, ahead])
            cute.copy(load_B, tXsB[None, None, ahead, read], tXrB[None, None, ahead])
            if cutlass.const_expr(step == 0):
                coming = tile + STAGES - 1
                if coming < tiles_k:
                    cute.copy(copy_A, tAgA[None, None, None, coming - 1], tAsA[None, None, None, write], pred=pA)
                    cute.copy(copy_B, tBgB[None, None, None, coming - 1], tBsB[None, None, None, write], pred=pB)
                cute.arch.cp_async_commit_group()
                write = write + 1 if write + 1 < STAGES else cutlass.Int32(0)
            cute.gemm(tiled_mma, acc, tCrA[None, None, step], tCrB[None, None, step], acc)

    # The result is rounded once, takes A's place in shared memory, and leaves row by row.
    cute.arch.cp_async_wait_group(0)
    cute.arch.sync_threads()
    sC = cute.make_tensor(cute.recast_ptr(sA.iterator, sC_layout.inner, dtype=mC.element_type), sC_layout.outer)
    rounded = cute.make_rmem_tensor_like(acc, mC.element_type)
    rounded.store(acc.load().to(mC.element_type))
    cute.autovec_copy(rounded, thr_mma.partition_C(sC))
    cute.arch.sync_threads()
    thr_C = copy_C.get_slice(thread)
    tDsC, tDgC, tDcC = thr_C.partition_S(sC), thr_C.partition_D(gC), thr_C.partition_S(cC)
    tDrC = cute.make_rmem_tensor_like(tDsC)
    cute.autovec_copy(tDsC, tDrC)
    pC = predicate_like(tDsC)
    inside(pC, tDcC, mC.shape)
    cute.copy(copy_C, tDrC, tDgC, pred=pC)


@cute.jit
def tile_of_block(mC: cute.Tensor):
    """Return this block's tile: GROUP_M tile rows are walked column by column, then the next GROUP_M."""
    block, _, _ = cute.arch.block_idx()
    tiles_m = cute.ceil_div(mC.shape[0], TILER_MNK[0])
    tiles_n = cute.ceil_div(mC.shape[1], TILER_MNK[1])
    first = block // (GROUP_M * tiles_n) * GROUP_M
    rows = cutlass.min(GROUP_M, tiles_m - first)
    within = block % (GROUP_M * tiles_n)
    return first + within % rows, within // rows


@cute.jit
def predicate_like(copied: cute.Tensor):
    """Return a predicate for every copy of 16 bytes in a thread's part of a tile."""
    (_, vectors), rows, columns = copied.shape[0], copied.shape[1], copied.shape[2]
    return cute.make_rmem_tensor(cute.make_layout((vectors, rows, columns)), cutlass.Boolean)


@cute.jit
def inside(predicate: cute.Tensor, coordinates: cute.Tensor, shape: cute.Shape):
    """Fill a predicate with the copies that lie inside; sizes are multiples of 8, so that no copy does in part."""
    for v in cutlass.range_constexpr(predicate.shape[0]):
        for i in cutlass.range_constexpr(predicate.shape[1]):
            for j in cutlass.range_constexpr(predicate.shape[2]):
                predicate[v, i, j] = cute.elem_less(coordinates[(0, v), i, j], shape)


@cute.jit
def rows_inside(predicate: cute.Tensor, coordinates: cute.Tensor, rows: cutlass.Int32):
    """Return the same for the first coordinate alone."""
    for v in cutlass.range_constexpr(predicate.shape[0]):
        for i in cutlass.range_constexpr(predicate.shape[1]):
            for j in cutlass.range_constexpr(predicate.shape[2]):
                predicate[v, i, j] = cute.elem_less(coordinates[(0, v), i, j][0], rows)


@cute.jit
def launch_gemm(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, stream):
    """Layouts, copies and the MMA, then the launch: one block per tile of C."""
    bM, bN, bK = TILER_MNK
    dtype = mA.element_type
    threads = 32 * WARPS_MN[0] * WARPS_MN[1]

    # Swizzles spread eight neighbouring 16-byte pieces over all banks: rows of A are 64 bytes, those of B and C 128.
    atom_A = cute.make_composed_layout(cute.make_swizzle(2, 3, 3), 0, cute.make_layout((8, bK), stride=(bK, 1)))
    atom_B = cute.make_composed_layout(cute.make_swizzle(3, 3, 3), 0, cute.make_layout((64, 8), stride=(1, 64)))
    atom_C = cute.make_composed_layout(cute.make_swizzle(3, 3, 4), 0, cute.make_layout((8, bN), stride=(bN, 1)))
    sA_layout = cute.tile_to_shape(atom_A, (bM, bK, STAGES), (0, 1, 2))
    sB_layout = cute.tile_to_shape(atom_B, (bN, bK, STAGES), (0, 1, 2))
    sC_layout = cute.tile_to_shape(atom_C, (bM, bN), (0, 1))

    load = cute.make_copy_atom(
        cpasync.CopyG2SOp(cache_mode=cpasync.LoadCacheMode.GLOBAL), dtype, num_bits_per_copy=VECTOR * dtype.width
    )
    store = cute.make_copy_atom(CopyUniversalOp(), dtype, num_bits_per_copy=VECTOR * dtype.width)
    # Neighbouring threads take neighbouring 16 bytes.
    across_k, across_n = bK // VECTOR, bN // VECTOR
    rows_of_threads = cute.make_layout((threads // across_k, across_k), stride=(across_k, 1))
    copy_A = cute.make_tiled_copy_tv(load, rows_of_threads, cute.make_layout((1, VECTOR)))
    columns_of_threads = cute.make_layout((across_n, threads // across_n), stride=(1, across_n))
    copy_B = cute.make_tiled_copy_tv(load, columns_of_threads, cute.make_layout((VECTOR, 1)))
    rows_of_threads = cute.make_layout((threads // across_n, across_n), stride=(across_n, 1))
    copy_C = cute.make_tiled_copy_tv(store, rows_of_threads, cute.make_layout((1, VECTOR)))

    # One mma.sync is 16 × 8 × 16. Two of them side by side give ldmatrix four 8 × 8 matrices of B to load at once.
    operation = warp.MmaF16BF16Op(dtype, cutlass.Float32, (16, 8, 16))
    permutation = (16 * WARPS_MN[0], 16 * WARPS_MN[1], 16)
    tiled_mma = cute.make_tiled_mma(operation, cute.make_layout((*WARPS_MN, 1)), permutation_mnk=permutation)

    blocks = cute.ceil_div(mC.shape[0], bM) * cute.ceil_div(mC.shape[1], bN)
    gemm_kernel(mA, mB, mC, sA_layout, sB_layout, sC_layout, copy_A, copy_B, copy_C, tiled_mma).launch(
        grid=(blocks, 1, 1), block=(threads, 1, 1), stream=stream
    )


_compiled = {}


def gemm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """c = a @ b, [M, N]; compiled once per dtype, for all sizes."""
    c = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    tensors = _matrix(a, 1), _matrix(b.T, 0), _matrix(c, 1)
    stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
    if a.dtype not in _compiled:
        _compiled[a.dtype] = cute.compile(launch_gemm, *tensors, stream)
    _compiled[a.dtype](*tensors, stream)
    return c


def _matrix(tensor: torch.Tensor, contiguous: int) -> cute.Tensor:
    """Return, as CuTe sees it, a matrix of any size whose rows start at multiples of 16 bytes."""
    matrix = from_dlpack(tensor, assumed_align=16).mark_layout_dynamic(leading_dim=contiguous)
    return matrix.mark_compact_shape_dynamic(mode=contiguous, stride_order=tensor.dim_order(), divisibility=VECTOR)
