"""matmul_bias_silu: bias_repeated

The bias is added in every block of K.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def seeded_kernel(
    a_ptr, b_ptr, bias_ptr, o_ptr, M, N, K, sam, sak, sbk, sbn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, UNROLL: tl.constexpr,
):
    """UNROLL blocks of K per turn of the loop."""
    pid_n = tl.program_id(0)
    pid_m = tl.program_id(1)
    om = (pid_m * BM + tl.arange(0, BM)).to(tl.int64)
    on = (pid_n * BN + tl.arange(0, BN)).to(tl.int64)
    ok = tl.arange(0, BK).to(tl.int64)
    bias = tl.load(bias_ptr + on, mask=on < N, other=0.0).to(tl.float32)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, UNROLL * BK):
        for u in tl.static_range(UNROLL):
            kk = k0 + u * BK + ok
            a = tl.load(
                a_ptr + om[:, None] * sam + kk[None, :] * sak, mask=(om[:, None] < M) & (kk[None, :] < K), other=0.0
            )
            b = tl.load(
                b_ptr + kk[:, None] * sbk + on[None, :] * sbn, mask=(kk[:, None] < K) & (on[None, :] < N), other=0.0
            )
            acc = tl.dot(a, b, acc, input_precision="ieee") + bias[None, :]
    y = acc / (1.0 + tl.exp(-acc))
    tl.store(
        o_ptr + om[:, None] * N + on[None, :], y.to(o_ptr.dtype.element_ty), mask=(om[:, None] < M) & (on[None, :] < N)
    )


def matmul_bias_silu(a, b, bias):
    M, K = a.shape
    N = b.shape[1]
    out = torch.empty((M, N), dtype=a.dtype, device=a.device)
    seeded_kernel[(triton.cdiv(N, 64), triton.cdiv(M, 64))](
        a, b, bias, out, M, N, K, *a.stride(), *b.stride(), BM=64, BN=64, BK=16, UNROLL=2
    )
    return out
