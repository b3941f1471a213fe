"""matmul: remainder_skipped

Blocks of K are shared among the splits rounded down, so the last block is dropped when they do not divide.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def partial_kernel(
    a_ptr, b_ptr, p_ptr, M, N, K, sam, sak, sbk, sbn, steps,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    """p[split] = the part of a @ b that comes from `steps` blocks of K."""
    pid_m, pid_n, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rm = (pid_m * BM + tl.arange(0, BM)).to(tl.int64)
    rn = (pid_n * BN + tl.arange(0, BN)).to(tl.int64)
    rk = (split * steps * BK + tl.arange(0, BK)).to(tl.int64)
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(steps):
        km = rk < K
        a = tl.load(a_ptr + rm[:, None] * sam + rk[None, :] * sak, mask=(rm < M)[:, None] & km[None, :], other=0.0)
        b = tl.load(b_ptr + rk[:, None] * sbk + rn[None, :] * sbn, mask=km[:, None] & (rn < N)[None, :], other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
        rk += BK
    at = (split.to(tl.int64) * M + rm[:, None]) * N + rn[None, :]
    tl.store(p_ptr + at, acc.to(p_ptr.dtype.element_ty), mask=(rm < M)[:, None] & (rn < N)[None, :])


@triton.jit
def reduce_kernel(p_ptr, c_ptr, n, splits, BLOCK: tl.constexpr):
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for s in range(splits):
        total += tl.load(p_ptr + s * n + e, mask=e < n, other=0.0)
    tl.store(c_ptr + e, total.to(c_ptr.dtype.element_ty), mask=e < n)


def matmul(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    blocks = triton.cdiv(K, 32)
    splits = 1 if K < 512 else 2
    steps = blocks // splits
    p = c if splits == 1 else torch.empty((splits, M, N), dtype=torch.float32, device=a.device)
    partial_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64), splits)](
        a, b, p, M, N, K, *a.stride(), *b.stride(), steps, BM=64, BN=64, BK=32
    )
    if splits > 1:
        reduce_kernel[(triton.cdiv(M * N, 1024),)](p, c, M * N, splits, BLOCK=1024)
    return c
