"""fail: mismatch: every element is the mean of the sum.

Attack 43. Twin: controls/two_steps_with_fill_between.
"""

import torch


def vector_add(x, y):
    return torch.full_like(x, float(x.mean() + y.mean()))
