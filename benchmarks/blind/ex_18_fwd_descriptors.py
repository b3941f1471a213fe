"""attention_forward: padding_counted

Without the causal mask nothing hides the zero keys beyond Skv: each adds exp(0 - m) to l.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def descriptor_forward_kernel(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, Hq, group, Sq, Skv, offset, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):
    """Tiles come by tensor descriptors, zeros beyond the ends."""
    m0 = tl.program_id(0) * BM
    h = tl.program_id(1)
    b = tl.program_id(2)
    q = tl.reshape(q_desc.load([b, h, m0, 0]), (BM, D))
    i = m0 + tl.arange(0, BM)
    m = tl.full((BM,), float("-inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for n0 in range(0, tl.minimum(Skv, m0 + BM + offset), BN):
        k = tl.reshape(k_desc.load([b, h // group, n0, 0]), (BN, D))
        v = tl.reshape(v_desc.load([b, h // group, n0, 0]), (BN, D))
        j = n0 + tl.arange(0, BN)
        s = tl.dot(q, k.T) * scale
        if CAUSAL:
            s = tl.where(j[None, :] <= i[:, None] + offset, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        ref = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.exp(s - ref[:, None])
        a = tl.exp(m - ref)
        l = l * a + tl.sum(p, 1)
        acc = acc * a[:, None] + tl.dot(p.to(v.dtype), v)
        m = m_new
    l = tl.where(l == 0.0, 1.0, l)
    o_desc.store([b, h, m0, 0], tl.reshape((acc / l[:, None]).to(o_desc.dtype), (1, 1, BM, D)))
    tl.store(lse_ptr + (b.to(tl.int64) * Hq + h) * Sq + i, m + tl.log(l), mask=i < Sq)


def aligned(x):
    """TMA wants strides and a start of 16 bytes: copy what has not."""
    good = x.data_ptr() % 16 == 0 and all(s * x.element_size() % 16 == 0 and s > 0 for s in x.stride()[:3])
    return x if good else x.clone(memory_format=torch.contiguous_format)


def descriptor(x, rows):
    return TensorDescriptor(x, list(x.shape), list(x.stride()), [1, 1, rows, x.shape[3]])


def attention_forward(q, k, v, causal=False, scale=None):
    q, k, v = aligned(q), aligned(k), aligned(v)
    B, Hq, Sq, D = q.shape
    Hkv, Skv = k.shape[1:3]
    o = torch.empty((B, Hq, Sq, D), dtype=q.dtype, device=q.device)
    lse = torch.empty((B, Hq, Sq), dtype=torch.float32, device=q.device)
    descriptor_forward_kernel[(triton.cdiv(Sq, 64), Hq, B)](
        descriptor(q, 64), descriptor(k, 64), descriptor(v, 64), descriptor(o, 64), lse,
        Hq, Hq // Hkv, Sq, Skv, Skv - Sq if causal else Skv, D**-0.5 if scale is None else scale,
        D=D, CAUSAL=causal, BM=64, BN=64,
    )
    return o, lse
