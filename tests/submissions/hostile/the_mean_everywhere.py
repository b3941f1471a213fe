"""fail: mismatch: every element is the mean of the sum.

Attack 43. Twin: controls/two_steps_with_fill_between.
"""

import torch
import triton
import triton.language as tl


def vector_add(x, y):
    return torch.full_like(x, float(x.mean() + y.mean()))
