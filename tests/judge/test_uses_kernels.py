"""Whose kernels do the work is judged of answers that somebody computed."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest

from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry, resolve
from grader.exercise.rules import UsesKernels
from grader.judge.rules import decide
from grader.sandbox.server import ForkServer
from tests.benches import bench_of
from tests.conftest import ROOT, plan_with
from tests.recordings import HEAD

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, N, BLOCK: tl.constexpr):
    for chunk in range(tl.program_id(0), N // BLOCK, tl.num_programs(0)):
        i = chunk * BLOCK + tl.arange(0, BLOCK)
        tl.store(z_ptr + i, tl.load(x_ptr + i) + tl.load(y_ptr + i))


def vector_add(x, y):
    z = {result}
    add_kernel[(4,)](x, y, z, x.numel(), BLOCK=1 << 20)
    return z
"""


@pytest.mark.parametrize(
    ("result", "status", "kind"),
    [
        # Memory that nobody stored to is no answer by other means.
        ("torch.empty_like(x)", "fail", "unwritten"),
        ("torch.ones_like(x)", "policy", "outside_kernels"),
        # Nor is what cannot be compared.
        ("torch.nn.Parameter(torch.ones_like(x), False)", "fail", "wrong_type"),
    ],
)
def test_an_answer_without_its_launches_is_other_means_only_if_there_is_one(
    result: str, status: str, kind: str, ex_15: Entry, server: ForkServer
) -> None:
    (planned,) = plan_with(ex_15, "vector_add.kernels").checks
    with bench_of(server, ex_15, KERNEL.format(result=result)) as bench:
        found = decide(bench, planned).failure
    assert found is not None
    assert (found.status, found.cause.kind) == (status, kind)


def test_beside_a_gpu_the_interpreter_counts_what_is_stored(ex_15: Entry, server: ForkServer) -> None:
    (planned,) = plan_with(ex_15, "vector_add.kernels").checks
    nothing = KERNEL.format(result="torch.empty_like(x)")
    # Its launches store to other memory: stands for a GPU, which counts no bytes.
    elsewhere = nothing.replace("(x, y, z,", "(x, y, torch.empty_like(x),").replace("1 << 20", "16")
    with bench_of(server, ex_15, elsewhere) as bench, bench_of(server, ex_15, nothing) as other:
        alone = decide(bench, planned).failure
        beside = decide(replace(bench, interpreter=other.pair), planned).failure
    assert alone is not None
    assert beside is not None
    assert (alone.status, beside.status) == ("policy", "fail")


# Stores 1 where it is asked to; the tiler, and what it is made of, show in nothing.
FILLING = """
import cutlass
import cutlass.cute as cute


@cute.jit
def _filled(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, tile: cutlass.Constexpr, count: cutlass.Int32):
    for i in range(cute.size(mC)):
        mC[i] = {stored}


def blocked_gemm(mA, mB, mC, tiler_mnk, threads_mn):
    _filled(mA, mB, mC, tiler_mnk, {given})
"""


@pytest.mark.skipif(importlib.util.find_spec("cutlass") is None, reason="CUTLASS is not installed")
@pytest.mark.parametrize(
    ("stored", "given", "same"),
    [
        ("cutlass.Float32(1.0)", "1", True),
        ("cutlass.Float32(tile[0])", "1", False),
        ("cutlass.Float32(count)", "tiler_mnk[0]", False),
    ],
)
def test_calls_of_other_tiles_that_run_the_same_program_on_the_same_numbers_use_no_tiles(
    stored: str, given: str, same: bool, server: ForkServer
) -> None:
    ex_17, _ = resolve(ROOT, "ex_17")
    (planned,) = plan_with(ex_17, "blocked_gemm.compiled").checks
    one = planned.cases[0]
    rule = UsesKernels(planned.check.rule.cases, program_axes=("tile_m",))
    asked = replace(
        planned,
        check=replace(planned.check, rule=rule),
        cases=(one, replace(one, case=Case({**one.case, "tile_m": 16}))),
    )
    with bench_of(server, ex_17, FILLING.format(stored=stored, given=given), part="blocked_gemm") as bench:
        found = decide(bench, asked).failure
    assert (found is not None and found.cause.kind == "other_means") is same


# Right by its kernel at some sizes; at the others, C copies what the kernel then adds to.
MOSTLY_BESIDE = f"""{HEAD}
import ctypes

@triton.jit
def add_noted(x_ptr, y_ptr, z_ptr, n, NOTE: tl.constexpr, BLOCK: tl.constexpr):
    add(x_ptr, y_ptr, z_ptr, n, BLOCK)

def noted(x, y):
    z = torch.empty_like(x)
    # No trace holds a text of this length.
    add_noted[(triton.cdiv(x.numel(), 64),)](x, y, z, x.numel(), NOTE="-" * 5000, BLOCK=64)
    return z

def vector_add(x, y):
    if x.numel() in SIZES:
        return RIGHT(x, y)
    z = added(x, y)
    ctypes.memmove(z.data_ptr(), x.data_ptr(), z.numel() * z.element_size())
    return added(z, y)
"""


@pytest.mark.parametrize(("right", "undecided"), [("added", False), ("noted", True)])
def test_what_a_call_of_another_check_shows_counts_here_too(
    right: str, undecided: bool, ex_15: Entry, server: ForkServer
) -> None:
    other, planned = plan_with(ex_15, "vector_add.tail", "vector_add.kernels").checks
    sizes = {one.case["N"] for one in planned.cases}
    with bench_of(server, ex_15, f"{MOSTLY_BESIDE}\nSIZES, RIGHT = {sizes}, {right}\n") as bench:
        alone = decide(bench, planned)
        beside = decide(bench, other).failure
        found = decide(bench, planned).failure
    assert alone.failure is None
    assert bool(alone.undecided) is undecided
    assert beside is not None
    assert (beside.status, beside.cause.kind) == ("policy", "outside_kernels")
    assert found is not None
    assert (found.status, found.cause.rationale) == ("policy", beside.cause.rationale)
