"""Work that is done again shows in the bytes of a call that ended, and so does a store that does not move on."""

from __future__ import annotations

from dataclasses import replace

from grader.diagnosis.diagnosis import Diagnosis
from grader.diagnosis.gathering import clues_in
from grader.diagnosis.probes.repeats import repeated_work
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.grading.results import failed_result
from grader.judge.rules import decide
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of
from tests.conftest import plan_with

CASE = Case({"N": 4000, "dtype": "float32", "values": "normal", "offset": 0})
STRIDED = """import torch
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    z_ptrs = z_ptr + first + tl.arange(0, BLOCK)
    for start in range(first, n, BLOCK * tl.num_programs(0)):
        offsets = start + tl.arange(0, BLOCK)
        z = tl.load(x_ptr + offsets, mask=offsets < n) + tl.load(y_ptr + offsets, mask=offsets < n)
        tl.store(z_ptrs, z, mask=offsets < n)
        z_ptrs += BLOCK * tl.num_programs(0)


def vector_add(x, y):
    z = torch.empty_like(x)
    add[(4,)](x, y, z, x.numel(), BLOCK=64)
    return z
"""


def test_a_step_that_is_too_short_does_the_work_of_other_programs_again(server: ForkServer, ex_15: Entry) -> None:
    source = STRIDED.replace("n, BLOCK * tl.num_programs(0))", "n, BLOCK)").replace(
        "+= BLOCK * tl.num_programs(0)", "+= BLOCK"
    )
    with bench_of(server, ex_15, source, "vector_add") as bench:
        assert not bench.try_case(CASE, 5).failure
        (clue,) = repeated_work(bench)
    assert (clue.kind, clue.confirmed) == ("done_again", True)
    assert "which ended in time, each byte is loaded and stored " in clue.evidence


def test_work_that_is_done_once_is_not_blamed(server: ForkServer, ex_15: Entry) -> None:
    for source in (VECTOR_ADD, STRIDED):
        with bench_of(server, ex_15, source, "vector_add") as bench:
            assert not bench.try_case(CASE, 5).failure
            assert repeated_work(bench) == []


def test_programs_that_add_up_one_result_are_not_blamed(server: ForkServer, ex_15: Entry) -> None:
    source = (
        VECTOR_ADD.replace("tl.store(z_ptr + offsets, x + y", "tl.atomic_add(z_ptr + offsets, (x + y) / 4")
        .replace("(triton.cdiv(x.numel(), 64),)", "(triton.cdiv(x.numel(), 64), 4)")
        .replace("empty_like", "zeros_like")
    )
    with bench_of(server, ex_15, source, "vector_add") as bench:
        assert not bench.try_case(CASE, 5).failure
        assert repeated_work(bench) == []


def test_a_store_that_does_not_move_on_with_the_loads_is_told(server: ForkServer, ex_15: Entry) -> None:
    source = STRIDED.replace("        z_ptrs += BLOCK * tl.num_programs(0)\n", "")
    with bench_of(server, ex_15, source, "vector_add") as bench:
        failure = bench.try_case(CASE, 5).failure
        assert failure
        found = clues_in(failure, bench.part, bench.truth)
    assert max(found, key=lambda one: one.weight).kind == "not_advanced"


def test_what_the_trials_of_an_autotuner_leave_is_told_with_its_remedy(server: ForkServer, ex_15: Entry) -> None:
    tuner = '@triton.autotune([triton.Config({"BLOCK": 64})] * 2, key=["n"])'
    tuned = (
        VECTOR_ADD.replace("@triton.jit", f"{tuner}\n@triton.jit")
        .replace("tl.store(", "tl.atomic_add(")
        .replace("empty_like", "zeros_like")
        .replace(", BLOCK=64)", ")")
    )
    (planned,) = plan_with(ex_15, "vector_add.tail").checks
    planned = replace(planned, cases=planned.cases[:1])
    with bench_of(server, ex_15, tuned) as bench:
        diagnosis = Diagnosis(ex_15.exercise, bench.truth, "")
        failure = diagnosis.look_closer(bench, planned, decide(bench, planned), 0.1)
        assert failure is not None
        cause = diagnosis.explained(planned, failed_result(planned, failure)).cause
    assert cause is not None
    assert "reset_to_zero=[…]" in cause.help
    assert [one.kind for one in cause.suspects] == ["not_cleared"]
