"""Tile by tile and thread by thread; what lies beyond the end is loaded as zero and never stored."""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import MmaUniversalOp


@cute.jit
def blocked_gemm(
    mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, tiler_mnk: cutlass.Constexpr, threads_mn: cutlass.Constexpr
):
    """C = A · Bᵀ, tile by tile and thread by thread, as a kernel's grid would do it."""
    bM, bN, bK = tiler_mnk
    tiled_mma = cute.make_tiled_mma(MmaUniversalOp(cutlass.Float32), cute.make_layout((*threads_mn, 1)))

    # Element (i, j) of an identity tensor is (i, j): partitioned like the matrix, it says where every element lies.
    cA = cute.make_identity_tensor(mA.shape)
    cB = cute.make_identity_tensor(mB.shape)
    cC = cute.make_identity_tensor(mC.shape)
    tiles_m, tiles_n, tiles_k = cute.ceil_div((*mC.shape, mA.shape[1]), tiler_mnk)

    for m in range(tiles_m):
        for n in range(tiles_n):
            gC = cute.local_tile(mC, (bM, bN), (m, n))
            tile_of_cC = cute.local_tile(cC, (bM, bN), (m, n))
            for thread in range(threads_mn[0] * threads_mn[1]):
                thr_mma = tiled_mma.get_slice(thread)
                tCgC, tCcC = thr_mma.partition_C(gC), thr_mma.partition_C(tile_of_cC)
                acc = tiled_mma.make_fragment_C(tCgC)
                acc.fill(0.0)
                for k in range(tiles_k):
                    tCgA = thr_mma.partition_A(cute.local_tile(mA, (bM, bK), (m, k)))
                    tCgB = thr_mma.partition_B(cute.local_tile(mB, (bN, bK), (n, k)))
                    tCcA = thr_mma.partition_A(cute.local_tile(cA, (bM, bK), (m, k)))
                    tCcB = thr_mma.partition_B(cute.local_tile(cB, (bN, bK), (n, k)))
                    rA, rB = tiled_mma.make_fragment_A(tCgA), tiled_mma.make_fragment_B(tCgB)
                    # What lies beyond the end adds nothing.
                    rA.fill(0.0)
                    rB.fill(0.0)
                    for i in range(cute.size(rA)):
                        if cute.elem_less(tCcA[i], mA.shape):
                            rA[i] = tCgA[i]
                    for i in range(cute.size(rB)):
                        if cute.elem_less(tCcB[i], mB.shape):
                            rB[i] = tCgB[i]
                    cute.gemm(tiled_mma, acc, rA, rB, acc)
                for i in range(cute.size(acc)):
                    if cute.elem_less(tCcC[i], mC.shape):
                        tCgC[i] = acc[i]
