"""matmul: not_advanced

b's block pointer is not advanced in the loop.

Needs triton < 3.9: block pointers.
"""

import triton
import triton.language as tl


@triton.jit
def block_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    pm = tl.program_id(1)
    pn = tl.program_id(0)
    A = tl.make_block_ptr(a_ptr, (M, K), (sam, sak), (pm * BM, 0), (BM, BK), (1, 0))
    B = tl.make_block_ptr(b_ptr, (K, N), (sbk, sbn), (0, pn * BN), (BK, BN), (1, 0))
    C = tl.make_block_ptr(c_ptr, (M, N), (N, 1), (pm * BM, pn * BN), (BM, BN), (1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        a = tl.load(A, boundary_check=(0, 1), padding_option="zero")
        b = tl.load(B, boundary_check=(0, 1), padding_option="zero")
        acc += tl.dot(a, b, input_precision="ieee")
        A = tl.advance(A, (0, BK))
    tl.store(C, acc.to(c_ptr.dtype.element_ty), boundary_check=(0, 1))


def matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = a.new_empty((M, N))
    block_matmul_kernel[(triton.cdiv(N, 64), triton.cdiv(M, 64))](
        a, b, c, M, N, K, *a.stride(), *b.stride(), BM=64, BN=64, BK=64
    )
    return c
