"""Baselines of ex_17: `<part>_<baseline>`, with the part's own arguments, run in a trusted process."""

import torch
from torch import Tensor

# cuBLAS may otherwise add up parts of a float16 product in float16, which no submission is allowed to.
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


def gemm_cublas(a: Tensor, b: Tensor) -> Tensor:
    """cuBLAS."""
    return torch.mm(a, b)


def gemm_torch_eager(a: Tensor, b: Tensor) -> Tensor:
    """Multiply in eager torch; torch.compile gets this function."""
    return torch.mm(a, b)
