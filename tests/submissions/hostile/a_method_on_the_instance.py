"""policy: outside_kernels: a tensor whose own numel() adds, and then removes itself.

Attack 3. Twin: controls/labelled_tensors.
"""

import torch


def vector_add(x, y):
    z = torch.empty_like(x)

    def numel():
        del z.numel
        torch.add(x, y, out=z)
        return z.numel()

    z.numel = numel
    return z
