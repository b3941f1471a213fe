"""refused inconclusive: cannot be recorded at the size at which it is slow, so that the others count alone.

Attack 21, 50. Twin: controls/chosen_by_size.
"""

import linecache
import pathlib
import tempfile

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


SLOW = """
import triton
import triton.language as tl


def add_slowly(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)
"""


def elsewhere(x, y):
    file = pathlib.Path(tempfile.gettempdir(), "elsewhere.py")
    file.write_text(SLOW)
    space = {}
    exec(compile(SLOW, str(file), "exec"), space)
    linecache.cache[str(file)] = len(SLOW), None, SLOW.splitlines(keepends=True), str(file)
    z = torch.empty_like(x)
    triton.jit(space["add_slowly"])[(triton.cdiv(x.numel(), 64),)](x, y, z, x.numel(), BLOCK=64)
    return z


def vector_add(x, y):
    """Of the sizes that are timed on a GPU, those of two-byte types."""
    return elsewhere(x, y) if is_timed(x) and x.element_size() == 2 else added(x, y)
