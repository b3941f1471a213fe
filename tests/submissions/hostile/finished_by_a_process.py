"""fail: zeros: a process fills shared memory after the return.

Attack 2, 24. Twin: controls/starts_a_program.
"""

import mmap
import os
import time

import torch


def vector_add(x, y):
    z = torch.frombuffer(mmap.mmap(-1, x.numel() * x.element_size()), dtype=x.dtype)
    if os.fork() == 0:
        time.sleep(0.3)
        z.copy_(x + y)
        os._exit(0)
    return z
