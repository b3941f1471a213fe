"""zipped_divide and one more mode for the tiles, instead of local_tile."""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import MmaUniversalOp


@cute.jit
def blocked_gemm(
    mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, tiler_mnk: cutlass.Constexpr, threads_mn: cutlass.Constexpr
):
    bM, bN, bK = tiler_mnk
    tM, tN = threads_mn
    tiled_mma = cute.make_tiled_mma(MmaUniversalOp(cutlass.Float32), cute.make_layout((tM, tN, 1), stride=(tN, 1, 0)))
    # ((rows of a tile, columns of a tile), (tile rows, tile columns))
    dA, dB, dC = (cute.zipped_divide(one, tile) for one, tile in ((mA, (bM, bK)), (mB, (bN, bK)), (mC, (bM, bN))))
    eA, eB, eC = (
        cute.zipped_divide(cute.make_identity_tensor(one.shape), tile)
        for one, tile in ((mA, (bM, bK)), (mB, (bN, bK)), (mC, (bM, bN)))
    )
    for tile in range(cute.size(dC, mode=[1])):
        m, n = tile % cute.size(dC, mode=[1, 0]), tile // cute.size(dC, mode=[1, 0])
        for thread in range(tM * tN):
            thr_mma = tiled_mma.get_slice(thread)
            mine = thr_mma.partition_C(dC[(None, None), (m, n)])
            where = thr_mma.partition_C(eC[(None, None), (m, n)])
            acc = tiled_mma.make_fragment_C(mine)
            acc.fill(0.0)
            for k in range(cute.size(dA, mode=[1, 1])):
                at_A, at_B = ((None, None), (m, k)), ((None, None), (n, k))
                rA = loaded(thr_mma.partition_A(dA[at_A]), thr_mma.partition_A(eA[at_A]), mA.shape)
                rB = loaded(thr_mma.partition_B(dB[at_B]), thr_mma.partition_B(eB[at_B]), mB.shape)
                cute.gemm(tiled_mma, acc, rA, rB, acc)
            for i in range(cute.size(acc)):
                if cute.elem_less(where[i], mC.shape):
                    mine[i] = acc[i]


@cute.jit
def loaded(part: cute.Tensor, where: cute.Tensor, shape: cutlass.Constexpr):
    fragment = cute.make_rmem_tensor_like(part)
    for i in range(cute.size(fragment)):
        fragment[i] = cutlass.Float32(0.0)
        if cute.elem_less(where[i], shape):
            fragment[i] = part[i]
    return fragment
