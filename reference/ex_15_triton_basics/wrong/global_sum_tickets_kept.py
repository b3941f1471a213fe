"""global_sum.full_blocks fail: the counter of tickets is zeroed once and kept: no later program draws the last one.

Cause: not_cleared
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024

_tickets: dict[torch.device, torch.Tensor] = {}


@triton.jit
def sum_kernel(x_ptr, partials_ptr, tickets_ptr, s_ptr, n_elements, n_partials, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=0.0).to(tl.float32)
    tl.store(partials_ptr + pid, tl.sum(x, axis=0))
    tl.debug_barrier()
    ticket = tl.atomic_add(tickets_ptr, 1, sem="acq_rel")
    if ticket == n_partials - 1:
        tl.debug_barrier()
        sums = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in range(0, n_partials, BLOCK):
            places = start + tl.arange(0, BLOCK)
            sums += tl.load(partials_ptr + places, mask=places < n_partials, other=0.0, cache_modifier=".cg")
        tl.store(s_ptr, tl.sum(sums, axis=0))


def global_sum(x: torch.Tensor) -> torch.Tensor:
    n_partials = triton.cdiv(x.numel(), BLOCK)
    partials = torch.empty(n_partials, dtype=torch.float32, device=x.device)
    if x.device not in _tickets:
        _tickets[x.device] = torch.zeros((), dtype=torch.int32, device=x.device)
    s = torch.empty((), dtype=torch.float32, device=x.device)
    sum_kernel[(n_partials,)](x, partials, _tickets[x.device], s, x.numel(), n_partials, BLOCK=BLOCK)
    return s
