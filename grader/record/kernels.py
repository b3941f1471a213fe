"""Define what a record tells of compiled kernels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Occupancy:
    """The number of programs of a kernel that fit a multiprocessor at the same time.

    share: the part of the multiprocessor's warps that they fill. limited_by: the resource that admits no more.
    """

    programs: int
    share: float
    limited_by: str


@dataclass(frozen=True)
class KernelFinding:
    """A fault that a compiler's output shows: a kind for programs, a sentence, and the submission's line.

    line is 0 if no single line is meant.
    """

    kind: str
    text: str
    line: int = 0


@dataclass(frozen=True)
class CompiledKernel:
    """The compiler's result for one launched kernel on one GPU. Without occupancy, it did not compile.

    Instructions are counted in the PTX, where those of a loop stand once. case: the case of the launch. configurations:
    how many an autotuner chooses from. registers (0: unknown), spills and stack: of one thread. loads, stores:
    instructions for global memory, by the bytes that each moves.
    """

    kernel: str
    line: int
    target: str
    case: str
    constants: dict[str, int | bool]
    configurations: int
    num_warps: int
    num_stages: int
    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int
    tensor_memory_columns: int
    occupancy: Occupancy | None
    dots: tuple[str, ...]
    tensor_cores: dict[str, int]
    copies: dict[str, int]
    loads: dict[str, int]
    stores: dict[str, int]
    compile_s: float
    findings: tuple[KernelFinding, ...] = ()
