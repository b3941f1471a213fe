"""matmul_bias_silu: tf32

tl.dot without input_precision rounds float32 operands to TF32.

Needs triton < 3.9: block pointers.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def fused_block_kernel(
    a_ptr, b_ptr, bias_ptr, o_ptr, M, N, K, sam, sak, sbk, sbn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    pid = tl.program_id(0)
    rows = tl.cdiv(M, BM)
    m0 = (pid % rows) * BM
    n0 = (pid // rows) * BN
    A = tl.make_block_ptr(a_ptr, (M, K), (sam, sak), (m0, 0), (BM, BK), (1, 0))
    B = tl.make_block_ptr(b_ptr, (K, N), (sbk, sbn), (0, n0), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(tl.cdiv(K, BK)):
        x = tl.load(A, boundary_check=(0, 1), padding_option="zero")
        y = tl.load(B, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(x, y, acc)
        A = tl.advance(A, (0, BK))
        B = tl.advance(B, (BK, 0))
    bias_block = tl.make_block_ptr(bias_ptr, (N,), (1,), (n0,), (BN,), (0,))
    z = acc + tl.load(bias_block, boundary_check=(0,), padding_option="zero").to(tl.float32)[None, :]
    z = z * tl.sigmoid(z)
    O = tl.make_block_ptr(o_ptr, (M, N), (N, 1), (m0, n0), (BM, BN), (1, 0))
    tl.store(O, z.to(o_ptr.dtype.element_ty), boundary_check=(0, 1))


def matmul_bias_silu(a, b, bias):
    M, K = a.shape
    N = b.shape[1]
    out = torch.empty((M, N), dtype=a.dtype, device=a.device)
    fused_block_kernel[(triton.cdiv(M, 32) * triton.cdiv(N, 64),)](
        a, b, bias, out, M, N, K, *a.stride(), *b.stride(), BM=32, BN=64, BK=64
    )
    return out
