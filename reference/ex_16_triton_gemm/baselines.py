"""Baselines of ex_16: `<part>_<baseline>`, with the part's own arguments, run in a trusted process."""

from typing import Any

import torch
from torch import Tensor

# cuBLAS may otherwise add up parts of a float16 product in float16, which no submission is allowed to.
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


def matmul_cublas(a: Tensor, b: Tensor) -> Tensor:
    """cuBLAS; for float32 in true float32, which is torch's default."""
    return torch.mm(a, b)


def matmul_torch_eager(a: Tensor, b: Tensor) -> Tensor:
    """Multiply in eager torch; torch.compile gets this function."""
    return torch.mm(a, b)


def matmul_xla(a: Any, b: Any) -> Any:
    """Multiply jax arrays; XLA, too, would otherwise multiply float32 in TF32."""
    import jax.numpy as jnp

    return jnp.matmul(a, b, precision="highest" if a.dtype == jnp.float32 else None)


def matmul_bias_silu_torch_eager(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    """Three kernels: cuBLAS, the bias, silu; the product goes to memory and comes back twice."""
    return torch.nn.functional.silu(torch.mm(a, b) + bias)
