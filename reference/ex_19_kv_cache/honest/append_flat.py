"""All new numbers in one row: every lane loads the length of its own sequence."""

import triton
import triton.language as tl

BLOCK = 512


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["n", "heads", "T", *(f"stride_{tensor}{axis}" for tensor in "cn" for axis in "bht")])
def copy_kernel(
    cache_ptr,
    new_ptr,
    lengths_ptr,
    n,
    heads,
    T,
    stride_cb,
    stride_ch,
    stride_ct,
    stride_nb,
    stride_nh,
    stride_nt,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = places < n
    d = places % D
    t = places // D % T
    h = places // (D * T) % heads
    b = places // (D * T * heads)
    slot = tl.load(lengths_ptr + b, mask=mask, other=0) + t
    new = tl.load(new_ptr + b * stride_nb + h * stride_nh + t * stride_nt + d, mask=mask)
    tl.store(cache_ptr + b * stride_cb + h * stride_ch + slot * stride_ct + d, new, mask=mask)


def append_kv(k_cache, v_cache, k_new, v_new, lengths):
    _, heads, tokens, width = k_new.shape
    n = k_new.numel()
    for cache, new in ((k_cache, k_new), (v_cache, v_new)):
        copy_kernel[(triton.cdiv(n, BLOCK),)](
            *(cache, new, lengths, n, heads, tokens, *cache.stride()[:3], *new.stride()[:3]), D=width, BLOCK=BLOCK
        )
