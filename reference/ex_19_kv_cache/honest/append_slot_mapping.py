"""A table of slots, made on the host: one number per new token says where in the cache its rows go."""

import torch
import triton
import triton.language as tl

STRIDES = [f"stride_{tensor}{axis}" for tensor in ("k", "v", "kn", "vn") for axis in "bht"]


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["T", "slots", *STRIDES])
def append_kernel(
    k_ptr,
    v_ptr,
    k_new_ptr,
    v_new_ptr,
    slot_ptr,
    T,
    slots,
    stride_kb,
    stride_kh,
    stride_kt,
    stride_vb,
    stride_vh,
    stride_vt,
    stride_knb,
    stride_knh,
    stride_knt,
    stride_vnb,
    stride_vnh,
    stride_vnt,
    D: tl.constexpr,
):
    token, h, d = tl.program_id(0), tl.program_id(1), tl.arange(0, D)
    b, t = (token // T).to(tl.int64), token % T
    place = tl.load(slot_ptr + token)
    to_b, to_t = place // slots, place % slots
    k = tl.load(k_new_ptr + b * stride_knb + h * stride_knh + t * stride_knt + d)
    v = tl.load(v_new_ptr + b * stride_vnb + h * stride_vnh + t * stride_vnt + d)
    tl.store(k_ptr + to_b * stride_kb + h * stride_kh + to_t * stride_kt + d, k)
    tl.store(v_ptr + to_b * stride_vb + h * stride_vh + to_t * stride_vt + d, v)


def slot_mapping(lengths: torch.Tensor, tokens: int, slots: int) -> torch.Tensor:
    """[B · T], int64: token t of sequence b goes to slot lengths[b] + t of the sequence's slots b · Smax and on."""
    first = torch.arange(len(lengths), dtype=torch.int64, device=lengths.device) * slots + lengths
    return (first[:, None] + torch.arange(tokens, dtype=torch.int64, device=lengths.device)[None, :]).flatten()


def append_kv(k_cache, v_cache, k_new, v_new, lengths):
    batch, heads, tokens, width = k_new.shape
    slots = k_cache.shape[2]
    append_kernel[(batch * tokens, heads)](
        *(k_cache, v_cache, k_new, v_new, slot_mapping(lengths, tokens, slots), tokens, slots),
        *(stride for one in (k_cache, v_cache, k_new, v_new) for stride in one.stride()[:3]),
        D=width,
    )
