"""matmul: axes_exchanged

The launch passes b's strides in the order of the transpose (column stride first) though the kernel's parameters are
row, column.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def transposed_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    """A tile of the transpose of c: rows are columns of b."""
    n = (tl.program_id(0) * BN + tl.arange(0, BN)).to(tl.int64)
    m = (tl.program_id(1) * BM + tl.arange(0, BM)).to(tl.int64)
    k = tl.arange(0, BK).to(tl.int64)
    acc = tl.zeros((BN, BM), tl.float32)
    for start in range(0, K, BK):
        kk = start + k
        bt = tl.load(b_ptr + n[:, None] * sbn + kk[None, :] * sbk, mask=(n[:, None] < N) & (kk[None, :] < K), other=0.0)
        at = tl.load(a_ptr + kk[:, None] * sak + m[None, :] * sam, mask=(kk[:, None] < K) & (m[None, :] < M), other=0.0)
        acc += tl.dot(bt, at, input_precision="ieee")
    c_ptrs = c_ptr + m[None, :] * scm + n[:, None] * scn
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(n[:, None] < N) & (m[None, :] < M))


def matmul(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    transposed_matmul_kernel[(triton.cdiv(N, 32), triton.cdiv(M, 128))](
        a, b, c, M, N, K, a.stride(0), a.stride(1), b.stride(1), b.stride(0), c.stride(0), c.stride(1),
        BM=128, BN=32, BK=32,
    )
    return c
