"""attention_backward.work fail: all weights and their gradients are held at once, by torch.

Cause: large_temporary or work_outside_kernels
"""

import torch


def attention_backward(
    do: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    group, scale = q.shape[1] // k.shape[1], q.shape[3] ** -0.5 if scale is None else scale
    wide_k, wide_v = (one.float().repeat_interleave(group, 1) for one in (k, v))
    seen = lse.masked_fill(lse == float("-inf"), float("inf"))[..., None]
    p = (q.float() @ wide_k.mT * scale - seen).exp()
    if causal:
        p = p.tril(k.shape[2] - q.shape[2])
    ds = p * (do.float() @ wide_v.mT - (do.float() * o.float()).sum(-1, keepdim=True)) * scale
    dk, dv = (one.unflatten(1, (k.shape[1], group)).sum(2) for one in (ds.mT @ q.float(), p.mT @ do.float()))
    return (ds @ wide_k).to(q.dtype), dk.to(q.dtype), dv.to(q.dtype)
