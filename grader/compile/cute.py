"""Trace CuTe's functions for a GPU that need not be there, and read what CuTe's compiler made of one.

The DSL needs no driver to trace or compile (nvidia-cutlass-dsl 4.8.1): the architecture is a setting, and a tensor's
capsule names the device of its memory. A GEMM kernel takes 3 s.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

from grader.compile import assembly
from grader.gpus import Architecture
from grader.protocol.answers import Binary

# DLPack's number for memory of a CUDA device.
_CUDA = 2
# The assembler gives registers in pieces of this size.
_GRANULE = 8
_REGISTERS = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)")
# The launch configuration in the host code: grid, block, then the bytes of dynamic shared memory.
_SHARED_PLACE = re.compile(
    r"(%\d+) = llvm\.getelementptr %\d+\[0, 2\] : [^\n]*struct<\(array<3 x i32>, array<3 x i32>, i64"
)


class _DLDevice(ctypes.Structure):
    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class _DLTensor(ctypes.Structure):
    """The head of DLPack's DLTensor."""

    _fields_ = (("data", ctypes.c_void_p), ("device", _DLDevice))


def on_gpu(capsule: Any) -> Any:
    """Mark the memory of a DLPack capsule as a GPU's, and return the same capsule."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _DLTensor.from_address(pointer(capsule, b"dltensor"))
    tensor.device = _DLDevice(_CUDA, 0)
    return capsule


def keep_machine_code(folder: Path) -> Any:
    """Return options of the DSL's compiler that make it write PTX and machine code to a folder."""
    from cutlass.base_dsl.compiler import CompileOptions, KeepCUBIN, KeepPTX

    options = CompileOptions((KeepPTX(True), KeepCUBIN(True)))
    for one in options.options.values():
        if isinstance(one, KeepPTX | KeepCUBIN):
            one.dump_path = str(folder / "kernel")
    return options


def trace_for(target: Architecture) -> None:
    """Let the DSL take `target` for the GPU of this machine."""
    from cutlass.cutlass_dsl import CuTeDSL

    CuTeDSL._get_dsl().envar.arch = arch_of(target)


def arch_of(target: Architecture) -> str:
    """Return the DSL's name of a GPU."""
    # Instructions of one architecture only, such as wgmma, exist in its "a" variant.
    return f"{target.name}a" if target.capability >= 90 else target.name


def read_binary(name: str, line: int, folder: Path, host_code: str, path: str, seconds: float) -> Binary:
    """Read the DSL's output: one PTX text with all kernels of the function, and their machine code."""
    ptx = next(folder.glob("*.ptx")).read_text(encoding="utf-8", errors="replace")
    cubin = next(folder.glob("*.cubin"))
    counted = assembly.instructions(ptx, path)
    used = [tuple(map(int, found)) for found in _REGISTERS.findall(_tool("cuobjdump", "--dump-resource-usage", cubin))]
    # Without a stack, nothing can be there.
    spilled = assembly.local_bytes(_tool("nvdisasm", cubin) if any(stack for _, stack, _ in used) else "")
    arrays = assembly.local_arrays(ptx)
    registers = max((registers for registers, _, _ in used), default=0)
    if arrays.nbytes and registers < assembly.registers_left(counted) - _GRANULE:
        # The assembler may repeat accesses to an array, but it spills only what registers no longer hold.
        spilled.clear()
    return Binary(
        kernel=name[:80],
        line=line,
        constants={},
        configurations=0,
        num_warps=-(-counted.threads // 32),
        num_stages=0,
        threads=counted.threads,
        registers=registers,
        most_registers=counted.most_registers,
        stack_bytes=max((stack for _, stack, _ in used), default=0),
        spill_store_bytes=max(0, spilled["store"] - arrays.stored),
        spill_load_bytes=max(0, spilled["load"] - arrays.loaded),
        array_bytes=arrays.nbytes,
        array_step_bytes=arrays.loaded_per_step,
        shared_bytes=_dynamic_shared_bytes(host_code),
        dots=assembly.products(ptx),
        tensor_cores=dict(counted.tensor_cores),
        copies=dict(counted.copies),
        loads={str(width): count for width, count in sorted(counted.loads.items())},
        stores={str(width): count for width, count in sorted(counted.stores.items())},
        seconds=round(seconds, 3),
    )


def _tool(name: str, *arguments: object) -> str:
    """Return the output of a tool in Triton's wheel."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    done = subprocess.run([str(tool), *map(str, arguments)], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout


def _dynamic_shared_bytes(host_code: str) -> int:
    """Return the most shared memory, in bytes, that a launch in this host code asks for; not a constant: 0."""
    most = 0
    for place in _SHARED_PLACE.findall(host_code):
        stored = re.search(rf"llvm\.store (%\d+), {re.escape(place)} : i64", host_code)
        value = (
            re.search(rf"{re.escape(stored[1])} = llvm\.mlir\.constant\((\d+) : i64\)", host_code) if stored else None
        )
        most = max(most, int(value[1]) if value else 0)
    return most
