"""Masked lanes of a load are told where they reach a wrong result, and only there."""

from __future__ import annotations

import pytest

from grader.diagnosis.probes.padding import padding_clues, padding_elsewhere
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry, resolve
from grader.judge.clue import Clue
from grader.judge.trial import CallRequest
from grader.protocol.requests import Wanted
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of
from tests.conftest import ROOT, answered, plan_with

SOFTMAX = """import torch
import triton
import triton.language as tl

@triton.jit
def softmax(x_ptr, p_ptr, n, stride_x, stride_p, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_x + columns, mask=columns < n).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(p_ptr + row * stride_p + columns, e / tl.sum(e, axis=0), mask=columns < n)

def row_softmax(x):
    p = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(x.shape[1])
    softmax[(x.shape[0],)](x, p, x.shape[1], x.stride(0), p.stride(0), BLOCK=block)
    return p
"""
VECTORS = Case({"N": 100, "dtype": "float32", "values": "normal", "offset": 0})
ROWS = Case({"M": 3, "N": 70, "dtype": "float32", "values": "normal", "stride": 0})


def clues(server: ForkServer, entry: Entry, source: str, part: str = "vector_add", case: Case = VECTORS) -> list[Clue]:
    """Return the clues of a wrong call."""
    with bench_of(server, entry, source, part) as bench:
        failure = bench.try_case(case, 5).failure
        assert failure is not None
        return padding_clues(bench, failure)


@pytest.mark.parametrize(("load", "line"), [("x", 9), ("y", 10)])
def test_of_two_loads_the_one_whose_undefined_lanes_are_summed_is_named(
    server: ForkServer, ex_15: Entry, load: str, line: int
) -> None:
    (clue,) = clues(server, ex_15, VECTOR_ADD.replace("x + y,", f"x + y + 0 * tl.sum({load}, axis=0),"))
    assert (clue.kind, clue.confirmed) == ("padding_counted", True)
    assert (
        clue.evidence
        == f"With 0 in the lanes that the mask leaves out in the load at line {line}, the answer is right."
    )
    assert f"Write `other=0` in the load at line {line} (of a block pointer: `padding_option=" in clue.help


def test_a_maximum_asks_for_the_smallest_number(server: ForkServer, ex_15: Entry) -> None:
    (clue,) = clues(server, ex_15, SOFTMAX, "row_softmax", ROWS)
    assert clue.confirmed
    assert clue.help.endswith('Write `other=float("-inf")` in the load at line 8.')


def test_a_mask_that_leaves_out_an_element_is_asked_about_and_not_condemned(server: ForkServer, ex_15: Entry) -> None:
    (clue,) = clues(server, ex_15, VECTOR_ADD.replace("mask=mask)", "mask=offsets < n - 1)", 1))
    assert (clue.kind, clue.confirmed) == ("padding_counted", False)
    assert "in the load at line 9 reach every wrong element" in clue.evidence


def test_undefined_lanes_that_are_not_stored_are_not_told(server: ForkServer, ex_15: Entry) -> None:
    assert clues(server, ex_15, VECTOR_ADD.replace("x + y,", "x - y,")) == []


def test_a_load_with_an_other_that_changes_nothing_is_not_told(server: ForkServer, ex_15: Entry) -> None:
    assert clues(server, ex_15, VECTOR_ADD.replace("mask=mask)", "mask=offsets < n - 1, other=0.0)", 1)) == []


@pytest.mark.parametrize(
    ("sums", "code", "line"),
    [
        ("tl.sum(tl.load(x_ptr + offsets, mask=mask, other=1.0), axis=0) - tl.sum(x0, axis=0)", "0", 13),
        ("tl.max(tl.load(x_ptr + offsets, mask=mask, other=9.0), axis=0) - tl.max(x1, axis=0)", 'float("-inf")', 13),
    ],
)
def test_an_other_that_counts_is_told_with_one_that_does_not(
    server: ForkServer, ex_15: Entry, sums: str, code: str, line: int
) -> None:
    right = "    x0 = tl.where(mask, x, 0.0)\n    x1 = tl.where(mask, x, -100.0)\n"
    store = f"    more = {sums}\n    tl.store(z_ptr + offsets, x + y + more, mask=mask)\n"
    source = VECTOR_ADD.replace("    tl.store(z_ptr + offsets, x + y, mask=mask)\n", f"{right}{store}")
    (clue,) = clues(server, ex_15, source)
    assert (clue.kind, clue.confirmed) == ("padding_counted", True)
    assert clue.help.endswith(f"Write `other={code}` in the load at line {line}.")


