"""Compile CUDA C++ at run time, for exercises' baselines: by NVRTC, launched through torch's Python binding."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

_SCALARS = {torch.float32: "float", torch.float16: "__half", torch.bfloat16: "__nv_bfloat16"}
_THREADS = 256
# torch has its own conversions and forbids those of the headers; a plain kernel wants them back.
_HALVES = """
#undef __CUDA_NO_HALF_OPERATORS__
#undef __CUDA_NO_HALF_CONVERSIONS__
#undef __CUDA_NO_BFLOAT16_OPERATORS__
#undef __CUDA_NO_BFLOAT16_CONVERSIONS__
#include <cuda_fp16.h>
#include <cuda_bf16.h>
"""


@cache
def elementwise_launcher(
    source: str, name: str, dtype: torch.dtype, elements_per_thread: int = 1
) -> Callable[..., None]:
    """Return a launcher of the kernel `name` in `source`, called with tensors [N] of `dtype`.

    The kernel gets a pointer to each tensor and N as an int, which is how the binding passes integers. In the source,
    SCALAR stands for the element type.
    """
    headers = "" if dtype == torch.float32 else _HALVES
    kernel: Any = torch.cuda._compile_kernel(headers + source.replace("SCALAR", _SCALARS[dtype]), name)

    def launch(*tensors: Tensor) -> None:
        count = tensors[0].numel()
        blocks = -(-count // (_THREADS * elements_per_thread))
        kernel((blocks, 1, 1), (_THREADS, 1, 1), (*tensors, count))

    return launch
