"""matmul_bias_silu: bias_axis

In the transposed tile the bias is loaded by the rows of out (m) and laid along them.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def fused_transposed_kernel(
    a_ptr, b_ptr, bias_ptr, o_ptr, M, N, K, sam, sak, sbk, sbn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    """Tiles of the transpose: columns of out are rows of the tile."""
    n = (tl.program_id(0) * BN + tl.arange(0, BN)).to(tl.int64)
    m = (tl.program_id(1) * BM + tl.arange(0, BM)).to(tl.int64)
    acc = tl.zeros((BN, BM), tl.float32)
    for k0 in range(0, K, BK):
        k = (k0 + tl.arange(0, BK)).to(tl.int64)
        bt = tl.load(b_ptr + n[:, None] * sbn + k[None, :] * sbk, mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
        at = tl.load(a_ptr + k[:, None] * sak + m[None, :] * sam, mask=(k[:, None] < K) & (m[None, :] < M), other=0.0)
        acc = tl.dot(bt, at, acc, input_precision="ieee")
    bias = tl.load(bias_ptr + m, mask=m < N, other=0.0).to(tl.float32)
    z = acc + bias[None, :]
    z = z * (1.0 / (1.0 + tl.exp(-z)))
    tl.store(
        o_ptr + m[None, :] * N + n[:, None], z.to(o_ptr.dtype.element_ty), mask=(n[:, None] < N) & (m[None, :] < M)
    )


def matmul_bias_silu(a, b, bias):
    M, K = a.shape
    N = b.shape[1]
    out = torch.empty((M, N), dtype=a.dtype, device=a.device)
    fused_transposed_kernel[(triton.cdiv(N, 64), triton.cdiv(M, 64))](
        a, b, bias, out, M, N, K, *a.stride(), *b.stride(), BM=64, BN=64, BK=32
    )
    return out
