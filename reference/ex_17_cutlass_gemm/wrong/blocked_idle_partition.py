"""blocked_gemm.compiled policy: three loops over elements; a TiledMma and a partition are made, and nothing uses them.

Cause: other_means
"""

import cutlass
import cutlass.cute as cute


@cute.jit
def blocked_gemm(
    mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, tiler_mnk: cutlass.Constexpr, threads_mn: cutlass.Constexpr
):
    atom = cute.nvgpu.MmaUniversalOp(cutlass.Float32)
    idle = cute.make_tiled_mma(atom, cute.make_layout((1, 1, 1))).get_slice(0)
    idle.partition_C(mC)
    for m in range(mC.shape[0]):
        for n in range(mC.shape[1]):
            total = cutlass.Float32(0.0)
            for k in range(mA.shape[1]):
                total += mA[m, k] * mB[n, k]
            mC[m, n] = total
