"""Launches on several streams, and launches that begin early: what touches the same memory must be put in order."""

from __future__ import annotations

import pytest

from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.record.causes import Cause
from grader.sandbox.server import ForkServer
from tests.benches import bench_of

KERNELS = """
import torch
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, t_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(t_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)

@triton.jit
def rest(t_ptr, x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    t = tl.load(t_ptr + offsets, mask=mask) - tl.load(x_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, t + tl.load(y_ptr + offsets, mask=mask), mask=mask)

@triton.jit
def more(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    z = tl.load(z_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, z + tl.load(x_ptr + offsets, mask=mask), mask=mask)

def vector_add(x, y):
    n, t, z = x.numel(), torch.empty_like(x), torch.empty_like(x)
    first, s = torch.cuda.current_stream(), torch.cuda.Stream()
"""
IN_TWO = """
    with torch.cuda.stream(s):
        double[(3,)](x, t, n, BLOCK=64)
    {}
    rest[(3,)](t, x, y, z, n, BLOCK=64)
    return z
"""
ON_THE_SIDE = """
    s.wait_stream(first)
    with torch.cuda.stream(s):
        double[(3,)](x, t, n, BLOCK=64)
        rest[(3,)](t, x, y, z, n, BLOCK=64)
    {}
    return z
"""
HALVES = """
    s.wait_stream(first)
    with s:
        more[(1,)](x, z.copy_(y)[:64], 64, BLOCK=64)
    more[(2,)](x[64:], z[64:], n - 64, BLOCK=64)
    first.wait_stream(s)
    return z
"""
FILLED = """
    z.fill_(0)
    {}
    with torch.cuda.stream(s):
        more[(3,)](x, z, n, BLOCK=64)
        more[(3,)](y, z, n, BLOCK=64)
    first.wait_stream(s)
    return z
"""
JOINED = {
    "the current stream waits": IN_TWO.format("first.wait_stream(s)"),
    "it waits for an event": IN_TWO.format("first.wait_event(s.record_event())"),
    "an event lets it wait": IN_TWO.format("e = torch.cuda.Event(); e.record(s); e.wait()"),
    "the host waits for the stream": IN_TWO.format("s.synchronize()"),
    "the host waits for an event": IN_TWO.format("e = s.record_event(); e.synchronize()"),
    "the host waits for everything": IN_TWO.format("torch.cuda.synchronize()"),
    "a third stream hands it on": IN_TWO.format("o = torch.cuda.Stream(); o.wait_stream(s); first.wait_stream(o)"),
    "at the end": ON_THE_SIDE.format("torch.cuda.current_stream().wait_stream(s)"),
    "each has its own half": HALVES.replace("z.copy_(y)[:64]", "z[:64]").replace(
        "    s.wait", "    z.copy_(y)\n    s.wait", 1
    ),
    "it waits for a fill": FILLED.format("s.wait_stream(first)"),
    "an event before the stream": FILLED.format("e = first.record_event(); s = torch.cuda.Stream(); s.wait_event(e)"),
    "one stream alone": "    double[(3,)](x, t, n, BLOCK=64)\n    rest[(3,)](t, x, y, z, n, BLOCK=64)\n    return z\n",
}
APART = {
    "nobody waits": IN_TWO.format("pass"),
    "the wrong one waits": IN_TWO.format("s.wait_stream(first)"),
    "an event from before": IN_TWO.format("pass")
    .replace("    with", "    e = s.record_event()\n    with")
    .replace("pass", "e.wait()"),
    "a fill comes first": FILLED.format("pass"),
    "the halves begin too early": HALVES,
}


def cause_of(server: ForkServer, entry: Entry, body: str, kernels: str = KERNELS) -> Cause | None:
    """The cause of the failure of a sum that is computed so, or None."""
    case = Case({"N": 130, "dtype": "float32", "values": "normal", "offset": 0})
    with bench_of(server, entry, kernels + body) as bench:
        trial = bench.try_case(case, 3)
    assert not trial.unrecordable
    return trial.failure and trial.failure.cause


@pytest.mark.parametrize("body", JOINED.values(), ids=JOINED)
def test_launches_that_are_joined_are_right(body: str, server: ForkServer, ex_15: Entry) -> None:
    assert cause_of(server, ex_15, body) is None


@pytest.mark.parametrize("body", APART.values(), ids=APART)
def test_launches_on_streams_that_do_not_wait_race(body: str, server: ForkServer, ex_15: Entry) -> None:
    cause = cause_of(server, ex_15, body)
    assert cause is not None
    assert (cause.kind, cause.title) == ("race", "Launches on two streams race")
    assert "torch.cuda.current_stream().wait_stream(s)" in cause.help


