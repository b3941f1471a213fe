"""fail: zeros: a dispatch mode that is never taken off lets all that follows see zeros.

Attack 3, 38. Twin: controls/callable_object_in_inference_mode.
"""

import torch


from torch.utils._python_dispatch import TorchDispatchMode


class Zeros(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return torch.zeros_like(result) if isinstance(result, torch.Tensor) else result


left_on = []


def vector_add(x, y):
    if not left_on:
        # One more with every call would take longer and longer.
        left_on.append(Zeros().__enter__())
    return torch.zeros_like(x)
