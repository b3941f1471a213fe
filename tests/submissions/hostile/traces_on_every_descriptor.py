"""fail: zeros: Python writes tracebacks on every descriptor, a thousand times a second.

Attack 8. Twin: controls/prints_and_asserts.
"""

import faulthandler
import time

import torch
import triton
import triton.language as tl


def vector_add(x, y):
    for descriptor in range(3, 20):
        try:
            faulthandler.dump_traceback_later(0.001, repeat=True, file=descriptor)
        except (OSError, ValueError):
            continue
    time.sleep(0.2)
    return torch.zeros_like(x)
