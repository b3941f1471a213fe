"""A wrong answer that would be right with every product rounded is told as one that contraction makes wrong."""

from __future__ import annotations

import pytest

from grader.diagnosis.probes.contraction import contraction_clues
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.judge.clue import Clue
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of

pytestmark = pytest.mark.process

SOFTMAX = """import torch
import triton
import triton.language as tl

@triton.jit
def softmax(x_ptr, p_ptr, n, stride_x, stride_p, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_x + columns, mask=columns < n, other=float("-inf")).to(tl.float32)
    x *= 1.4426950408889634
    e = tl.exp2(x - tl.max(x, axis=0))
    tl.store(p_ptr + row * stride_p + columns, e / tl.sum(e, axis=0), mask=columns < n)

def row_softmax(x):
    p = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(x.shape[1])
    softmax[(x.shape[0],)](x, p, x.shape[1], x.stride(0), p.stride(0), BLOCK=block)
    return p
"""
LOWEST = Case({"M": 3, "N": 70, "dtype": "float32", "values": "lowest", "stride": 0})


def clues(server: ForkServer, entry: Entry, source: str, part: str, case: Case) -> list[Clue]:
    """Return the clues of a wrong call."""
    with bench_of(server, entry, source, part) as bench:
        failure = bench.try_case(case, 5).failure
        assert failure is not None
        return contraction_clues(bench, failure)


def test_a_maximum_of_products_is_not_what_a_gpu_subtracts_it_from(server: ForkServer, ex_15: Entry) -> None:
    (clue,) = clues(server, ex_15, SOFTMAX, "row_softmax", LOWEST)
    assert (clue.kind, clue.confirmed) == ("contracted", True)
    assert clue.evidence == "With every product rounded before it is added or subtracted, the answer is right."


def test_a_launch_that_forbids_it_is_right(server: ForkServer, ex_15: Entry) -> None:
    rounding = SOFTMAX.replace("BLOCK=block)", "BLOCK=block, enable_fp_fusion=False)")
    with bench_of(server, ex_15, rounding, "row_softmax") as bench:
        assert bench.try_case(LOWEST, 5).failure is None


@pytest.mark.parametrize("wrong", ["x * y + x", "x - y"], ids=["contracted and wrong anyway", "no product"])
def test_an_answer_that_is_wrong_either_way_has_another_cause(wrong: str, server: ForkServer, ex_15: Entry) -> None:
    case = Case({"N": 100, "dtype": "float32", "values": "normal", "offset": 0})
    assert clues(server, ex_15, VECTOR_ADD.replace("x + y,", f"{wrong},"), "vector_add", case) == []
