"""The index that a mask says nothing of is told where a block of it leaves a tensor; a full axis needs no condition."""

from __future__ import annotations

import ast

import pytest

from grader.diagnosis.edits.edit_scope import called, keyword
from grader.diagnosis.edits.edits import scopes_of
from grader.diagnosis.edits.unmasked import TAIL, TOO_NARROW, WHOLE, _bound_beyond, unmasked_clue
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry, resolve
from grader.judge.clue import Clue
from grader.protocol.observations import GuardFinding
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of
from tests.conftest import ROOT

pytestmark = pytest.mark.process

MASK = "(rows < M) & (steps < K)"
SOURCE = f"""import torch
import triton
import triton.language as tl


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, B: tl.constexpr):
    rows = (tl.program_id(0) * B + tl.arange(0, B))[:, None]
    columns = (tl.program_id(1) * B + tl.arange(0, B))[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for start in range(0, K, B):
        steps = start + tl.arange(0, B)[None, :]
        a = tl.load(a_ptr + rows * am + steps * ak, mask={MASK}, other=0.0)
        others = start + tl.arange(0, B)[:, None]
        b = tl.load(b_ptr + others * bk + columns * bn, mask=(others < K) & (columns < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + rows * N + columns, acc, mask=(rows < M) & (columns < N))


def matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    product[(triton.cdiv(M, 32), triton.cdiv(N, 32))](a, b, c, M, N, K, *a.stride(), *b.stride(), B=32)
    return c
"""


def found(server: ForkServer, source: str, M: int, K: int) -> Clue | None:
    entry, _ = resolve(ROOT, "ex_16")
    sizes = {"M": M, "N": 40, "K": K}
    case = Case({**sizes, "dtype": "float32", "values": "normal", "a_layout": "rows", "b_layout": "rows"})
    with bench_of(server, entry, source, "matmul") as bench:
        failure = bench.try_case(case, 5).failure
        assert failure
        assert failure.wrong_call
        return unmasked_clue(bench, source, failure.wrong_call)


@pytest.mark.parametrize(("mask", "index"), [("rows < M", "steps"), ("steps < K", "rows")])
def test_the_index_without_a_condition_is_told(server: ForkServer, mask: str, index: str) -> None:
    clue = found(server, SOURCE.replace(MASK, mask), 40, 40)
    assert clue
    assert (clue.kind, clue.confirmed) == (TAIL, False)
    assert clue.title == f"Looks like a mask that has no condition on {index}"
    assert f"`mask={mask}` does not depend on {index}" in clue.evidence


def test_a_whole_block_behind_the_end_is_told_where_no_axis_has_a_tail(server: ForkServer) -> None:
    source = SOURCE.replace("range(0, K, B)", "range(0, K + B, B)").replace(
        "(others < K) & (columns < N)", "columns < N"
    )
    clue = found(server, source, 64, 64)
    assert clue
    assert (clue.kind, clue.title) == (WHOLE, "Looks like a mask that has no condition on others")


@pytest.mark.parametrize(
    ("mask", "M", "K"),
    [(MASK.replace("rows < M", "rows <= M"), 40, 40), ("rows <= M", 40, 32)],
    ids=["a condition that lets too much through", "an axis as long as the block"],
)
def test_an_index_with_a_condition_or_a_full_axis_is_not_told(server: ForkServer, mask: str, M: int, K: int) -> None:
    assert found(server, SOURCE.replace(MASK, mask), M, K) is None


POINTERS = SOURCE.replace(
    f"""        steps = start + tl.arange(0, B)[None, :]
        a = tl.load(a_ptr + rows * am + steps * ak, mask={MASK}, other=0.0)
""",
    """        a = tl.load(a_ptrs, mask=MASK_OF_A, other=0.0)
        a_ptrs += B * ak
""",
).replace(
    "    acc = tl.zeros",
    "    steps = tl.arange(0, B)[None, :]\n    a_ptrs = a_ptr + ROWS * am + steps * ak\n    acc = tl.zeros",
)


def test_a_mask_that_stays_while_its_pointer_moves_on_is_told(server: ForkServer) -> None:
    source = POINTERS.replace("ROWS", "rows")
    clue = found(server, source.replace("MASK_OF_A", "(rows < M) & (steps < K)"), 32, 40)
    assert clue
    assert (clue.kind, clue.confirmed) == (TAIL, False)
    assert clue.title == "Looks like a mask that does not move on with a_ptrs"
    assert "`mask=(rows < M) & (steps < K)` is the same in every step" in clue.evidence
    # This one compares with what is left.
    assert found(server, source.replace("MASK_OF_A", "(rows <= M) & (steps < K - start)"), 40, 40) is None


def test_rows_that_begin_again_at_0_need_no_condition(server: ForkServer) -> None:
    source = POINTERS.replace("ROWS", "(rows % M)").replace("MASK_OF_A", "steps < K")
    source = source.replace(
        "a_ptrs = a_ptr + (rows % M)",
        "wrapped = (tl.program_id(0) * B + tl.arange(0, B))[:, None] % M\n    a_ptrs = a_ptr + wrapped",
    )
    clue = found(server, source, 40, 40)
    assert clue
    assert clue.title == "Looks like a mask that does not move on with a_ptrs"


def test_a_bound_that_is_larger_than_the_tensor_is_told() -> None:
    source = """import triton
import triton.language as tl


@triton.jit
def joined(x_ptr, s_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(s_ptr, tl.sum(tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)))
"""
    for n, told in ((100, ("n", 100)), (70, None)):
        (scope,) = scopes_of(source, {("joined", 5): ((), {"n": n}), ("joined", 6): ((), {"n": n})}, "sum")
        (load,) = (one for one in ast.walk(scope.function) if called(one) == "load")
        assert isinstance(load, ast.Call)
        mask = keyword(load, "mask")
        assert mask is not None
        seen = GuardFinding("load", "joined", 8, "", (0,), "x_ptr", (63,), (64,), 80, 64, 36, 100, True)
        assert _bound_beyond(scope, load.args[0], mask, seen) == told


def test_a_number_in_16_bits_that_leads_before_a_tensor_is_named_with_its_line(
    server: ForkServer, ex_15: Entry
) -> None:
    narrow = VECTOR_ADD.replace("tl.program_id(0)", "(tl.program_id(0) * 1).to(tl.int16)")
    case = Case({"N": 40000, "dtype": "float32", "values": "normal", "offset": 0})
    with bench_of(server, ex_15, narrow, "vector_add") as bench:
        failure = bench.try_case(case, 5).failure
        assert failure
        assert failure.wrong_call
        clue = unmasked_clue(bench, narrow, failure.wrong_call)
    assert clue
    assert clue.kind == TOO_NARROW
    assert clue.evidence.startswith("Line 7 makes int16 of a number. int16 ends at 32,767, and a larger number becomes")
    assert clue.help == "Write tl.int64 in place of tl.int16 in line 7."
