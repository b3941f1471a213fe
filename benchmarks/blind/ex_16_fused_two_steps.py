"""matmul_bias_silu: several_launches or through_memory

The product goes to memory in float32, and a second kernel adds the bias and applies SiLU.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def mm_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    """One tile per program on a two-dimensional grid."""
    m = (tl.program_id(0) * BM + tl.arange(0, BM)).to(tl.int64)
    n = (tl.program_id(1) * BN + tl.arange(0, BN)).to(tl.int64)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, K, BK):
        k = (k0 + tl.arange(0, BK)).to(tl.int64)
        a = tl.load(a_ptr + m[:, None] * sam + k[None, :] * sak, mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * sbk + n[None, :] * sbn, mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    c_ptrs = c_ptr + m[:, None] * scm + n[None, :] * scn
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def silu(z):
    return z / (1.0 + tl.exp(-z))


@triton.jit
def epilogue_kernel(z_ptr, bias_ptr, o_ptr, n, N, BLOCK: tl.constexpr):
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < n
    z = tl.load(z_ptr + e, mask=mask, other=0.0) + tl.load(bias_ptr + e % N, mask=mask, other=0.0).to(tl.float32)
    tl.store(o_ptr + e, silu(z).to(o_ptr.dtype.element_ty), mask=mask)


def matmul_bias_silu(a, b, bias):
    M, K = a.shape
    N = b.shape[1]
    z = torch.empty((M, N), dtype=torch.float32, device=a.device)
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
    mm_kernel[grid](a, b, z, M, N, K, *a.stride(), *b.stride(), *z.stride(), BM=64, BN=64, BK=32)
    out = torch.empty((M, N), dtype=a.dtype, device=a.device)
    epilogue_kernel[(triton.cdiv(M * N, 1024),)](z, bias, out, M * N, N, BLOCK=1024)
    return out
