"""One row for every GPU architecture that the grader knows. A new one touches this file alone.

A row holds the limits on occupancy, and the maker's published figures for each GPU named here. An architecture without
a row is unknown: nothing is compiled for it or predicted of it, and no other row stands in.

Sources, the same for every row:
- Limits of a multiprocessor: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; the same
  numbers as code: NVIDIA/cccl, libcudacxx/include/cuda/__device/arch_traits.h.
- Pieces in which shared memory is given out: cuda_occupancy.h of the CUDA toolkit, cudaOccSMemAllocationGranularity.
- float32 lanes, exponentials: CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions".
Data sheets of data-centre GPUs state tensor-core rates with 2:4 sparsity; half of that is the dense rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

_KIB, _MIB = 1 << 10, 1 << 20
WARP = 32


@dataclass(frozen=True)
class Gpu:
    """A GPU on paper: multiprocessors, memory in GiB, DRAM bandwidth in TB/s and its bus in bits, L2 cache in bytes.

    tflops: dense TFLOP/s by type. "float16", "bfloat16" and "tf32" are rates of the tensor cores with sums in float32,
    if there are such; "float32" is the rate of the CUDA cores, which run true float32 products.
    """

    name: str
    multiprocessors: int
    memory_gib: int
    dram_tbps: float
    bus_bits: int
    tflops: Mapping[str, float]
    l2_bytes: int

    @property
    def memory_mhz(self) -> int:
        """Return the memory clock that the bandwidth and the bus imply, with data on both edges."""
        return round(self.dram_tbps * 1e6 * 8 / (2 * self.bus_bits))


@dataclass(frozen=True)
class Architecture:
    """One compute capability: 90 is 9.0. gpus: GPUs of this kind, the one that stands for it first.

    warps, programs, shared_bytes, registers: limits of a multiprocessor at one time. reserved_bytes: shared memory that
    each program takes beside its own. shared_piece: each program's shared memory is rounded up to this many bytes.
    lanes, special: float32 multiply-adds and exponentials of a multiprocessor in a cycle. dot_clocks: cycles that are
    lost when the warps of a program wait for a product. lacks: types without instructions there.
    triton_tensor_cores: whether Triton compiles tl.dot to its tensor cores. cute_dsl: whether CuTe's compiler knows it.
    by_default: whether kernels are compiled for it everywhere.
    """

    capability: int
    gpus: tuple[Gpu, ...]
    warps: int
    programs: int
    shared_bytes: int
    lanes: int
    special: int = 16
    # Fitted to an H100 (docs/efficiency.md), and used for every architecture.
    dot_clocks: int = 150
    reserved_bytes: int = 1024
    shared_piece: int = 128
    registers: int = 65536
    tensor_memory_columns: int = 0
    lacks: tuple[str, ...] = ()
    triton_tensor_cores: bool = True
    cute_dsl: bool = True
    by_default: bool = False

    @property
    def name(self) -> str:
        """Return the compilers' name: "sm_90"."""
        return f"sm_{self.capability}"

    @property
    def gpu(self) -> Gpu:
        """Return the GPU that stands for the architecture."""
        return self.gpus[0]

    @property
    def threads(self) -> int:
        """Return the most threads of a multiprocessor at one time."""
        return self.warps * WARP

    @property
    def shared_bytes_per_program(self) -> int:
        """Return the most shared memory that one program may use."""
        return self.shared_bytes - self.reserved_bytes

    @property
    def sm_mhz(self) -> int:
        """Return the clock that the published float32 rate of its GPU implies."""
        return round(self.gpu.tflops["float32"] * 1e6 / (2 * self.lanes * self.gpu.multiprocessors))


def _rates(half: float, tf32: float, float32: float) -> Mapping[str, float]:
    return {"float16": half, "bfloat16": half, "tf32": tf32, "float32": float32}