def test_a_race_of_streams_names_both_launches(server: ForkServer, ex_15: Entry) -> None:
    cause = cause_of(server, ex_15, IN_TWO.format("pass"))
    assert cause is not None
    lines = (KERNELS + IN_TWO).splitlines()
    of_double, of_rest = (
        next(n for n, line in enumerate(lines, 1) if f"{name}[" in line) for name in ("double", "rest")
    )
    assert f"Line {of_rest}: rest loads t_ptr, which double in line {of_double} stores to" in cause.rationale


def test_the_end_of_a_call_waits_for_all_that_it_launched(server: ForkServer, ex_15: Entry) -> None:
    cause = cause_of(server, ex_15, ON_THE_SIDE.format("pass"))
    assert cause is not None
    assert (cause.kind, cause.title) == ("race", "Nothing waits for a stream")


EARLY = """
import torch
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, t_ptr, n, BLOCK: tl.constexpr):
    tl.extra.cuda.gdc_launch_dependents()
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(t_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)

@triton.jit
def nothing(y_ptr, u_ptr):
    tl.store(u_ptr, tl.load(y_ptr))

@triton.jit
def wait():
    tl.extra.cuda.gdc_wait()

@triton.jit
def rest(t_ptr, x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    AT_FIRST
    x = tl.load(x_ptr + offsets, mask=mask)
    THEN
    t = tl.load(t_ptr + offsets, mask=mask)
    AT_LAST
    tl.store(z_ptr + offsets, t - x + tl.load(y_ptr + offsets, mask=mask), mask=mask)

def vector_add(x, y):
    n, t, z, u = x.numel(), torch.empty_like(x), torch.empty_like(x), torch.empty_like(y)
    double[(3,)](x, t, n, BLOCK=64)
    BETWEEN
    rest[(3,)](t, x, y, z, n, BLOCK=64, launch_pdl=True)
    return z
"""
WAIT = "tl.extra.cuda.gdc_wait()"
EARLY_BUT_RIGHT = {
    "it waits at first": {"AT_FIRST": WAIT},
    "it loads what nobody stores before it waits": {"THEN": WAIT},
    "a helper waits": {"THEN": "wait()"},
    "it waits twice": {"AT_FIRST": WAIT, "AT_LAST": WAIT},
    "each branch waits": {"THEN": "if pid == 1:\n        wait()\n    else:\n        wait()"},
    "another launch comes between and has ended": {"BETWEEN": "nothing[(1,)](y, u)"},
}
TOO_EARLY = {
    "it never waits": {},
    "it waits too late": {"AT_LAST": WAIT},
    "one program does not wait": {"THEN": "if pid != 1:\n        wait()"},
    "the launch between began early, too": {"BETWEEN": "nothing[(1,)](y, u, launch_pdl=True)"},
}


def early(changes: dict[str, str]) -> str:
    source = EARLY
    for name in ("AT_FIRST", "THEN", "AT_LAST", "BETWEEN"):
        source = source.replace(name, changes.get(name, "pass"))
    return source


@pytest.mark.parametrize("changes", EARLY_BUT_RIGHT.values(), ids=EARLY_BUT_RIGHT)
def test_a_launch_may_begin_early_if_each_program_waits(
    changes: dict[str, str], server: ForkServer, ex_15: Entry
) -> None:
    assert cause_of(server, ex_15, early(changes), kernels="") is None


@pytest.mark.parametrize("changes", TOO_EARLY.values(), ids=TOO_EARLY)
def test_a_launch_that_begins_early_and_does_not_wait_races_with_the_one_before(
    changes: dict[str, str], server: ForkServer, ex_15: Entry
) -> None:
    cause = cause_of(server, ex_15, early(changes), kernels="")
    assert cause is not None
    assert (cause.kind, cause.title) == ("race", "A launch does not wait for the one before")
    assert "double, launched in line" in cause.rationale
    assert "`t = tl.load(t_ptr + offsets, mask=mask)`" in cause.rationale
    assert "tl.extra.cuda.gdc_wait()" in cause.help


def test_a_store_to_what_the_launch_before_loads_waits_too(server: ForkServer, ex_15: Entry) -> None:
    body = """
    z.copy_(y)
    double[(3,)](z, t, n, BLOCK=64)
    double[(3,)](x, z, n, BLOCK=64, launch_pdl=True)
    return z
"""
    cause = cause_of(server, ex_15, body)
    assert cause is not None
    assert "It stores to t_ptr, which that launch loads" in cause.rationale
