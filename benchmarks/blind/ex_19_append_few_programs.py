"""append_kv: remainder_skipped or not_all_covered

Every program takes rows // programs rows, rounded down, so the last rows are never copied.
"""

import triton
import triton.language as tl


@triton.jit
def append_persistent_kernel(
    kn_ptr, vn_ptr, kc_ptr, vc_ptr, len_ptr, T, Hkv, rows,
    knb, knh, knt, vnb, vnh, vnt, kcb, kch, kcs, vcb, vch, vcs,
    D: tl.constexpr,
):
    pid = tl.program_id(0)
    step = tl.num_programs(0)
    d = tl.arange(0, D)
    for i in range(rows // step):
        row = pid + i * step
        t = (row % T).to(tl.int64)
        bh = row // T
        h = (bh % Hkv).to(tl.int64)
        b = (bh // Hkv).to(tl.int64)
        slot = tl.load(len_ptr + b).to(tl.int64) + t
        k = tl.load(kn_ptr + b * knb + h * knh + t * knt + d)
        v = tl.load(vn_ptr + b * vnb + h * vnh + t * vnt + d)
        tl.store(kc_ptr + b * kcb + h * kch + slot * kcs + d, k)
        tl.store(vc_ptr + b * vcb + h * vch + slot * vcs + d, v)


def append_kv(k_cache, v_cache, k_new, v_new, lengths):
    B, Hkv, T, D = k_new.shape
    rows = B * Hkv * T
    programs = min(rows, 24)
    append_persistent_kernel[(programs,)](
        k_new, v_new, k_cache, v_cache, lengths, T, Hkv, rows,
        *k_new.stride()[:3], *v_new.stride()[:3], *k_cache.stride()[:3], *v_cache.stride()[:3], D=D,
    )
