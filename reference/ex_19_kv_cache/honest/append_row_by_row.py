"""A program per new row, and a launch each for keys and values."""

import triton
import triton.language as tl


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=[f"stride_{tensor}{axis}" for tensor in "nc" for axis in "bht"])
def row_kernel(
    new_ptr,
    cache_ptr,
    lengths_ptr,
    stride_nb,
    stride_nh,
    stride_nt,
    stride_cb,
    stride_ch,
    stride_ct,
    D: tl.constexpr,
):
    t, h, b = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    dims = tl.arange(0, D)
    slot = (tl.load(lengths_ptr + b) + t).to(tl.int64)
    row = tl.load(new_ptr + b * stride_nb + h * stride_nh + t * stride_nt + dims)
    tl.store(cache_ptr + b * stride_cb + h * stride_ch + slot * stride_ct + dims, row)


def append_kv(k_cache, v_cache, k_new, v_new, lengths):
    batch, heads, tokens, width = k_new.shape
    for cache, new in ((k_cache, k_new), (v_cache, v_new)):
        row_kernel[(tokens, heads, batch)](new, cache, lengths, *new.stride()[:3], *cache.stride()[:3], D=width)
