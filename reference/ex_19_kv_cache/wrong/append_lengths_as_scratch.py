"""append_kv.one_token policy: torch computes on keys whose bits a kernel lends to lengths, and takes back in the next.

Cause: work_outside_kernels

At the end of the call lengths hold what they held before. In between, torch multiplied bits of keys as if they were
lengths.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def lend_kernel(k_new_ptr, lengths_ptr, kept_ptr, B, stride_b, BLOCK: tl.constexpr):
    b = tl.arange(0, BLOCK)
    tl.store(kept_ptr + b, tl.load(lengths_ptr + b, mask=b < B, other=0), mask=b < B)
    key = tl.load(k_new_ptr + b.to(tl.int64) * stride_b, mask=b < B, other=0.0)
    tl.debug_barrier()
    tl.store(lengths_ptr + b, key.to(tl.int16, bitcast=True).to(tl.int32), mask=b < B)


@triton.jit
def append_kernel(
    k_new_ptr,
    v_new_ptr,
    k_ptr,
    v_ptr,
    lengths_ptr,
    kept_ptr,
    bits_ptr,
    H,
    T,
    k_new_b,
    k_new_h,
    k_new_t,
    v_new_b,
    v_new_h,
    v_new_t,
    k_b,
    k_h,
    k_s,
    v_b,
    v_h,
    v_s,
    D: tl.constexpr,
):
    row = tl.program_id(0)
    b, h, t = (row // (H * T)).to(tl.int64), row // T % H, row % T
    slot = tl.load(kept_ptr + b).to(tl.int64) + t
    is_first = (h == 0) & (t == 0)
    if is_first:
        tl.store(lengths_ptr + b, tl.load(kept_ptr + b))
    d = tl.arange(0, D)
    k = tl.load(k_new_ptr + b * k_new_b + h * k_new_h + t * k_new_t + d)
    computed = tl.load(bits_ptr + b).to(tl.int16).to(k.dtype, bitcast=True)
    k = tl.where((d == 0) & is_first, computed, k)
    tl.store(k_ptr + b * k_b + h * k_h + slot * k_s + d, k)
    v = tl.load(v_new_ptr + b * v_new_b + h * v_new_h + t * v_new_t + d)
    tl.store(v_ptr + b * v_b + h * v_h + slot * v_s + d, v)


def append_kv(
    k_cache: torch.Tensor, v_cache: torch.Tensor, k_new: torch.Tensor, v_new: torch.Tensor, lengths: torch.Tensor
) -> None:
    B, H, T, D = k_new.shape
    kept = torch.empty_like(lengths)
    lend_kernel[(1,)](k_new, lengths, kept, B, k_new.stride(0), BLOCK=triton.next_power_of_2(B))
    bits = (lengths * 3 - lengths) // 2
    strides = [size for one in (k_new, v_new, k_cache, v_cache) for size in one.stride()[:3]]
    append_kernel[(B * H * T,)](k_new, v_new, k_cache, v_cache, lengths, kept, bits, H, T, *strides, D=D)
