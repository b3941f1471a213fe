"""matmul: low_precision_sum or overflow

The chunks' sums are added up by atomics in the dtype of c, so partial sums are rounded to float16.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def split_k_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, chunk,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ATOMIC: tl.constexpr,
):
    """A tile of c from one chunk of K."""
    rm = (tl.program_id(0) * BM + tl.arange(0, BM)).to(tl.int64)
    rn = (tl.program_id(1) * BN + tl.arange(0, BN)).to(tl.int64)
    lo = tl.program_id(2) * chunk
    hi = tl.minimum(lo + chunk, K)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(lo, hi, BK):
        rk = (k0 + tl.arange(0, BK)).to(tl.int64)
        a = tl.load(a_ptr + rm[:, None] * sam + rk[None, :] * sak, mask=(rm[:, None] < M) & (rk[None, :] < hi), other=0.0)
        b = tl.load(b_ptr + rk[:, None] * sbk + rn[None, :] * sbn, mask=(rk[:, None] < hi) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    place = c_ptr + rm[:, None] * N + rn[None, :]
    if ATOMIC:
        tl.atomic_add(place, acc.to(c_ptr.dtype.element_ty), mask=mask, sem="relaxed")
    else:
        tl.store(place, acc.to(c_ptr.dtype.element_ty), mask=mask)


def matmul(a, b):
    M, K = a.shape
    N = b.shape[1]
    splits = 8 if K >= 512 else 1
    chunk = triton.cdiv(K, splits)
    if splits > 1:
        c = torch.zeros((M, N), dtype=a.dtype, device=a.device)
    else:
        c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    split_k_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64), splits)](
        a, b, c, M, N, K, *a.stride(), *b.stride(), chunk, BM=64, BN=64, BK=64, ATOMIC=splits > 1
    )
    return c
