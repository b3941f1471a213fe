"""The line that kept a program from storing memory that is read is told: a return, a branch, or a mask."""

from __future__ import annotations

import pytest

from grader.diagnosis.edits.unstored import KIND, unstored_clue
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.judge.clue import Clue
from grader.protocol.requests import Recipe
from grader.sandbox.server import ForkServer
from tests.benches import bench_of

pytestmark = pytest.mark.process

CASE = Case({"N": 100, "dtype": "float32", "values": "normal", "offset": 0})
STORE = "tl.store(w_ptr + offsets, 0.0, mask=offsets < n)"
SOURCE = f"""import torch
import triton
import triton.language as tl


@triton.jit
def part_kernel(w_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    offsets = start + tl.arange(0, BLOCK)
    {STORE}


@triton.jit
def join_kernel(x_ptr, y_ptr, w_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    z = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, z + tl.load(w_ptr + offsets, mask=mask), mask=mask)


def vector_add(x, y):
    z, w, n = torch.empty_like(x), torch.empty_like(x), x.numel()
    part_kernel[(triton.cdiv(n, 32),)](w, n, BLOCK=32)
    join_kernel[(triton.cdiv(n, 32),)](x, y, w, z, n, BLOCK=32)
    return z
"""


def found(server: ForkServer, entry: Entry, instead: str) -> Clue | None:
    source = SOURCE.replace(STORE, instead)
    with bench_of(server, entry, source) as bench:
        assert bench.try_case(CASE, 5).failure
        return unstored_clue(bench, source, Recipe("vector_add", dict(CASE), 5))


@pytest.mark.parametrize(
    ("instead", "line", "says"),
    [
        (f"if start >= 64:\n        return\n    {STORE}", "Line 10, `start >= 64`", "because one returned early"),
        (f"if start < 64:\n        {STORE}", "Line 10, `start < 64`", "because a branch was not taken"),
        (STORE.replace("offsets < n", "(offsets < n) & (start < 64)"), "Line 10, `start < 64`", "because of a mask"),
        (
            f"mask = (start < 64) & (offsets < n)\n    {STORE.replace('offsets < n', 'mask')}",
            "Line 10,",
            "because of a mask",
        ),
    ],
    ids=["return", "branch", "mask", "mask with a name"],
)
def test_what_kept_a_program_from_storing_what_is_read_is_told_with_its_line(
    server: ForkServer, ex_15: Entry, instead: str, line: str, says: str
) -> None:
    clue = found(server, ex_15, instead)
    assert clue
    assert (clue.kind, clue.confirmed) == (KIND, True)
    assert clue.evidence.startswith(line)
    assert says in clue.title


@pytest.mark.parametrize(
    "instead",
    [
        "pass",
        f"if start >= n:\n        return\n    {STORE.replace('offsets < n', 'offsets < 0')}",
        STORE.replace("0.0", "1.0"),
    ],
    ids=["no store", "a return that is never taken", "wrong for another reason"],
)
def test_a_line_that_kept_nothing_from_being_stored_is_not_blamed(
    server: ForkServer, ex_15: Entry, instead: str
) -> None:
    clue = found(server, ex_15, instead)
    assert clue is None or "return" not in clue.title
