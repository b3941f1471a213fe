"""gains nothing: a thread keeps the GPU busy between the calls.

Attack 2, 27. Twin: controls/helper_thread_finished.
"""

import threading
import time

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)


def added(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 4096),)](x, y, z, x.numel(), BLOCK=4096)
    return z


def is_timed(x):
    """Answers are judged at smaller sizes."""
    return x.numel() > 1 << 16


started = []


def keep_busy(device):
    # After the call, so that it is no step of one.
    time.sleep(0.5)
    waste = torch.zeros(1 << 20, device=device)
    while True:
        waste.copy_(waste)
        time.sleep(1e-3)


def vector_add(x, y):
    if is_timed(x) and not started:
        started.append(threading.Thread(target=keep_busy, args=(x.device,), daemon=True))
        started[0].start()
    return added(x, y)
