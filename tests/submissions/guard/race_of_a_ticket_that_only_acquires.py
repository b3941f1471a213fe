"""fail: race: load of partials_ptr: the last to draw a ticket joins the partial sums, but an atomic that only acquires releases nothing."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, partials_ptr, ticket_ptr, s_ptr, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    y = tl.load(y_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)
    tl.store(partials_ptr + pid, tl.sum(x, axis=0))  # there
    if tl.atomic_add(ticket_ptr, 1, sem="acquire") == PROGRAMS - 1:
        partials = tl.load(partials_ptr + tl.arange(0, PROGRAMS))  # here
        tl.store(s_ptr, tl.sum(partials, axis=0))


def vector_add(x, y):
    z, sums = torch.empty_like(x), torch.empty(9, dtype=x.dtype, device=x.device)
    ticket = torch.zeros((), dtype=torch.int32, device=x.device)
    add_kernel[(8,)](x, y, z, sums[:8], ticket, sums[8:], x.numel(), PROGRAMS=8, BLOCK=128)
    return z
