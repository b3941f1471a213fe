"""gemm.compiles fail: a kernel of plain multiply-adds, which no tensor core sees.

Cause: no_tensor_cores
"""

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

SIDE = 16


@cute.kernel
def gemm_kernel(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
    row, column, _ = cute.arch.thread_idx()
    m, n, _ = cute.arch.block_idx()
    m, n = m * SIDE + row, n * SIDE + column
    if m < mC.shape[0] and n < mC.shape[1]:
        total = cutlass.Float32(0.0)
        for k in range(mA.shape[1]):
            total += mA[m, k].to(cutlass.Float32) * mB[k, n].to(cutlass.Float32)
        mC[m, n] = total.to(mC.element_type)


@cute.jit
def launch_gemm(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, stream):
    grid = (cute.ceil_div(mC.shape[0], SIDE), cute.ceil_div(mC.shape[1], SIDE), 1)
    gemm_kernel(mA, mB, mC).launch(grid=grid, block=(SIDE, SIDE, 1), stream=stream)


def gemm(a, b):
    c = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    tensors = [from_dlpack(one).mark_layout_dynamic() for one in (a, b, c)]
    launch_gemm(*tensors, cuda.CUstream(torch.cuda.current_stream().cuda_stream))
    return c
