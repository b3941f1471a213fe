"""gains nothing: the first call does the work of the next two as well (gpu-mode/reference-kernels 104).

Attack 19. Twin: timing/control_several_launches.
"""

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


seen, results = [], []


def vector_add(x, y):
    if not is_timed(x):
        return added(x, y)
    if seen and (seen[0].shape, seen[0].dtype) != (x.shape, x.dtype):
        seen.clear()
        results.clear()
    if not results:
        # Those of the next calls are the ones that were met so far: known by shape, so that clones do not matter.
        seen.append(x)
        n, batch = x.numel(), torch.empty(3, x.numel(), dtype=x.dtype, device=x.device)
        _add_batch[(triton.cdiv(n, 4096), 3)](x, y, batch, n, BLOCK=4096)
        results.extend(batch.unbind())
    return results.pop()


@triton.jit
def _add_batch(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + tl.program_id(1).to(tl.int64) * n + offsets, total, mask=inside)
