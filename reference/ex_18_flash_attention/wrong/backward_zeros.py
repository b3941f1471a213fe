"""attention_backward.full_tiles fail: the result is zeros.

Cause: zeros

Attack 43. Twin: ex_18_flash_attention/honest/two_kernels_backward.
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
    return torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
