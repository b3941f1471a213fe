"""Builds the inputs of one case: a function per part, `part(case, generator) -> arguments in the stub's order`."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from grader.exercise.tensors import differing, dtype_of, one_apart, values, with_gaps

GAP = 5
LAYOUTS = ("rows", "columns", "sliced")


class Candidate(NamedTuple):
    """A GEMM kernel that was measured: its tile, its cluster, its stages in shared memory and its schedule.

    schedule: "cooperative" (two warpgroups share a tile) or "pingpong" (each has a tile of its own, and one stores
    while the other multiplies).
    """

    tile_m: int
    tile_n: int
    tile_k: int
    cluster_m: int
    cluster_n: int
    stages: int
    schedule: str


class Device(NamedTuple):
    """The GPU of the choice. peak_tflops: for dense float16 and bfloat16 products; peak_tbps: for memory."""

    sm_count: int
    smem_bytes: int
    peak_tflops: float
    peak_tbps: float


H200 = Device(sm_count=132, smem_bytes=232448, peak_tflops=989.0, peak_tbps=4.8)

# Operands of 2 bytes, in as many stages as fit beside the barriers and the buffer of the result.
TILES = (
    (64, 64, "pingpong"),
    (64, 128, "pingpong"),
    (64, 256, "pingpong"),
    (128, 64, "cooperative"),
    (128, 128, "pingpong"),
    (128, 128, "cooperative"),
    (128, 192, "pingpong"),
    (128, 256, "cooperative"),
    (256, 128, "cooperative"),
)
TILE_K = 64
MOST_STAGES = 7


def _stages(tile_m: int, tile_n: int) -> int:
    left = H200.smem_bytes - (33 << 10)
    return min(MOST_STAGES, left // (2 * TILE_K * (tile_m + tile_n)))


CANDIDATES = tuple(
    Candidate(tile_m, tile_n, TILE_K, cluster_m, cluster_n, _stages(tile_m, tile_n), schedule)
    for tile_m, tile_n, schedule in TILES
    for cluster_m, cluster_n in ((1, 1), (2, 1), (1, 2))
)


def blocked_gemm(case: Mapping[str, object], generator: Generator) -> tuple[object, ...]:
    """Return mA: [M, K], mB: [N, K], mC: [M, N] of NaN, all float32; the tiler; the threads.

    layout: "rows": row after row; "columns": column after column; "sliced": windows of wider matrices; "mixed": each of
    the three matrices in another of these layouts; "b_apart": B is "sliced", the others are "rows". nonfinite: some
    rows of A and of B hold an inf or a NaN, and the other rows of both many zeros; one row of B holds zeros only.
    """
    m, n, k = (int(case[axis]) for axis in "MNK")
    a = values("shifted" if case["values"] == "shifted" else "normal", (m, k), torch.float32, generator)
    b = values("normal", (n, k), torch.float32, generator)
    if case["values"] == "nonfinite":
        for operand, start in ((a, 0), (b, 1)):
            operand[operand.abs() < 0.5] = 0.0
            operand[start::3] = values("nonfinite", operand[start::3].shape, torch.float32, generator)
        b[0] = 0.0
    c = torch.full((m, n), torch.nan)
    layout = str(case["layout"])
    lone = one_apart(("a", "b", "c"), layout, "rows", "sliced")
    layouts = lone or (differing(LAYOUTS, 3, case) if layout == "mixed" else (layout,) * 3)
    matrices = (_laid_out(one, layout) for one, layout in zip((a, b, c), layouts, strict=True))
    tiler = tuple(int(case[f"tile_{mode}"]) for mode in "mnk")
    return *matrices, tiler, tuple(int(case[f"threads_{mode}"]) for mode in "mn")


def _laid_out(matrix: Tensor, layout: str) -> Tensor:
    """Return the same matrix [rows, columns] in another memory layout.

    A single column's second stride is the column's length. If both strides were 1, CuTe would make fragments whose rows
    and columns share registers (nvidia-cutlass-dsl 4.8.1: make_fragment_A of (4,2):(1,1) is (4,2):(1,1)), and code as
    in its documentation would be wrong.
    """
    if layout == "sliced":
        return with_gaps(matrix, 0, GAP)
    laid = matrix.T.contiguous().T if layout == "columns" else matrix
    rows, columns = laid.shape
    return laid.as_strided((rows, 1), (1, max(rows, 2))) if columns == 1 else laid


def gemm(case: Mapping[str, object], generator: Generator) -> tuple[Tensor, Tensor]:
    """Return a: [M, K], b: [K, N], row after row. large: of numbers that the other 16-bit dtype cannot hold."""
    m, n, k = (int(case[axis]) for axis in "MNK")
    dtype = dtype_of(case["dtype"])
    kind = str(case["values"])
    a = values(kind if kind in ("shifted", "large") else "normal", (m, k), dtype, generator)
    b = values("normal", (k, n), torch.float32, generator)
    b = (b / (4 * k**0.5) if kind == "large" else b).to(dtype)
    if kind == "nonfinite":
        a[::3] = values("nonfinite", a[::3].shape, dtype, generator)
        b = torch.where(b.abs() < 0.5, torch.zeros_like(b), b)
    return a, b


def select_kernel(case: Mapping[str, object], generator: Generator) -> tuple[object, ...]:
    """Return m, n, k; the candidates, or a few of them, in random order; the device."""
    order = torch.randperm(len(CANDIDATES), generator=generator, device=generator.device).tolist()
    count = int(case["few"]) or len(CANDIDATES)
    candidates = tuple(CANDIDATES[place] for place in order[:count])
    return int(case["M"]), int(case["N"]), int(case["K"]), candidates, H200
