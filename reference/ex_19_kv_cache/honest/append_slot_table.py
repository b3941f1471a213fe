"""A table of slots, made by a kernel: one int64 per new token, as the schedulers of servers prepare it."""

import torch
import triton
import triton.language as tl

BLOCK, HEADS = 64, 2
STRIDES = [f"stride_{tensor}{axis}" for tensor in ("k", "v", "kn", "vn") for axis in "bht"]


@triton.jit(do_not_specialize=["tokens", "T", "slots", "stride_l"])
def slot_kernel(lengths_ptr, slot_ptr, tokens, T, slots, stride_l, BLOCK: tl.constexpr):
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b = (token // T).to(tl.int64)
    length = tl.load(lengths_ptr + b * stride_l, mask=token < tokens, other=0)
    tl.store(slot_ptr + token, b * slots + length + token % T, mask=token < tokens)


# One kernel for all shapes: specialised ones would be faster, and each would be compiled.
@triton.jit(do_not_specialize=["heads", "T", "slots", *STRIDES])
def append_kernel(
    k_ptr,
    v_ptr,
    k_new_ptr,
    v_new_ptr,
    slot_ptr,
    heads,
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
    HEADS: tl.constexpr,
):
    token, d = tl.program_id(0), tl.arange(0, D)[None, :]
    h = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    mask = h < heads
    b, t = (token // T).to(tl.int64), token % T
    place = tl.load(slot_ptr + token)
    to_b, to_t = place // slots, place % slots
    k = tl.load(k_new_ptr + b * stride_knb + h * stride_knh + t * stride_knt + d, mask=mask)
    v = tl.load(v_new_ptr + b * stride_vnb + h * stride_vnh + t * stride_vnt + d, mask=mask)
    tl.store(k_ptr + to_b * stride_kb + h * stride_kh + to_t * stride_kt + d, k, mask=mask)
    tl.store(v_ptr + to_b * stride_vb + h * stride_vh + to_t * stride_vt + d, v, mask=mask)


def append_kv(k_cache, v_cache, k_new, v_new, lengths):
    batch, heads, tokens, width = k_new.shape
    slots = k_cache.shape[2]
    table = torch.empty(batch * tokens, dtype=torch.int64, device=k_new.device)
    slot_kernel[(triton.cdiv(table.numel(), BLOCK),)](
        lengths, table, table.numel(), tokens, slots, lengths.stride(0), BLOCK=BLOCK
    )
    append_kernel[(batch * tokens, triton.cdiv(heads, HEADS))](
        *(k_cache, v_cache, k_new, v_new, table, heads, tokens, slots),
        *(stride for one in (k_cache, v_cache, k_new, v_new) for stride in one.stride()[:3]),
        D=width,
        HEADS=HEADS,
    )
