"""A sum in two kernels and without atomics: one partial per program, then one program that adds the partials."""

import torch
import triton
import triton.language as tl

BLOCK = 2048

# The second kernel reads the partials in chunks of at most this many.
CHUNK = 4096


@triton.jit
def partials_kernel(x_ptr, partials_ptr, n_elements, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=0.0).to(tl.float32)
    tl.store(partials_ptr + pid, tl.sum(x, axis=0))


@triton.jit
def join_kernel(partials_ptr, s_ptr, n_partials, CHUNKS: tl.constexpr, CHUNK: tl.constexpr):
    sums = tl.zeros((CHUNK,), dtype=tl.float32)
    for chunk in range(CHUNKS):
        offsets = chunk * CHUNK + tl.arange(0, CHUNK)
        sums += tl.load(partials_ptr + offsets, mask=offsets < n_partials, other=0.0)
    tl.store(s_ptr, tl.sum(sums, axis=0))


def global_sum(x: torch.Tensor) -> torch.Tensor:
    n_partials = triton.cdiv(x.numel(), BLOCK)
    partials = torch.empty(n_partials, dtype=torch.float32, device=x.device)
    s = torch.empty((), dtype=torch.float32, device=x.device)
    partials_kernel[(n_partials,)](x, partials, x.numel(), BLOCK=BLOCK)
    chunk = min(CHUNK, triton.next_power_of_2(n_partials))
    chunks = triton.next_power_of_2(triton.cdiv(n_partials, chunk))
    join_kernel[(1,)](partials, s, n_partials, CHUNKS=chunks, CHUNK=chunk)
    return s
