"""fail: unwritten: returns memory that somebody may have left a result in.

Attack 37. Twin: controls/resized_buffer.
"""

import torch


def vector_add(x, y):
    for _ in range(16):
        torch.empty_like(x)
    return torch.empty_like(x)
