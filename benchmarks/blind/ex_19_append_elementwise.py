"""append_kv: axes_exchanged or bad_index or wrong_address

A flat row is split into head and token by Hkv (row // Hkv, row % Hkv) instead of by T.
"""

import triton
import triton.language as tl


@triton.jit
def append_flat_kernel(
    kn_ptr, vn_ptr, kc_ptr, vc_ptr, len_ptr, H, n,
    knb, knh, knt, vnb, vnh, vnt, kcb, kch, kcs, vcb, vch, vcs,
    D: tl.constexpr, BLOCK: tl.constexpr,
):
    b = tl.program_id(1).to(tl.int64)
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = e < n
    d = e % D
    row = e // D
    h = (row // H).to(tl.int64)
    t = (row % H).to(tl.int64)
    slot = tl.load(len_ptr + b) + t
    kx = tl.load(kn_ptr + b * knb + h * knh + t * knt + d, mask=ok)
    tl.store(kc_ptr + b * kcb + h * kch + slot * kcs + d, kx, mask=ok)
    vx = tl.load(vn_ptr + b * vnb + h * vnh + t * vnt + d, mask=ok)
    tl.store(vc_ptr + b * vcb + h * vch + slot * vcs + d, vx, mask=ok)


def append_kv(k_cache, v_cache, k_new, v_new, lengths):
    B, H, T, D = k_new.shape
    n = H * T * D
    append_flat_kernel[(triton.cdiv(n, 1024), B)](
        k_new, v_new, k_cache, v_cache, lengths, H, n,
        *k_new.stride()[:3], *v_new.stride()[:3], *k_cache.stride()[:3], *v_cache.stride()[:3],
        D=D, BLOCK=1024,
    )
