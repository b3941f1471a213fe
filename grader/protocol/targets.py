"""The GPUs that kernels are compiled for, whether one is there or not: limits that both sides of the process boundary
need.

From the CUDA C++ programming guide, "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A compute capability: 90 is 9.0. multiprocessors: of the GPU that stands for it.

    shared_bytes_per_program: the most that one program may use; each takes reserved_bytes more from its multiprocessor.
    """

    capability: int
    gpu: str
    multiprocessors: int
    shared_bytes_per_program: int
    shared_bytes: int
    reserved_bytes: int = 1024
    registers: int = 65536
    warps: int = 64
    programs: int = 32

    @property
    def name(self) -> str:
        """As compilers call it: "sm_90"."""
        return f"sm_{self.capability}"


TARGETS = {
    target.capability: target
    for target in (
        Target(80, "A100", 108, shared_bytes_per_program=163 << 10, shared_bytes=164 << 10),
        Target(90, "H100", 132, shared_bytes_per_program=227 << 10, shared_bytes=228 << 10),
        Target(100, "B200", 148, shared_bytes_per_program=227 << 10, shared_bytes=228 << 10),
    )
}
