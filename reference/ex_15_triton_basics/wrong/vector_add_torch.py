"""vector_add.kernels policy: torch adds the vectors, no kernel is launched."""

import torch


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y
