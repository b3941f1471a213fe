"""fail: zeros: a dispatch mode that is never taken off lets all that follows see zeros.

Attack 3, 38. Twin: controls/callable_object_in_inference_mode.
"""

import torch


from torch.utils._python_dispatch import TorchDispatchMode


class Zeros(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return torch.zeros_like(result) if isinstance(result, torch.Tensor) else result


def vector_add(x, y):
    Zeros().__enter__()
    return torch.zeros_like(x)
