"""Turn the numbers of a compiled kernel into occupancy and findings in words. Pure.

The numbers are claims of an untrusted process: impossible ones are refused, and texts are cleaned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from grader.gpus import Architecture
from grader.phrases import all_of, counted, kib, lines_named
from grader.protocol.answers import EXACT_IN_JSON, Binary, Narrow
from grader.record.kernels import CompiledKernel, KernelFinding, Occupancy
from grader.text import one_line

MOST_KERNELS = 64
# CUDA C++ programming guide, "Technical Specifications per Compute Capability": the most registers of one thread.
_REGISTERS_PER_THREAD = 255
# The hardware allocates registers to a warp in units of this size, from the warp's quarter of the multiprocessor
# (cuda_occupancy.h of the CUDA toolkit).
_REGISTER_PIECE = 256
_QUARTERS = 4

_MOST_COUNT = 1 << 24
_MOST_ENTRIES = 32
_MOST_BYTES = 1 << 30


def described(binary: Binary, target: Architecture, case: str) -> CompiledKernel | None:
    """Return a compiled kernel for the record; None if its numbers are impossible."""
    if not _can_be(binary):
        return None
    return CompiledKernel(
        kernel=one_line(binary.kernel, 80),
        line=binary.line,
        target=target.name,
        case=case,
        constants={one_line(name, 40): value for name, value in binary.constants.items()},
        configurations=binary.configurations,
        num_warps=binary.num_warps,
        num_stages=binary.num_stages,
        registers=binary.registers,
        stack_bytes=binary.stack_bytes,
        spill_store_bytes=binary.spill_store_bytes,
        spill_load_bytes=binary.spill_load_bytes,
        shared_bytes=binary.shared_bytes,
        tensor_memory_columns=binary.tensor_memory_columns,
        occupancy=None if binary.error else occupancy(binary, target),
        dots=tuple(one_line(name, 40) for name in binary.dots),
        tensor_cores={one_line(name, 40): count for name, count in binary.tensor_cores.items()},
        copies={one_line(name, 40): count for name, count in binary.copies.items()},
        loads=dict(binary.loads),
        stores=dict(binary.stores),
        compile_s=binary.seconds,
        findings=tuple(_findings(binary, target)),
    )


def _can_be(binary: Binary) -> bool:
    named: tuple[Mapping[str, int], ...] = (binary.tensor_cores, binary.copies, binary.loads, binary.stores)
    widths = [*binary.loads, *binary.stores]
    counts = [count for table in named for count in table.values()]
    sizes = [
        *(binary.stack_bytes, binary.spill_store_bytes, binary.spill_load_bytes, binary.shared_bytes),
        *(binary.array_bytes, binary.array_step_bytes),
        *(size for one in binary.narrow for size in (one.bytes, one.possible)),
    ]
    lines = [binary.line, binary.error_line, *(one.line for one in binary.narrow)]
    tables = (*named, binary.constants, binary.dots, binary.narrow, binary.remarks)
    return (
        0 <= binary.registers <= _REGISTERS_PER_THREAD
        and 0 <= binary.most_registers <= 1024
        and 0 <= binary.num_warps <= 64
        and 0 <= binary.num_stages <= 1000
        and 0 <= binary.threads <= 2048
        and 0 <= binary.tensor_memory_columns <= 1 << 16
        and 0 <= binary.configurations <= _MOST_COUNT
        and 0 <= binary.seconds <= 1e5
        and all(0 <= number <= _MOST_COUNT for number in (*counts, *lines))
        and all(0 <= size <= _MOST_BYTES for size in sizes)
        and all(abs(value) < EXACT_IN_JSON for value in binary.constants.values())
        and all(width.isascii() and width.isdigit() and len(width) <= 4 for width in widths)
        and all(len(table) <= _MOST_ENTRIES for table in tables)
    )


# -- occupancy -------------------------------------------------------------------------------------------------------


def occupancy(binary: Binary, target: Architecture) -> Occupancy:
    """Return the number of programs that fit a multiprocessor at the same time, and the limit that stops more."""
    warps = max(-(-binary.threads // 32), binary.num_warps, 1)
    limits = {"warps": target.warps // warps, "programs": target.programs}
    if binary.registers:
        per_warp = _rounded_up(32 * binary.registers, _REGISTER_PIECE)
        limits["registers"] = target.registers // _QUARTERS // per_warp * _QUARTERS // warps
    taken = _rounded_up(binary.shared_bytes + target.reserved_bytes, target.shared_piece)
    if taken:
        limits["shared memory"] = target.shared_bytes // taken
    if binary.tensor_memory_columns:
        limits["tensor memory"] = target.tensor_memory_columns // binary.tensor_memory_columns
    programs = min(limits.values())
    by = all_of([name for name, limit in limits.items() if limit == programs])
    return Occupancy(programs=programs, share=round(programs * warps / target.warps, 4), limited_by=by)


def _rounded_up(number: int, piece: int) -> int:
    return -(-number // piece) * piece


# -- findings --------------------------------------------------------------------------------------------------------


def _findings(binary: Binary, target: Architecture) -> Iterator[KernelFinding]:
    """Yield the findings, worst first."""
    if binary.other_branch:
        yield KernelFinding("other_branch", one_line(binary.error, 400), binary.error_line)
        return
    if binary.error:
        yield KernelFinding("compile_error", f"does not compile: {one_line(binary.error, 400)}", binary.error_line)
        return
    # An autotuner skips a configuration that does not fit.
    fails = "an autotuner passes over it" if binary.configurations else "it will not launch"
    most = target.shared_bytes_per_program
    if binary.shared_bytes > most:
        used, there = kib(binary.shared_bytes), kib(most)
        if used == there:
            used, there = f"{binary.shared_bytes} bytes", f"{most}"
        yield KernelFinding("shared_memory", f"uses {used} of shared memory where a program has {there}: {fails}")
    if binary.tensor_memory_columns > target.tensor_memory_columns:
        columns = f"{binary.tensor_memory_columns} columns of tensor memory"
        yield KernelFinding("tensor_memory", f"uses {columns} where there are {target.tensor_memory_columns}: {fails}")
    if spilled := binary.spill_store_bytes or binary.spill_load_bytes:
        yield KernelFinding("spills", f"spills {spilled} bytes of each thread's registers: {_too_few(binary)}")
    if binary.array_step_bytes:
        loaded = f"each step of the loop with the tensor cores loads {binary.array_step_bytes} bytes of them"
        yield KernelFinding("array_in_loop", f"{_in_memory(binary)}, and {loaded}")
    elif binary.array_bytes:
        yield KernelFinding(
            "local_array", f"{_in_memory(binary)}, but the loop with the tensor cores loads none of them"
        )
    if binary.dots and not sum(binary.tensor_cores.values()):
        yield KernelFinding("no_tensor_cores", _no_tensor_cores(binary.dots, target))
    for remark in binary.remarks:
        yield KernelFinding("serialised", f"loses performance, says ptxas ({one_line(remark, 240)})")
    yield from _narrow_accesses(binary.narrow)


def _in_memory(binary: Binary) -> str:
    return f"holds {binary.array_bytes} bytes of each thread's fragments in memory, not in registers"


def _too_few(binary: Binary) -> str:
    if binary.most_registers:
        return f"maxnreg={binary.most_registers} leaves it too few"
    return f"the tile is too large for {counted(binary.num_warps, 'warp')}"


def _no_tensor_cores(dots: tuple[str, ...], target: Architecture) -> str:
    kinds = one_line(all_of(dots), 120)
    text = f"tl.dot of {kinds} compiled to no tensor-core instruction"
    if not target.triton_tensor_cores:
        return f"{text}: Triton does not use those of {target.name}, and multiplies on the CUDA cores"
    if all(kind == "float32 (ieee)" for kind in dots):
        return f"{text}: tensor cores multiply float32 as TF32 only"
    return text


def _narrow_accesses(accesses: tuple[Narrow, ...]) -> Iterator[KernelFinding]:
    """Yield one finding for all lines that access memory in the same way."""
    alike: dict[tuple[str, int, int], list[int]] = {}
    for one in accesses:
        if 0 < one.bytes < one.possible:
            alike.setdefault((one.access, one.bytes, one.possible), []).append(one.line)
    for (access, width, possible), lines in alike.items():
        verb = access if len(lines) > 1 else f"{access}s"
        text = f"{lines_named(lines)} {verb} {counted(width, 'byte')} at a time where {possible} are possible"
        yield KernelFinding("narrow_access", text, lines[0])
