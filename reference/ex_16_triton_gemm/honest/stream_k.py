"""Stream-K in two launches: whole tiles for every program, then equal shares of what is left, added by atomics."""

import torch
import triton
import triton.language as tl

BLOCK_M, BLOCK_N, BLOCK_K, PROGRAMS = 64, 64, 32, 12
NOT_SPECIALISED = ["M", "N", "K", "stride_am", "stride_ak", "stride_bk", "stride_bn", "first", "last", "share"]


@triton.jit
def product(
    a_ptr,
    b_ptr,
    tile,
    begin,
    end,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Walk steps begin … end - 1 of a tile along K; return the tile's place in c, its existing part, and the sum."""
    across = tl.cdiv(N, BLOCK_N)
    rows = (tile // across * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None]
    columns = (tile % across * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(begin, end):
        ks = (step * BLOCK_K + tl.arange(0, BLOCK_K)).to(tl.int64)
        a_mask, b_mask = (rows < M) & (ks[None, :] < K), (ks[:, None] < K) & (columns < N)
        a = tl.load(a_ptr + rows * stride_am + ks[None, :] * stride_ak, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + ks[:, None] * stride_bk + columns * stride_bn, mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    return rows * N + columns, (rows < M) & (columns < N), acc


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def whole_tiles_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    last,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    steps = tl.cdiv(K, BLOCK_K)
    for tile in range(tl.program_id(0), last, tl.num_programs(0)):
        places, mask, acc = product(
            *(a_ptr, b_ptr, tile, 0, steps, M, N, K, stride_am, stride_ak, stride_bk, stride_bn),
            *(BLOCK_M, BLOCK_N, BLOCK_K),
        )
        tl.store(c_ptr + places, acc, mask=mask)


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def shares_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    first,
    last,
    share,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    steps = tl.cdiv(K, BLOCK_K)
    # Steps are numbered through the tiles that are left. A share may begin and end inside a tile.
    begin = tl.program_id(0) * share
    end = tl.minimum(begin + share, (last - first) * steps)
    for tile in range(begin // steps, tl.cdiv(end, steps)):
        from_step = tl.maximum(begin - tile * steps, 0)
        to_step = tl.minimum(end - tile * steps, steps)
        places, mask, acc = product(
            *(a_ptr, b_ptr, first + tile, from_step, to_step, M, N, K, stride_am, stride_ak, stride_bk, stride_bn),
            *(BLOCK_M, BLOCK_N, BLOCK_K),
        )
        tl.atomic_add(c_ptr + places, acc, mask=mask, sem="relaxed")


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (M, K), N = a.shape, b.shape[1]
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    whole = tiles // PROGRAMS * PROGRAMS
    c = torch.zeros((M, N), dtype=torch.float32, device=a.device)
    sizes = (M, N, K, *a.stride(), *b.stride(), BLOCK_M, BLOCK_N, BLOCK_K)
    if whole:
        whole_tiles_kernel[(PROGRAMS,)](a, b, c, whole, *sizes)
    if whole < tiles:
        share = triton.cdiv((tiles - whole) * triton.cdiv(K, BLOCK_K), PROGRAMS)
        shares_kernel[(PROGRAMS,)](a, b, c, whole, tiles, share, *sizes)
    return c.to(a.dtype)
