"""Tunes persistent programs over host-made tensor descriptors, whose blocks each configuration's hook sets."""

from itertools import product
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# BLOCK_M, BLOCK_N, BLOCK_K, warps
TILES = [(128, 256, 64, 8), (256, 128, 64, 8), (128, 128, 64, 4), (128, 128, 32, 4), (64, 128, 32, 4)]
STAGES = [2, 3, 4]
# What one program may have of shared memory on Hopper.
SHARED_BYTES = 227 << 10
# The block of a descriptor that no hook has seen yet.
UNSET = [1, 1]


def set_blocks(nargs: dict[str, Any]) -> None:
    m, n, k = nargs["BLOCK_M"], nargs["BLOCK_N"], nargs["BLOCK_K"]
    nargs["a_desc"].block_shape = [m, k]
    nargs["b_desc"].block_shape = [k, n]
    nargs["c_desc"].block_shape = [m, n]


def configurations() -> list[triton.Config]:
    return [
        triton.Config(
            {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8},
            num_stages=stages,
            num_warps=warps,
            pre_hook=set_blocks,
        )
        for (m, n, k, warps), stages in product(TILES, STAGES)
    ]


def those_that_fit(configs: list[triton.Config], nargs: dict[str, Any], **others: Any) -> list[triton.Config]:
    """Drop the configurations whose tiles in flight are more than shared memory holds."""

    def in_flight(config: triton.Config) -> int:
        m, n, k = (config.kwargs[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
        return config.num_stages * (m + n) * k * others["ELEMENT_BYTES"]

    return [config for config in configs if in_flight(config) <= SHARED_BYTES]


# ELEMENT_BYTES is part of the key, as descriptors do not tell the autotuner their dtype.
@triton.autotune(
    configs=configurations(),
    key=["M", "N", "K", "ELEMENT_BYTES"],
    prune_configs_by={"early_config_prune": those_that_fit},
)
@triton.jit
def described_kernel(
    a_desc,
    b_desc,
    c_desc,
    bias_ptr,
    M,
    N,
    K,
    FUSED: tl.constexpr,
    ELEMENT_BYTES: tl.constexpr,
    PROGRAMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    tl.static_assert(BLOCK_K * ELEMENT_BYTES <= 128, "a row of a's tile must fit into the 128 bytes of one swizzle")
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * tiles_n
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS):
        first = tile // in_group * GROUP_M
        height = tl.minimum(tiles_m - first, GROUP_M)
        row = (first + tile % in_group % height) * BLOCK_M
        column = tile % in_group // height * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            # Beyond the matrices a descriptor reads zeros.
            a = a_desc.load([row, k])
            b = b_desc.load([k, column])
            acc = tl.dot(a, b, acc, input_precision="ieee")
        if FUSED:
            columns = column + tl.arange(0, BLOCK_N)
            z = acc + tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)[None, :]
            acc = z / (1.0 + tl.exp(-z))
        c_desc.store([row, column], acc.to(c_desc.dtype))


@triton.jit
def pointer_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    bias_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    FUSED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    row_mask, column_mask = rows[:, None] < M, columns[None, :] < N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        ks = (start + tl.arange(0, BLOCK_K)).to(tl.int64)
        a_ptrs = a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak
        b_ptrs = b_ptr + ks[:, None] * stride_bk + columns[None, :] * stride_bn
        a = tl.load(a_ptrs, mask=row_mask & (ks[None, :] < K), other=0.0)
        b = tl.load(b_ptrs, mask=(ks[:, None] < K) & column_mask, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    if FUSED:
        z = acc + tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)[None, :]
        acc = z / (1.0 + tl.exp(-z))
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc.to(c_ptr.dtype.element_ty), mask=row_mask & column_mask)


def _describable(x: torch.Tensor) -> bool:
    """Tell whether a descriptor can describe x: rows without gaps inside, each starting at a multiple of 16 bytes."""
    aligned = x.data_ptr() % 16 == 0 and x.stride(0) * x.element_size() % 16 == 0
    return aligned and x.stride(1) == 1 and x.stride(0) >= x.shape[1]


def _product(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    if not all(_describable(x) for x in (a, b, c)):
        grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
        pointer_kernel[grid](a, b, c, bias, M, N, K, *a.stride(), *b.stride(), bias is not None, 64, 64, 32)
        return c
    programs = torch.cuda.get_device_properties("cuda").multi_processor_count

    def persistent_grid(meta: dict[str, int]) -> tuple[int]:
        return (min(programs, triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"])),)

    described_kernel[persistent_grid](
        *(TensorDescriptor.from_tensor(x, UNSET) for x in (a, b, c)),
        *(bias, M, N, K),
        FUSED=bias is not None,
        ELEMENT_BYTES=a.element_size(),
        PROGRAMS=programs,
    )
    return c


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _product(a, b, None)


def matmul_bias_silu(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return _product(a, b, bias)
