"""The lines where failing calls part from passing ones are told: conditions, loops and launches."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from grader.diagnosis.probes.branches import KIND, Divergence, divergences_of
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.judge.clue import Clue
from grader.protocol.requests import Recipe
from grader.sandbox.server import ForkServer
from tests.benches import bench_of

pytestmark = pytest.mark.process

SOURCE = """import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr, TAIL: tl.constexpr):
    program = tl.program_id(0)
    for step in range(tl.cdiv(n, 1024)):
        offsets = (step * tl.num_programs(0) + program) * BLOCK + tl.arange(0, BLOCK)
        z = tl.load(x_ptr + offsets, mask=offsets < n) + tl.load(y_ptr + offsets, mask=offsets < n)
        if n % 2 == 1:
            z = z ODD
        tl.store(z_ptr + offsets, z LATER, mask=offsets < n)


@triton.jit
def copy_kernel(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) COPIED, mask=offsets < n)


def vector_add(x, y):
    z, n = torch.empty_like(x), x.numel()
    add_kernel[(16,)](x, y, z, n, BLOCK=64, TAIL=0)
    if n > 3000:
        out = torch.empty_like(z)
        copy_kernel[(triton.cdiv(n, 64),)](z, out, n, BLOCK=64)
        return out
    return z
"""
# Even and odd lengths, of one step and of several, with one launch and with two.
SIZES = (10, 100, 500, 1000, 11, 101, 501, 999, 2000, 2500, 2001, 2501, 4000, 4500, 4001, 4501)


def divergences(server: ForkServer, entry: Entry, **wrong: str) -> tuple[list[Divergence], Clue | None]:
    """Return the divergences of a file with these texts in it; without one, the text is right."""
    source = SOURCE
    for place in ("ODD", "LATER", "COPIED"):
        source = source.replace(place, wrong.get(place, ""))
    failing: list[Recipe] = []
    with bench_of(server, entry, source, "vector_add") as bench:
        for n in SIZES:
            trial = bench.try_case(Case({"N": n, "dtype": "float32", "values": "normal", "offset": 0}), 5)
            failing += [trial.recipe] if trial.failure else []
        return divergences_of(bench, source, failing)


def told(found: Sequence[Divergence]) -> list[tuple[int, str, bool]]:
    return [(one.line, one.outcome, one.in_failing) for one in found]


def test_a_condition_that_holds_in_failing_calls_alone_is_told(server: ForkServer, ex_15: Entry) -> None:
    found, clue = divergences(server, ex_15, ODD="+ 1")
    assert told(found)[0] == (12, "true", True)
    assert list(found[0].lines) == [13]
    assert clue is not None
    assert clue.kind == KIND
    words = "In line 12 the condition holds in all 5 failing calls that were repeated, and in none of 8 passing ones."
    assert clue.evidence == words


def test_a_loop_that_makes_several_turns_in_failing_calls_alone_is_told(server: ForkServer, ex_15: Entry) -> None:
    found, clue = divergences(server, ex_15, LATER="+ (step > 0)")
    assert told(found)[0] == (9, "several turns", True)
    assert clue is not None
    assert "In line 9 the loop has several iterations in all 5 failing calls" in clue.evidence


def test_a_launch_of_failing_calls_alone_is_told(server: ForkServer, ex_15: Entry) -> None:
    found, clue = divergences(server, ex_15, COPIED="* 2")
    assert (28, "launch", True) in told(found)
    assert 20 in found[0].lines
    assert clue is not None
    assert "In line 28 a kernel is launched in all 5 failing calls" in clue.evidence


@pytest.mark.parametrize("wrong", [{}, {"LATER": "+ 1"}, {"COPIED": "* (n % 2 + 1)"}], ids=["right", "all", "some"])
def test_where_no_line_parts_them_nothing_is_told(server: ForkServer, ex_15: Entry, wrong: dict[str, str]) -> None:
    assert divergences(server, ex_15, **wrong) == ([], None)


PERSISTENT = """import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    first = tl.program_id(0)
    kept = 0.0
    for tile in range(first, tl.cdiv(n, BLOCK), tl.num_programs(0)):
        offsets = tile * BLOCK + tl.arange(0, BLOCK)
        z = tl.load(x_ptr + offsets, mask=offsets < n) + tl.load(y_ptr + offsets, mask=offsets < n)
        tl.store(z_ptr + offsets, z + kept, mask=offsets < n)
        kept = 1.0


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(8,)](x, y, z, x.numel(), BLOCK=64)
    return z
"""


def test_a_persistent_program_that_is_wrong_from_its_second_tile_on_is_told_as_such(
    server: ForkServer, ex_15: Entry
) -> None:
    failing: list[Recipe] = []
    with bench_of(server, ex_15, PERSISTENT, "vector_add") as bench:
        for n in SIZES:
            trial = bench.try_case(Case({"N": n, "dtype": "float32", "values": "normal", "offset": 0}), 5)
            failing += [trial.recipe] if trial.failure else []
        _, clue = divergences_of(bench, PERSISTENT, failing)
    assert clue is not None
    assert clue.kind == "later_blocks"
    assert "a program's first tile is right, and a later one is wrong" in clue.evidence
