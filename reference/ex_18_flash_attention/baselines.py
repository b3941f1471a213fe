"""Baselines of ex_18: `<part>_<baseline>`, with the part's own arguments, run in a trusted process.

Timed sizes have as many keys as queries, and as many kv heads as heads. torch's public function for attention does
not return lse, so its backends are called by their own names.
"""

import torch
from torch import Tensor


def attention_forward_sdpa(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None) -> tuple[Tensor, Tensor]:
    """Call the backend that is enabled: FlashAttention (version 2), memory-efficient attention, or else cuDNN."""
    if torch.backends.cuda.flash_sdp_enabled():
        return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, scale=scale)[:2]
    if torch.backends.cuda.mem_efficient_sdp_enabled():
        o, lse = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, causal, scale=scale)[
            :2
        ]
        return o, lse[..., : q.shape[2]]
    o, lse = torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal, scale=scale)[:2]
    return o, lse.reshape(q.shape[:3])


def attention_forward_torch_eager(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None
) -> tuple[Tensor, Tensor]:
    """Compute standard attention: every kernel writes a number for every query and key, and the next one reads it."""
    s = _logits(q, k, causal, scale)
    return torch.softmax(s, -1) @ v, torch.logsumexp(s, -1).float()


def attention_forward_flash_attention_4(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None
) -> tuple[Tensor, Tensor]:
    """FlashAttention-4, which has tokens before heads."""
    from flash_attn.cute.interface import _flash_attn_fwd

    tokens = (one.transpose(1, 2) for one in (q, k, v))
    o, lse = _flash_attn_fwd(*tokens, softmax_scale=scale, causal=causal, return_lse=True)[:2]
    return o.transpose(1, 2), lse


def attention_backward_sdpa(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, scale: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Call the backend that is enabled, as above; without dropout no random state is used."""
    length, state = q.shape[2], torch.empty((), dtype=torch.int64, device=q.device)
    if torch.backends.cuda.flash_sdp_enabled():
        return torch.ops.aten._scaled_dot_product_flash_attention_backward(
            do, q, k, v, o, lse, None, None, length, length, 0.0, causal, state, state, scale=scale
        )
    if torch.backends.cuda.mem_efficient_sdp_enabled():
        # Its rows of lse are as long as the next multiple of 32; timed lengths are multiples of 32.
        return torch.ops.aten._scaled_dot_product_efficient_attention_backward(
            do, q, k, v, None, o, lse, state, state, 0.0, [True, True, True, False], causal, scale=scale
        )[:3]
    return torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
        *(do, q, k, v, o, lse[..., None], state, state, None, None, None, length, length, 0.0, causal), scale=scale
    )


def attention_backward_torch_eager(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, scale: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute standard attention's gradients: the weights and their gradients are held at once."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    p = torch.exp(_logits(q, k, causal, scale) - lse[..., None].to(q.dtype))
    ds = p * (do @ v.mT - (o * do).sum(-1, keepdim=True)) * scale
    return ds @ k, ds.mT @ q, p.mT @ do


def attention_backward_flash_attention_4(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, scale: float | None
) -> tuple[Tensor, ...]:
    """FlashAttention-4, which has tokens before heads."""
    from flash_attn.cute.interface import _flash_attn_bwd

    tokens = (one.transpose(1, 2) for one in (q, k, v, o, do))
    gradients = _flash_attn_bwd(*tokens, lse, softmax_scale=scale, causal=causal)[:3]
    return tuple(one.transpose(1, 2) for one in gradients)


def _logits(q: Tensor, k: Tensor, causal: bool, scale: float | None) -> Tensor:
    """scale · q · kᵀ, [B, H, S, S], with -inf where hidden."""
    s = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if not causal:
        return s
    hidden = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1)
    return s.masked_fill_(hidden, float("-inf"))
