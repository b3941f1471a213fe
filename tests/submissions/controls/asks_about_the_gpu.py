"""Launches as many programs as a GPU runs at a time, and asks Triton's driver and torch what such code asks."""

import torch
import triton
import triton.language as tl
from torch._C import _cuda_getCurrentRawStream as raw_stream

DEVICE = triton.runtime.driver.active.get_active_torch_device()
PROGRAMS = triton.runtime.driver.active.utils.get_device_properties(torch.cuda.current_device())["multiprocessor_count"]


@triton.jit
def _add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        offsets = tile.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < n
        tl.store(
            z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside), mask=inside
        )


def vector_add(x, y):
    assert x.device.type == DEVICE.type
    assert torch.cuda.get_device_properties(x.device).multi_processor_count == PROGRAMS
    torch._C._dynamo.guards.assert_size_stride(x, tuple(x.shape), (1,))
    z = torch._C._dynamo.guards._empty_strided_cuda(tuple(x.shape), (1,), x.dtype)
    n = x.numel()
    raw_stream(0)
    assert torch.version.cuda
    assert torch.accelerator.current_accelerator() == torch.device(DEVICE.type)
    assert not torch.cuda.is_current_stream_capturing()
    with torch.cuda.device(x.device), torch.cuda.nvtx.range("addition"):
        _add[(min(4 * PROGRAMS, triton.cdiv(n, 1024)),)](x, y, z, n, BLOCK=1024)
    torch.cuda.current_stream().synchronize()
    torch.cuda.reset_peak_memory_stats(x.device)
    torch.accelerator.synchronize()
    return z
