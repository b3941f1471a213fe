"""attention_forward.work fail: standard attention in torch, which holds a weight for every pair.

Cause: large_temporary or work_outside_kernels
"""

import torch


def attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    group = q.shape[1] // k.shape[1]
    k, v = k.float().repeat_interleave(group, 1), v.float().repeat_interleave(group, 1)
    s = q.float() @ k.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        visible = torch.ones(s.shape[2:], dtype=torch.bool, device=s.device).tril(s.shape[3] - s.shape[2])
        s = s.masked_fill(~visible, float("-inf"))
    lse = s.logsumexp(-1, keepdim=True)
    p = (s - lse.masked_fill(lse == float("-inf"), 0.0)).exp()
    return (p @ v).to(q.dtype), lse.squeeze(-1)
