"""As many persistent programs as the multiprocessors hold at once, by the registers and shared memory of the kernel."""

import torch
import triton
import triton.language as tl

WARP = 32


@triton.jit
def softmax_kernel(x_ptr, p_ptr, n_rows, n_columns, stride_xm, stride_pm, BLOCK_N: tl.constexpr):
    columns = tl.arange(0, BLOCK_N)
    mask = columns < n_columns
    for number in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        # A stride times a row may need more than 32 bits.
        row = tl.cast(number, tl.int64)
        x = tl.load(x_ptr + row * stride_xm + columns, mask=mask, other=float("-inf")).to(tl.float32)
        numerator = tl.exp(x - tl.max(x, axis=0))
        tl.store(p_ptr + row * stride_pm + columns, numerator / tl.sum(numerator, axis=0), mask=mask)


def programs_at_once(handle, warps: int, device: torch.device) -> int:
    """Return the number of programs of a compiled kernel that all multiprocessors hold together."""
    properties = triton.runtime.driver.active.utils.get_device_properties(device.index or 0)
    by_registers = properties["max_num_regs"] // max(handle.n_regs * WARP * warps, 1)
    by_memory = properties["max_shared_mem"] // max(handle.metadata.shared, 1)
    return properties["multiprocessor_count"] * max(min(by_registers, by_memory), 1)


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    n_rows, n_columns = x.shape
    p = torch.empty((n_rows, n_columns), dtype=x.dtype, device=x.device)
    block_n = triton.next_power_of_2(n_columns)
    warps = min(max(block_n // 512, 1), 16)
    arguments = (x, p, n_rows, n_columns, x.stride(0), p.stride(0))
    handle = softmax_kernel.warmup(*arguments, BLOCK_N=block_n, num_warps=warps, grid=(1,))
    handle._init_handles()
    programs = min(programs_at_once(handle, warps, x.device), n_rows)
    softmax_kernel[(programs,)](*arguments, BLOCK_N=block_n, num_warps=warps)
    return p
