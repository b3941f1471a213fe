"""From a compiler's numbers to occupancy and findings: known values, exact sentences, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grader.compile.findings import described, occupancy
from grader.gpus import ARCHITECTURES
from grader.protocol.answers import Binary, Narrow
from grader.record.kernels import Occupancy
from tests.records.compiled import COPY, GEMM


def findings(capability: int = 90, **changes: Any) -> list[tuple[str, str, int]]:
    kernel = described(replace(GEMM, **changes), ARCHITECTURES[capability], "N=1")
    assert kernel is not None
    return [(one.kind, one.text, one.line) for one in kernel.findings]


def only(**changes: Any) -> tuple[str, str, int]:
    (finding,) = findings(**changes)
    return finding


# -- occupancy -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capability", "threads", "registers", "shared", "expected"),
    [
        # As NVIDIA's occupancy calculator has them.
        (90, 128, 32, 0, Occupancy(16, 1.0, "warps and registers")),
        (90, 128, 33, 0, Occupancy(12, 0.75, "registers")),
        (90, 128, 56, 0, Occupancy(9, 0.5625, "registers")),
        (90, 256, 174, 229408, Occupancy(1, 0.125, "registers and shared memory")),
        (90, 256, 255, 0, Occupancy(1, 0.125, "registers")),
        (90, 32, 16, 0, Occupancy(32, 0.5, "programs")),
        (90, 1024, 64, 0, Occupancy(1, 0.5, "registers")),
        (90, 1024, 32, 0, Occupancy(2, 1.0, "warps and registers")),
        (80, 128, 32, 98304, Occupancy(1, 0.0625, "shared memory")),
        (90, 128, 32, 98304, Occupancy(2, 0.125, "shared memory")),
        (80, 128, 32, 166912, Occupancy(1, 0.0625, "shared memory")),
        (90, 128, 32, 232448, Occupancy(1, 0.0625, "shared memory")),
        (90, 128, 32, 232449, Occupancy(0, 0.0, "shared memory")),
        (80, 128, 32, 166913, Occupancy(0, 0.0, "shared memory")),
        (86, 64, 16, 0, Occupancy(16, 0.6667, "programs")),
        (89, 64, 16, 0, Occupancy(24, 1.0, "warps and programs")),
        (120, 128, 32, 101376, Occupancy(1, 0.0833, "shared memory")),
        (120, 128, 32, 101377, Occupancy(0, 0.0, "shared memory")),
        # Nothing is reserved, and shared memory comes in pieces of 256 bytes.
        (75, 128, 32, 65536, Occupancy(1, 0.125, "shared memory")),
        (75, 32, 16, 4097, Occupancy(15, 0.4688, "shared memory")),
        (75, 64, 16, 0, Occupancy(16, 1.0, "warps and programs")),
    ],
)
def test_occupancy_follows_from_registers_shared_memory_and_warps(
    capability: int, threads: int, registers: int, shared: int, expected: Occupancy
) -> None:
    binary = Binary("k", 1, {}, 0, threads // 32, 3, threads=threads, registers=registers, shared_bytes=shared)
    assert occupancy(binary, ARCHITECTURES[capability]) == expected


def test_tensor_memory_limits_it_as_well() -> None:
    binary = replace(GEMM, registers=64, shared_bytes=1024, tensor_memory_columns=256)
    assert occupancy(binary, ARCHITECTURES[100]) == Occupancy(2, 0.25, "tensor memory")


def test_a_dot_on_a_gpu_whose_tensor_cores_triton_does_not_use_says_so() -> None:
    kernel = described(replace(GEMM, tensor_cores={}, dots=("float16",)), ARCHITECTURES[75], "")
    assert kernel is not None
    assert [one.text for one in kernel.findings if one.kind == "no_tensor_cores"] == [
        "tl.dot of float16 compiled to no tensor-core instruction: Triton does not use those of sm_75, and multiplies "
        "on the CUDA cores"
    ]


def test_unknown_registers_limit_nothing() -> None:
    assert occupancy(replace(COPY, registers=0, num_warps=4, threads=128), ARCHITECTURES[90]).limited_by == "warps"


def test_what_did_not_compile_has_none() -> None:
    kernel = described(replace(GEMM, error="no"), ARCHITECTURES[90], "")
    assert kernel is not None
    assert kernel.occupancy is None


# -- findings --------------------------------------------------------------------------------------------------------


def test_a_good_kernel_has_no_findings() -> None:
    assert findings() == []


def test_spills_are_the_tile_s_fault() -> None:
    text = "spills 512 bytes of each thread's registers: the tile is too large for 4 warps"
    assert only(spill_store_bytes=512, num_warps=4) == ("spills", text, 0)
    assert only(spill_load_bytes=8, num_warps=1)[1].endswith("too large for 1 warp")


def test_or_that_of_a_limit_that_was_asked_for() -> None:
    text = "spills 8 bytes of each thread's registers: maxnreg=64 leaves it too few"
    assert only(spill_store_bytes=8, registers=64, most_registers=64)[1] == text


def test_fragments_in_memory_are_a_fault_where_the_main_loop_loads_them() -> None:
    text = (
        "holds 256 bytes of each thread's fragments in memory, not in registers, and each step of the loop with the "
        "tensor cores loads 64 bytes of them"
    )
    assert only(array_bytes=256, array_step_bytes=64) == ("array_in_loop", text, 0)


def test_elsewhere_they_are_only_told() -> None:
    kind, text, _ = only(array_bytes=64)
    assert kind == "local_array"
    assert text.endswith("but the loop with the tensor cores loads none of them")


def test_too_much_shared_memory_will_not_launch() -> None:
    text = "uses 240 KiB of shared memory where a program has 227 KiB: it will not launch"
    assert only(shared_bytes=240 << 10) == ("shared_memory", text, 0)
    assert only(capability=80, shared_bytes=166913)[1].startswith("uses 166913 bytes of shared memory where a program")
    assert findings(80, shared_bytes=166912) == []


def test_an_autotuner_passes_over_what_does_not_fit() -> None:
    assert only(shared_bytes=240 << 10, configurations=3)[1].endswith("an autotuner passes over it")


def test_too_much_tensor_memory_will_not_launch() -> None:
    text = "uses 640 columns of tensor memory where there are 512: it will not launch"
    assert only(capability=100, tensor_memory_columns=640) == ("tensor_memory", text, 0)


def test_no_tensor_cores_is_said_of_kernels_with_a_dot_only() -> None:
    text = "tl.dot of float64 compiled to no tensor-core instruction"
    assert only(tensor_cores={}, dots=("float64",)) == ("no_tensor_cores", text, 0)
    assert findings(tensor_cores={}, dots=()) == []


def test_exact_float32_says_why() -> None:
    text = "tl.dot of float32 (ieee) compiled to no tensor-core instruction: tensor cores multiply float32 as TF32 only"
    assert only(tensor_cores={}, dots=("float32 (ieee)",))[1] == text


def test_a_remark_of_ptxas_is_quoted() -> None:
    text = "loses performance, says ptxas (C7511: wgmma instructions are serialized)"
    assert only(remarks=("C7511: wgmma instructions are serialized",)) == ("serialised", text, 0)


def test_narrow_accesses_are_told_by_line() -> None:
    accesses = (Narrow(9, "load", 1, 16), Narrow(7, "store", 2, 8), Narrow(3, "load", 1, 16), Narrow(4, "load", 1, 16))
    assert findings(narrow=accesses) == [
        ("narrow_access", "lines 9, 3 and 4 load 1 byte at a time where 16 are possible", 9),
        ("narrow_access", "line 7 stores 2 bytes at a time where 8 are possible", 7),
    ]


def test_what_does_not_compile_has_one_finding() -> None:
    expected = ("compile_error", "does not compile: ValueError: no", 12)
    assert only(error="ValueError:  no\x1b[31m", error_line=12, spill_store_bytes=9) == expected


def test_the_worst_comes_first() -> None:
    found = findings(
        shared_bytes=300 << 10,
        spill_store_bytes=4,
        tensor_cores={},
        remarks=("C1: x",),
        narrow=(Narrow(1, "load", 4, 8),),
    )
    kinds = ["shared_memory", "spills", "no_tensor_cores", "serialised", "narrow_access"]
    assert [kind for kind, _, _ in found] == kinds


# -- what a process may claim ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"registers": 256},
        {"registers": -1},
        {"threads": 1 << 20},
        {"num_warps": -4},
        {"shared_bytes": -1},
        {"spill_store_bytes": 1 << 40},
        {"line": -1},
        {"seconds": -1.0},
        {"seconds": 1e300},
        {"configurations": -1},
        {"tensor_cores": {"mma.sync": -1}},
        {"copies": {f"copy_{i}": 1 for i in range(1000)}},
        {"loads": {"many": 1}},
        {"stores": {"16\n": 1}},
        {"constants": {"BLOCK": 10**400}},
        {"constants": {f"B{i}": 1 for i in range(1000)}},
        {"narrow": (Narrow(1, "load", -1, 16),)},
        {"dots": ("float16",) * 1000},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_numbers_that_cannot_be_are_refused(changes: dict[str, Any]) -> None:
    assert described(replace(GEMM, **changes), ARCHITECTURES[90], "") is None


def test_texts_are_cleaned_and_cut() -> None:
    hostile = "\x1b[31mred\n::error::" + "x" * 1000
    kernel = described(
        replace(
            GEMM, kernel=hostile, dots=(hostile,), tensor_cores={hostile: 1}, constants={hostile: 1}, error=hostile
        ),
        ARCHITECTURES[90],
        "",
    )
    assert kernel is not None
    texts = [kernel.kernel, *kernel.dots, *kernel.tensor_cores, *kernel.constants, *(f.text for f in kernel.findings)]
    assert all("\x1b" not in text and "\n" not in text and len(text) < 600 for text in texts)