def test_a_call_that_has_another_answer_the_next_time_is_not_told(server: ForkServer, ex_15: Entry) -> None:
    launch = "    add[(triton.cdiv(x.numel(), 64),)](x, y, z, x.numel(), BLOCK=64)\n"
    once = "    global calls\n    calls += 1\n    x, y = (x, y) if calls > 1 else (x, x)\n"
    source = VECTOR_ADD.replace("@triton.jit", "calls = 0\n\n@triton.jit").replace(launch, once + launch)
    assert clues(server, ex_15, source) == []


def test_the_configuration_that_was_wrong_is_the_one_that_is_replayed(server: ForkServer, ex_15: Entry) -> None:
    configs = "[triton.Config({'BLOCK': 64, 'SUMS': False}), triton.Config({'BLOCK': 64, 'SUMS': True})]"
    source = (
        VECTOR_ADD.replace("@triton.jit", f"@triton.autotune({configs}, key=[])\n@triton.jit")
        .replace("BLOCK: tl.constexpr", "BLOCK: tl.constexpr, SUMS: tl.constexpr")
        .replace("x + y,", "x + y + (0 * tl.sum(y, axis=0) if SUMS else 0),")
        .replace(", BLOCK=64)", ")")
    )
    with bench_of(server, ex_15, source) as bench:
        (trial,) = bench.tries([CallRequest(bench.part, VECTORS, 5, wanted=Wanted((1,)))])
        assert trial.failure is not None
        (clue,) = padding_clues(bench, trial.failure)
    assert "Write `other=0` in the load at line 11 (of" in clue.help


def test_all_checks_that_fail_by_one_load_have_one_card(server: ForkServer, ex_15: Entry) -> None:
    checks = ("row_softmax.tail", "row_softmax.strides", "row_softmax.combinations")
    plan = plan_with(ex_15, *checks, cases=1)
    failed = [check.cause for check in answered(server, ex_15, SOFTMAX, plan).checks if check.status == "fail"]
    assert len(failed) > 1
    assert {cause.title for cause in failed if cause} == {"Masked lanes of a load without `other=` reach the result"}


def test_elements_that_are_never_stored_are_not_blamed_on_masked_lanes(server: ForkServer, ex_15: Entry) -> None:
    source = VECTOR_ADD.replace("x + y, mask=mask)", "x + y, mask=mask & (y == y))")
    (values,) = answered(server, ex_15, source, plan_with(ex_15, "vector_add.values", cases=30)).checks
    assert values.cause is not None
    assert [one.kind for one in values.cause.suspects] == ["not_all_covered"]
    assert values.cause.title.startswith("Elements that no program computes")


def test_masked_lanes_are_named_though_another_mistake_makes_full_tiles_wrong(server: ForkServer) -> None:
    entry, _ = resolve(ROOT, "ex_16")
    source = entry.mistake("matmul_tf32").text.replace(", other=0.0)", ")")
    plan = plan_with(entry, "matmul.full_tiles", "matmul.ragged", "matmul.thin", cases=2)
    causes = {check.id: check.cause for check in answered(server, entry, source, plan).checks}
    first, last = causes["matmul.full_tiles"], causes["matmul.thin"]
    assert first is not None
    assert last is not None
    assert [one.kind for one in first.suspects] == ["tf32"]
    assert last.suspects[0].kind == "padding_counted"


def test_a_call_that_is_too_slow_to_repeat_is_told_by_another_check(server: ForkServer, ex_15: Entry) -> None:
    source = VECTOR_ADD.replace("x + y,", "x + y + 0 * tl.sum(x, axis=0),")
    with bench_of(server, ex_15, source) as bench:
        failure = bench.try_case(VECTORS, 5).failure
        assert failure is not None
        known = padding_clues(bench, failure)
    (clue,) = padding_elsewhere(failure, known)
    assert (clue.kind, clue.confirmed, clue.help) == ("padding_counted", False, known[0].help)
    assert clue.evidence.startswith("In another check: with 0 in the lanes")
    assert padding_elsewhere(failure, []) == []
