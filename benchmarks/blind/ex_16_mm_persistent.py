"""matmul: not_cleared or not_restarted

The accumulator is cleared once per program, not once per tile.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def persistent_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, tiles,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    """As many programs as multiprocessors; each walks over its tiles."""
    columns = tl.cdiv(N, BN)
    ks = tl.arange(0, BK).to(tl.int64)
    acc = tl.zeros((BM, BN), tl.float32)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        rm = (tile // columns * BM + tl.arange(0, BM)).to(tl.int64)
        rn = (tile % columns * BN + tl.arange(0, BN)).to(tl.int64)
        a_ptrs = a_ptr + rm[:, None] * sam + ks[None, :] * sak
        b_ptrs = b_ptr + ks[:, None] * sbk + rn[None, :] * sbn
        for left in range(K, 0, -BK):
            a = tl.load(a_ptrs, mask=(rm[:, None] < M) & (ks[None, :] < left), other=0.0)
            b = tl.load(b_ptrs, mask=(ks[:, None] < left) & (rn[None, :] < N), other=0.0)
            acc = tl.dot(a, b, acc, input_precision="ieee")
            a_ptrs += BK * sak
            b_ptrs += BK * sbk
        out = c_ptr + rm[:, None] * N + rn[None, :]
        tl.store(out, acc.to(c_ptr.dtype.element_ty), mask=(rm[:, None] < M) & (rn[None, :] < N))


def matmul(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    tiles = triton.cdiv(M, 64) * triton.cdiv(N, 64)
    sms = torch.cuda.get_device_properties(a.device).multi_processor_count if a.is_cuda else 3
    persistent_matmul_kernel[(min(sms, tiles),)](
        a, b, c, M, N, K, *a.stride(), *b.stride(), tiles, BM=64, BN=64, BK=32
    )
    return c
