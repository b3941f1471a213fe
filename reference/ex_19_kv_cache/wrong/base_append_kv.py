"""A program for every 16 rows of new keys and values, which go where the lengths say."""

import triton
import triton.language as tl

ROWS = 16
STRIDES = [f"stride_{tensor}{axis}" for tensor in ("kn", "vn", "k", "v") for axis in "bhs"]


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["T", "rows", *STRIDES])
def append_kernel(
    k_new_ptr,
    v_new_ptr,
    k_ptr,
    v_ptr,
    lengths_ptr,
    T,
    rows,
    stride_knb,
    stride_knh,
    stride_kns,
    stride_vnb,
    stride_vnh,
    stride_vns,
    stride_kb,
    stride_kh,
    stride_ks,
    stride_vb,
    stride_vh,
    stride_vs,
    D: tl.constexpr,
    ROWS: tl.constexpr,
):
    b = tl.program_id(1).to(tl.int64)
    row, dims = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, D)[None, :]
    mask = row < rows
    h, t = row // T, row % T
    slot = tl.load(lengths_ptr + b) + t
    k = tl.load(k_new_ptr + b * stride_knb + h * stride_knh + t * stride_kns + dims, mask=mask)
    v = tl.load(v_new_ptr + b * stride_vnb + h * stride_vnh + t * stride_vns + dims, mask=mask)
    tl.store(k_ptr + b * stride_kb + h * stride_kh + slot * stride_ks + dims, k, mask=mask)
    tl.store(v_ptr + b * stride_vb + h * stride_vh + slot * stride_vs + dims, v, mask=mask)


def append_kv(k_cache, v_cache, k_new, v_new, lengths):
    batch, heads, tokens, width = k_new.shape
    rows = heads * tokens
    append_kernel[(triton.cdiv(rows, ROWS), batch)](
        *(k_new, v_new, k_cache, v_cache, lengths, tokens, rows),
        *(*k_new.stride()[:3], *v_new.stride()[:3], *k_cache.stride()[:3], *v_cache.stride()[:3]),
        D=width,
        ROWS=ROWS,
    )
