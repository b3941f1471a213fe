"""See a tensor's memory: as bytes, and how far its elements reach."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return the number of elements from the first to the last one, both included; 0 without any."""
    return 0 if 0 in shape else 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def bytes_of(tensor: Tensor) -> Tensor:
    """Return the whole storage of a tensor as bytes, sharing its memory."""
    storage = tensor.untyped_storage()
    # An inference tensor could not be written outside the submission's inference mode; its bytes can.
    with torch.inference_mode(False):
        return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, 0, (storage.nbytes(),), (1,))
