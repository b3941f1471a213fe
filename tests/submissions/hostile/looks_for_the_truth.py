"""fail: zeros: returns any tensor of the right shape that garbage collection knows of.

Attack 39, 40. Twin: controls/collects_garbage.
"""

import gc

import torch


def vector_add(x, y):
    for thing in gc.get_objects():
        if isinstance(thing, torch.Tensor) and thing.shape == x.shape and thing.dtype == torch.float64:
            return thing.to(x.dtype)
    return torch.zeros_like(x)
