"""fail: zeros: makes both inputs zero, so that their sum is.

Attack 38, 43. Twin: controls/copies_its_inputs.
"""

import torch


def vector_add(x, y):
    x.zero_()
    y.zero_()
    return torch.zeros_like(x)
