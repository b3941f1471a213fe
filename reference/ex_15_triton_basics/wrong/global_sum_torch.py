"""global_sum.kernels policy: torch adds up the elements, no kernel is launched.

Cause: work_outside_kernels
"""

import torch


def global_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(dtype=torch.float32)
