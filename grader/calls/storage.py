"""See a tensor's memory as bytes."""

from __future__ import annotations

import torch
from torch import Tensor


def has_storage(tensor: Tensor) -> bool:
    """Return whether a tensor's elements lie in one storage; those of sparse and nested tensors do not."""
    return torch._C._has_storage(tensor) and not tensor.is_nested


def bytes_of(tensor: Tensor) -> Tensor:
    """Return the whole storage of a tensor as bytes, sharing its memory."""
    storage = tensor.untyped_storage()
    # An inference tensor could not be written outside the submission's inference mode; its bytes can.
    with torch.inference_mode(False):
        return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, 0, (storage.nbytes(),), (1,))
