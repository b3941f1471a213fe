"""Parts whose kernels were compiled, to render."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grader.compile.findings import described
from grader.gpus import ARCHITECTURES
from grader.protocol.answers import Binary, Narrow
from grader.record.checks import PartInfo
from grader.record.kernels import CompiledKernel
from grader.record.record import Record
from tests.records import samples

CASE = "M=2048, N=2048, dtype=float16"
GEMM = Binary(
    kernel="gemm_kernel",
    line=42,
    constants={"BLOCK_M": 128, "BLOCK_N": 256, "FUSED": False},
    configurations=0,
    num_warps=8,
    num_stages=4,
    threads=256,
    registers=174,
    shared_bytes=229408,
    dots=("float16",),
    tensor_cores={"wgmma.mma_async": 4},
    copies={"cp.async.bulk.tensor": 12},
    seconds=1.61,
)
COPY = Binary(
    kernel="copy_kernel",
    line=7,
    constants={"BLOCK": 1024},
    configurations=0,
    num_warps=1,
    num_stages=3,
    threads=32,
    registers=18,
    loads={"2": 1, "16": 72},
    stores={"16": 8},
)


def kernel(binary: Binary, capability: int = 90, **changes: Any) -> CompiledKernel:
    """What the record holds of a binary, changed in some fields."""
    found = described(replace(binary, **changes), ARCHITECTURES[capability], CASE)
    assert found is not None
    return found


def gemm() -> PartInfo:
    """A product: good on one GPU, spilling on the second, beyond the third's shared memory, and one missing."""
    spilling = {"spill_store_bytes": 348, "spill_load_bytes": 336, "registers": 255, "tensor_cores": {"mma.sync": 128}}
    narrow = (Narrow(50, "load", 2, 16), Narrow(51, "load", 2, 16), Narrow(60, "store", 4, 16))
    return PartInfo(
        "gemm",
        "Product",
        (
            kernel(GEMM, 80, **spilling, shared_bytes=49152, copies={}, loads={"2": 96}, narrow=narrow),
            kernel(GEMM),
            kernel(GEMM, 100, error="arange's range must be a power of 2", error_line=44, threads=0),
        ),
    )


def record(*parts: PartInfo, **changes: Any) -> Record:
    """A record that passes in these parts."""
    checks = tuple(samples.check(f"{part.name}.right", "Right", "pass", 1.0, 1.0) for part in parts)
    return samples.record(checks, parts, **changes)
