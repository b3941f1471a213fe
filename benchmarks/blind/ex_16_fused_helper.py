"""matmul_bias_silu: overflow

silu as z * exp(z) / (1 + exp(z)) is inf / inf for large z.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def silu(z):
    e = tl.exp(z)
    return z * e / (1.0 + e)


@triton.jit
def mm_bias_silu_kernel(
    a_ptr, b_ptr, bias_ptr, o_ptr, M, N, K, sam, sak, sbk, sbn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    rm = (tl.program_id(0) * BM + tl.arange(0, BM)).to(tl.int64)
    rn = (tl.program_id(1) * BN + tl.arange(0, BN)).to(tl.int64)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        rk = (k0 + tl.arange(0, BK)).to(tl.int64)
        a = tl.load(a_ptr + rm[:, None] * sam + rk[None, :] * sak, mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(b_ptr + rk[:, None] * sbk + rn[None, :] * sbn, mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    bias = tl.load(bias_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)
    out = silu(acc + bias[None, :])
    tl.store(
        o_ptr + rm[:, None] * N + rn[None, :], out.to(o_ptr.dtype.element_ty), mask=(rm[:, None] < M) & (rn[None, :] < N)
    )


def matmul_bias_silu(a, b, bias):
    M, K = a.shape
    N = b.shape[1]
    out = torch.empty((M, N), dtype=a.dtype, device=a.device)
    mm_bias_silu_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](
        a, b, bias, out, M, N, K, *a.stride(), *b.stride(), BM=64, BN=64, BK=32
    )
    return out
