"""Launches and traffic are held against the bound in every call that the check means, whichever check made it."""

from __future__ import annotations

import pytest

from grader.exercise.abilities import WHOLE_CPU
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.exercise.plan import default_seed, draw
from grader.judge.rules import decide
from grader.judge.ruling import Ruling
from grader.judge.trial import CallRequest
from grader.sandbox.server import ForkServer
from tests.benches import bench_of

COPY_FIRST = """
import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


def copied(x):
    if x.{condition}:
        return x
    copy = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, copy, x.numel(), BLOCK=1024)
    return copy


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 1024),)](copied(x), copied(y), z, x.numel(), BLOCK=1024)
    return z
"""
ALIGNED = "data_ptr() % 16 == 0"
SHORT = "numel() < 1 << 21"


def ruled(server: ForkServer, entry: Entry, condition: str, check: str, length: int) -> Ruling:
    """What a check says after a call on vectors that start at the third element."""
    plan = draw(entry.exercise, default_seed(entry.id), WHOLE_CPU, parts=frozenset({"vector_add"}))
    planned = next(one for one in plan.checks if one.id == check)
    with bench_of(server, entry, COPY_FIRST.replace("{condition}", condition)) as bench:
        case = Case({"N": length, "dtype": "float32", "values": "normal", "offset": 3})
        list(bench.tries([CallRequest(bench.part, case, 1)]))
        return decide(bench, planned)


@pytest.mark.parametrize("check", ["vector_add.launches", "vector_add.traffic"])
def test_a_copy_of_what_is_not_aligned_is_counted_wherever_it_was_made(
    server: ForkServer, ex_15: Entry, check: str
) -> None:
    ruling = ruled(server, ex_15, ALIGNED, check, 10_000)
    assert ruling.failure is not None
    assert "offset=3" in ruling.failure.cause.rationale or "offset=3" in ruling.work[-1].words


def test_a_call_that_the_check_does_not_mean_is_not_held_against_it(server: ForkServer, ex_15: Entry) -> None:
    # What little vectors move beside their elements is no matter.
    assert ruled(server, ex_15, ALIGNED, "vector_add.traffic", 100).failure is None


@pytest.mark.parametrize("check", ["vector_add.launches", "vector_add.traffic"])
def test_calls_that_keep_to_the_bound_add_no_case(server: ForkServer, ex_15: Entry, check: str) -> None:
    ruling = ruled(server, ex_15, SHORT, check, 10_000)
    assert ruling.failure is None
    assert ruling.metrics["cases"] == (1 if check.endswith("launches") else 2)
