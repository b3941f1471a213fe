"""What makers publish about GPUs: the roofs of a prediction where no GPU can be measured. No figure with sparsity.

Data sheets state tensor-core rates with 2:4 sparsity; half of that is the dense rate, as the architecture papers say.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """A GPU on paper: DRAM bandwidth in TB/s, dense TFLOP/s by type, the L2 cache in bytes.

    tflops: "float16", "bfloat16" and "tf32" on the tensor cores, with sums in float32; "float32" on the CUDA cores,
    where true float32 products run.
    """

    name: str
    dram_tbps: float
    tflops: dict[str, float]
    l2_bytes: int


def _rates(half: float, tf32: float, float32: float) -> dict[str, float]:
    return {"float16": half, "bfloat16": half, "tf32": tf32, "float32": float32}


_MB = 1 << 20

# The first is the one that a terminal speaks of.
GPUS: tuple[Gpu, ...] = (
    # NVIDIA H200 data sheet, SXM: 4.8 TB/s, FP16 1,979 TFLOPS with sparsity, FP32 67. The chip is the H100's.
    Gpu("H200", 4.8, _rates(989.4, 494.7, 66.9), 50 * _MB),
    # NVIDIA H100 Tensor Core GPU architecture, SXM5: 3,352 GB/s; dense FP16 989.4, TF32 494.7, FP32 66.9; L2 50 MB.
    Gpu("H100 SXM", 3.352, _rates(989.4, 494.7, 66.9), 50 * _MB),
    # NVIDIA Blackwell data sheet, HGX B200, one GPU: 7.7 TB/s; FP16 4.5 PFLOPS and TF32 2.2 with sparsity; FP32 75.
    # L2: 126.5 MB, as CUDA reports it (pytorch/ao#4002, which measures 7.67 TB/s from bus width and clock).
    Gpu("B200", 7.7, _rates(2250, 1100, 75), 126 * _MB),
    # NVIDIA A100 data sheet, 80GB SXM: 2,039 GB/s; dense FP16 312, TF32 156, FP32 19.5. L2 40 MB: GA100 paper.
    Gpu("A100 80GB SXM", 2.039, _rates(312, 156, 19.5), 40 * _MB),
    # NVIDIA L4 data sheet: 300 GB/s; FP16 242 TFLOPS and TF32 120 with sparsity; FP32 30.3. L2 48 MB: AD104.
    Gpu("L4", 0.3, _rates(121, 60, 30.3), 48 * _MB),
    # NVIDIA Ada GPU architecture, GeForce RTX 4090: 1,008 GB/s; dense FP16 with sums in FP32 165.2, TF32 82.6,
    # FP32 82.6; L2 73,728 KB.
    Gpu("RTX 4090", 1.008, _rates(165.2, 82.6, 82.6), 72 * _MB),
)