_ROWS = (
    # The first row is shown where there is no GPU and room for one only, and answers launch code in the interpreter.
    Architecture(
        90,
        (
            # NVIDIA H200 data sheet, SXM: 141 GB, 4.8 TB/s, FP16 1,979 TFLOPS with sparsity, FP32 67. The chip is the
            # H100's. Six stacks of 1,024 bits.
            Gpu("H200", 132, 141, 4.8, 6144, _rates(989.4, 494.7, 66.9), 50 * _MIB),
            # NVIDIA H100 Tensor Core GPU architecture, SXM5: 132 SMs, 5,120 bits, 3,352 GB/s; dense FP16 989.4,
            # TF32 494.7, FP32 66.9; L2 50 MB.
            Gpu("H100 SXM", 132, 80, 3.352, 5120, _rates(989.4, 494.7, 66.9), 50 * _MIB),
        ),
        warps=64,
        programs=32,
        shared_bytes=228 * _KIB,
        lanes=128,
        by_default=True,
    ),
    Architecture(
        80,
        # NVIDIA A100 data sheet, 80GB SXM: 2,039 GB/s; dense FP16 312, TF32 156, FP32 19.5. NVIDIA A100 Tensor Core
        # GPU architecture: 108 SMs, 5,120 bits, L2 40 MB.
        (Gpu("A100 80GB SXM", 108, 80, 2.039, 5120, _rates(312, 156, 19.5), 40 * _MIB),),
        warps=64,
        programs=32,
        shared_bytes=164 * _KIB,
        lanes=64,
        by_default=True,
    ),
    Architecture(
        100,
        # NVIDIA Blackwell data sheet, HGX B200, one GPU: 180 GB, 7.7 TB/s; FP16 4.5 PFLOPS and TF32 2.2 with sparsity;
        # FP32 75. L2 and SMs: 126.5 MB and 148, as CUDA reports them (pytorch/ao#4002, which measures 7.67 TB/s from
        # bus width and clock). Eight stacks of 1,024 bits.
        (Gpu("B200", 148, 180, 7.7, 8192, _rates(2250, 1100, 75), 126 * _MIB),),
        warps=64,
        programs=32,
        shared_bytes=228 * _KIB,
        lanes=128,
        # PTX ISA, "Tensor Memory".
        tensor_memory_columns=512,
        by_default=True,
    ),
    Architecture(
        89,
        (
            # NVIDIA Ada GPU architecture, appendix A, GeForce RTX 4090: 128 SMs, 384 bits, 1,008 GB/s; dense FP16 with
            # sums in FP32 165.2, TF32 82.6, FP32 82.6; L2 73,728 KB.
            Gpu("RTX 4090", 128, 24, 1.008, 384, _rates(165.2, 82.6, 82.6), 72 * _MIB),
            # NVIDIA L4 data sheet: 24 GB, 300 GB/s; FP16 242 TFLOPS and TF32 120 with sparsity; FP32 30.3. AD104 with
            # 58 SMs and 192 bits; L2 48 MB.
            Gpu("L4", 58, 24, 0.3, 192, _rates(121, 60, 30.3), 48 * _MIB),
        ),
        warps=48,
        programs=24,
        shared_bytes=100 * _KIB,
        lanes=128,
    ),
    Architecture(
        120,
        # NVIDIA RTX Blackwell GPU architecture, table 3, GeForce RTX 5090: 170 SMs, 32 GB, 512 bits, 1,792 GB/s; dense
        # FP16 and BF16 with sums in FP32 209.5, TF32 and FP32 104.8; L2 98,304 KB.
        (Gpu("RTX 5090", 170, 32, 1.792, 512, _rates(209.5, 104.8, 104.8), 96 * _MIB),),
        warps=48,
        programs=24,
        shared_bytes=100 * _KIB,
        lanes=128,
    ),
    Architecture(
        86,
        # NVIDIA Ampere GA102 GPU architecture, appendix A, GeForce RTX 3090: 82 SMs, 24 GB, 384 bits, 936 GB/s; dense
        # FP16 and BF16 with sums in FP32 71, TF32 and FP32 35.6; L2 6,144 KB.
        (Gpu("RTX 3090", 82, 24, 0.936, 384, _rates(71, 35.6, 35.6), 6 * _MIB),),
        warps=48,
        programs=16,
        shared_bytes=100 * _KIB,
        lanes=128,
    ),
    Architecture(
        75,
        # NVIDIA T4 data sheet: 16 GB, 320 GB/s, mixed precision (FP16 with sums in FP32) 65 TFLOPS, FP32 8.1. TU104
        # with 40 SMs, 256 bits and 4 MB of L2, as CUDA reports them. Its tensor cores know neither BF16 nor TF32
        # (PTX ISA: mma with .bf16 and .tf32 requires sm_80).
        (Gpu("T4", 40, 16, 0.32, 256, {"float16": 65.0, "float32": 8.1}, 4 * _MIB),),
        warps=32,
        programs=16,
        shared_bytes=64 * _KIB,
        lanes=64,
        reserved_bytes=0,
        shared_piece=256,
        lacks=("bfloat16",),
        # Since 3.3 it multiplies on the CUDA cores before sm_80 (triton-lang/triton#5066); so do 3.6.0 and 3.7.1.
        triton_tensor_cores=False,
        # nvidia-cutlass-dsl 4.8.1, cutlass.base_dsl.arch.Arch: from sm_80 on.
        cute_dsl=False,
    ),
)

ARCHITECTURES: Mapping[int, Architecture] = MappingProxyType({row.capability: row for row in _ROWS})
USUAL = _ROWS[0]
# The multiprocessors of the usual GPU that launch code is told of without a GPU, as if its owner lent a part of it:
# persistent programs take several tiles in small cases.
LENT_MULTIPROCESSORS = 28
# As many as no GPU of the table has: what has room for those of one GPU only is too small there.
MOST_MULTIPROCESSORS = 192


def named(capability: str) -> str:
    """Return the compilers' name of a compute capability: "sm_89" for "8.9"; '' for an invalid one."""
    digits = capability.replace(".", "", 1)
    return f"sm_{digits}" if digits.isascii() and digits.isdigit() else ""


def known(capability: str) -> Architecture | None:
    """Return the row of a GPU whose driver reports this compute capability, or None."""
    name = named(capability)
    return next((row for row in _ROWS if row.name == name), None)


def why_unknown(capability: str) -> str:
    """Return a sentence about a compute capability without a row; '' for one that has a row, and for no GPU at all."""
    if not capability or known(capability):
        return ""
    there = ", ".join(row.name for row in sorted(_ROWS, key=lambda row: row.capability))
    what = f"compute capability {capability}" if named(capability) else "this GPU's compute capability"
    return f"{what} is unknown here (known are {there}): nothing is compiled for it or predicted of it"


def restrictions(architecture: Architecture) -> tuple[str, ...]:
    """Return, in words, what the figures do not show: what Triton does not use there, and which types are left out."""
    said = [] if architecture.triton_tensor_cores else ["Triton uses no tensor cores there, products run as float32"]
    return (*said, *(f"it has no {dtype}: such cases are left out" for dtype in architecture.lacks))


def compiled_for(capability: str = "", also: Iterable[int] = ()) -> tuple[Architecture, ...]:
    """Return the architectures that kernels are compiled for on a machine with such a GPU ('': none).

    In this order: its own, those by default, and those in `also`.
    """
    local = known(capability)
    rows = (*([local] if local else []), *(row for row in _ROWS if row.by_default), *(ARCHITECTURES[c] for c in also))
    return tuple({row.capability: row for row in rows}.values())
