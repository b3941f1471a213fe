"""append_kv: strides_ignored or operand_mixed_up

The launch for v takes the strides of k_cache for v_cache (sc is not set anew).
"""

import triton
import triton.language as tl


@triton.jit
def append_tile_kernel(
    new_ptr, cache_ptr, len_ptr, T, Hkv, s_nb, s_nh, s_nt, s_cb, s_ch, s_cs,
    D: tl.constexpr, BT: tl.constexpr,
):
    """BT tokens of one head."""
    bh = tl.program_id(1)
    b = (bh // Hkv).to(tl.int64)
    h = (bh % Hkv).to(tl.int64)
    t = (tl.program_id(0) * BT + tl.arange(0, BT)).to(tl.int64)
    d = tl.arange(0, D)
    length = tl.load(len_ptr + b)
    mask = t[:, None] < T
    src = new_ptr + b * s_nb + h * s_nh + t[:, None] * s_nt + d[None, :]
    dst = cache_ptr + b * s_cb + h * s_ch + (length + t)[:, None] * s_cs + d[None, :]
    tl.store(dst, tl.load(src, mask=mask), mask=mask)


def append_kv(k_cache, v_cache, k_new, v_new, lengths):
    B, Hkv, T, D = k_new.shape
    grid = (triton.cdiv(T, 16), B * Hkv)
    # one launch for k, one for v
    sn, sc = k_new.stride(), k_cache.stride()
    append_tile_kernel[grid](k_new, k_cache, lengths, T, Hkv, sn[0], sn[1], sn[2], sc[0], sc[1], sc[2], D=D, BT=16)
    sn = v_new.stride()
    append_tile_kernel[grid](v_new, v_cache, lengths, T, Hkv, sn[0], sn[1], sn[2], sc[0], sc[1], sc[2], D=D, BT=16)
