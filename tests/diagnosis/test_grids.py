"""A grid of too few programs is counted over another length, or without its limit."""

from __future__ import annotations

import pytest

from grader.diagnosis.edits.edits import Edit, edits_of
from grader.diagnosis.edits.limits import limit_clue
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of
from tests.diagnosis.test_repairs import clues

PRODUCT = """import torch
import triton
import triton.language as tl


@triton.jit
def product(a_ptr, c_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    tl.store(c_ptr + rows, tl.load(a_ptr + rows, mask=rows < M), mask=rows < M)


def matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    GRID
    product[grid](a, c, M, N, BLOCK_M=32, BLOCK_N=64)
    return c
"""


def grid_edits(grid: str) -> dict[str, Edit]:
    """Return the edits of the line of the grid, by what they write there."""
    source = PRODUCT.replace("GRID", grid)
    found = edits_of(source, {("product", 6): ((), {})}, "matmul")
    lines = ((one.applied(source).splitlines()[14].strip(), one) for one in found)
    return {line: one for line, one in lines if line != grid}


@pytest.mark.parametrize(
    "grid",
    [
        "grid = (triton.cdiv(M, 32), triton.cdiv(K, 64))",
        "grid = (triton.cdiv(M, 32), triton.cdiv(a.shape[0], 64))",
        "grid = (triton.cdiv(M, 32), triton.cdiv(b.shape[0], 64))",
    ],
)
def test_programs_are_counted_over_another_length(grid: str) -> None:
    edit = grid_edits(grid)["grid = (triton.cdiv(M, 32), triton.cdiv(N, 64))"]
    assert edit.kinds[0] == "not_all_covered"
    assert "count its programs over this length" in edit.help


def test_a_lambda_s_grid_has_the_same_edits_and_the_length_of_the_block_s_name_comes_first() -> None:
    found = grid_edits('grid = lambda meta: (triton.cdiv(K, BLOCK_N) * triton.cdiv(M, meta["BLOCK_M"]),)')
    of_n = found['grid = lambda meta: (triton.cdiv(N, BLOCK_N) * triton.cdiv(M, meta["BLOCK_M"]),)']
    of_m = found['grid = lambda meta: (triton.cdiv(M, BLOCK_N) * triton.cdiv(M, meta["BLOCK_M"]),)']
    assert of_n.weight > of_m.weight


def test_a_length_that_no_grid_counts_comes_before_the_others() -> None:
    found = grid_edits("grid = (triton.cdiv(M, BLOCK) * triton.cdiv(M, SIZE),)")
    of_n, of_m = (found[f"grid = (triton.cdiv(M, BLOCK) * triton.cdiv({one}, SIZE),)"] for one in ("N", "b.shape[1]"))
    assert of_n.weight > of_m.weight


def test_the_lengths_of_two_axes_of_a_grid_are_exchanged_and_their_blocks_stay() -> None:
    found = grid_edits("grid = (triton.cdiv(N, 32), triton.cdiv(M, 64))")
    edit = found["grid = (triton.cdiv(M, 32), triton.cdiv(N, 64))"]
    assert edit.kinds[0] == "axes_exchanged"


def test_the_tiles_of_each_axis_are_rounded_up_by_themselves() -> None:
    edit = grid_edits("grid = (triton.cdiv(M * N, 32 * 64),)")["grid = (triton.cdiv(M, 32) * triton.cdiv(N, 64),)"]
    assert edit.kinds[0] == "not_all_covered"
    assert "Round up along each axis" in edit.help


def test_a_limited_grid_is_launched_without_its_limit() -> None:
    edit = grid_edits("grid = (min(8, triton.cdiv(M, 32)),)")["grid = (triton.cdiv(M, 32),)"]
    assert "Beyond the limit" in edit.help


def test_a_limit_whose_rest_another_axis_counts_loses_no_program() -> None:
    right = "across = min(M, 4); grid = (across, triton.cdiv(M, across))"
    assert "across = M; grid = (across, triton.cdiv(M, across))" not in grid_edits(right)


@pytest.mark.parametrize("wrong", ["rows = M * K; grid = (triton.cdiv(rows, 32),)", "grid = (M * K,)"])
def test_a_product_of_lengths_may_lack_a_length(wrong: str) -> None:
    edit = grid_edits(wrong)[wrong.replace("M * K", "M * K * N")]
    assert edit.kinds[0] == "not_all_covered"
    assert "count its programs over this length" in edit.help


@pytest.mark.process
def test_the_card_names_the_length_and_says_what_to_count(server: ForkServer, ex_15: Entry) -> None:
    right = "(triton.cdiv(x.numel(), 64),)"
    assert right in VECTOR_ADD
    (clue,) = clues(server, ex_15, VECTOR_ADD.replace(right, "(min(triton.cdiv(x.numel(), 64), 1),)"))
    assert (clue.kind, clue.confirmed) == ("not_all_covered", True)
    assert "`triton.cdiv(x.numel(), 64)` in place of `min(triton.cdiv(x.numel(), 64), 1)`" in clue.evidence
    assert "Beyond the limit, no program takes the elements that are left." in clue.help


@pytest.mark.process
@pytest.mark.parametrize(
    ("source", "n", "reached"),
    [
        (VECTOR_ADD.replace("(triton.cdiv(x.numel(), 64),)", "(min(8, triton.cdiv(x.numel(), 64)),)"), 1000, True),
        (VECTOR_ADD.replace("(triton.cdiv(x.numel(), 64),)", "(min(99, x.numel() // 64),)"), 1000, False),
    ],
)
def test_a_limit_that_a_call_reaches_is_read_in_the_text(
    server: ForkServer, ex_15: Entry, source: str, n: int, *, reached: bool
) -> None:
    with bench_of(server, ex_15, source, "vector_add") as bench:
        failure = bench.try_case(Case({"N": n, "dtype": "float32", "values": "normal", "offset": 0}), 5).failure
        assert failure
        assert failure.wrong_call
        clue = limit_clue(bench, source, failure.wrong_call)
    assert (clue is not None) == reached
    if clue:
        assert clue.evidence == "Line 15 launches at most 8 programs, and this call has more blocks than that."


def test_a_literal_block_may_have_to_hold_all_of_a_count() -> None:
    source = PRODUCT.replace("GRID", "grid = (triton.cdiv(M, 32),)")
    found = [one for one in edits_of(source, {("product", 6): ((), {})}, "matmul") if one.before == "64"]
    assert {one.after: one.kinds[0] for one in found} == {
        **dict.fromkeys(("128", "triton.next_power_of_2(M)", "triton.next_power_of_2(N)"), "size_assumed")
    }


def test_programs_are_counted_by_the_block_that_the_launch_passes() -> None:
    found = grid_edits("grid = (triton.cdiv(M, 128), triton.cdiv(N, 64))")
    edit = found["grid = (triton.cdiv(M, 32), triton.cdiv(N, 64))"]
    assert (edit.before, edit.kinds[0]) == ("128", "not_all_covered")
    assert edit.help == "A program takes 32 elements of this length: count the programs by that block."


def test_a_grid_without_literal_blocks_gets_no_other_ones() -> None:
    found = grid_edits("grid = (triton.cdiv(M, BLOCK), triton.cdiv(N, BLOCK))")
    assert not any("count the programs by that block" in one.help for one in found.values())
