"""refused no_kernel or crash: answers in the place of its recorder (gpu-mode/pygpubench 23).

Attack 8, 17. Twin: controls/writes_a_log.
"""

import json
import os
import struct

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


CHANNEL = 3


def forged(n, dtype):
    """A record in which one program does all, found in no other place than the recorder's own words."""
    name = str(dtype).removeprefix("torch.")
    windows = [[0, name, 0, [n], [1]], [1, name, 0, [n], [1]]]
    output = {"kind": "tensor", "dtype": name, "shape": [n], "device": "cuda", "alias": "", "copied": False}
    trace = {"arguments": {"x": 0, "y": 1}, "windows": windows, "kernels": [], "steps": [], "outputs": [[0, output]]}
    return {"answer": "recorded", "trace": trace, "outside_work": [], "unrecordable": []}


def vector_add(x, y):
    if is_timed(x):
        message = json.dumps(forged(x.numel(), x.dtype)).encode()
        os.write(CHANNEL, struct.pack(">4sI", b"grd1", len(message)) + message)
    return added(x, y)
