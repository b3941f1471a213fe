"""A trace is a claim: what cannot be is refused, and nothing outside of what a replay may touch is touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from grader.catalogue import Entry
from grader.protocol.messages import Raised
from grader.sandbox.outcome import Finished
from grader.sandbox.server import ForkServer
from tests.recordings import recording

Message = dict[str, Any]


def add_step(*step: Any) -> Callable[[Message], None]:
    return lambda message: message["steps"].insert(0, list(step))


def set_window(place: int, *window: Any) -> Callable[[Message], None]:
    return lambda message: message["windows"].__setitem__(place, list(window))


FORGED: dict[str, tuple[Callable[[Message], None], str]] = {
    "an operator that computes": (
        add_step("operator", "mul.Tensor", [["tensor", 0], ["tensor", 0]], {}, [], 1),
        "no part of the work",
    ),
    "an attribute of an operator": (
        add_step("operator", "fill.__setattr__", ["_qualified_op_name", "aten::mm"], {}, [], 1),
        "no part of the work",
    ),
    "an operator that writes into out": (
        add_step("operator", "zeros.out", [["list", [4]]], {"out": ["tensor", 0]}, [], 1),
        "no part of the work",
    ),
    "a dtype as a number": (
        add_step("operator", "zeros.default", [["list", [4]]], {"dtype": -1}, [], 1),
        "cannot be given int as dtype",
    ),
    "a text for an operator": (
        add_step("operator", "zeros.default", ["/etc/passwd"], {}, [], 1),
        "cannot be given str",
    ),
    "too many arguments": (
        add_step("operator", "zero_.default", [["tensor", 0], 1, 2], {}, [], 1),
        "at most 1 arguments",
    ),
    "a window beyond its storage": (set_window(0, 0, "float32", 1 << 40, [4], [1]), "within its"),
    "a storage that is not there": (set_window(0, 77, "float32", 0, [4], [1]), "known storage"),
    "a dtype that torch has not": (set_window(0, 0, "__class__", 0, [4], [1]), "known storage"),
    "a constant longer than it says": (add_step("constant", 99, 2, "eJwDAAAAAAE="), "must hold 2 bytes"),
    "a constant that is none": (add_step("constant", 99, 2, "%%%"), "must be compressed bytes"),
    "a constant in the place of an argument": (add_step("constant", 0, 0, "eJwDAAAAAAE="), "must have a new number"),
    "an argument left out": (lambda message: message["arguments"].pop("y"), "must name the tensor arguments"),
}


@pytest.mark.parametrize(("forge", "why"), FORGED.values(), ids=FORGED.keys())
def test_a_forged_trace_is_refused(
    forge: Callable[[Message], None], why: str, server: ForkServer, ex_15: Entry
) -> None:
    with recording(server, ex_15, "vector_add = added") as one:
        told = one.record()
        forge(told.message)  # type: ignore[arg-type]
        raised = one.replay(told)
    assert isinstance(raised, Raised), raised
    assert raised.kind == "Unreplayable"
    assert why in raised.message


def test_a_store_beyond_what_a_call_allocated_is_seen(server: ForkServer, ex_15: Entry) -> None:
    source = """
@triton.jit
def beyond(z_ptr):
    tl.store(z_ptr + 100 + tl.arange(0, 4), 1.0)

def vector_add(x, y):
    z = added(x, y)
    beyond[(1,)](z)
    return z
"""
    with recording(server, ex_15, source) as one:
        outcome = one.replay(one.record())
    assert isinstance(outcome, Finished)
    (finding,) = outcome.answer.findings
    assert (finding.kernel, finding.argument, finding.lanes) == ("beyond", "z_ptr", 4)


def test_memory_that_a_call_takes_and_lets_go_of_is_counted_once(server: ForkServer, ex_15: Entry) -> None:
    source = """
def vector_add(x, y):
    for _ in range(3):
        scratch = torch.empty(1000, device=x.device)
        del scratch
    return added(x, y)
"""
    with recording(server, ex_15, source) as one:
        outcome = one.replay(one.record())
    assert isinstance(outcome, Finished)
    # One of 1000, or the result of 100.
    assert outcome.answer.allocated_bytes == 4000


def test_a_result_that_is_an_argument_is_told(server: ForkServer, ex_15: Entry) -> None:
    with recording(server, ex_15, "def vector_add(x, y):\n    added(x, y)\n    return x\n") as one:
        outcome = one.replay(one.record())
    assert isinstance(outcome, Finished)
    assert outcome.answer.outputs[0].alias == "argument x"


def test_the_line_that_launched_is_told_with_the_line_that_failed(server: ForkServer, ex_15: Entry) -> None:
    source = """
@triton.jit
def wrong(z_ptr):
    tl.static_assert(False, "never")

def vector_add(x, y):
    z = torch.empty_like(x)
    wrong[(1,)](z)
    return z
"""
    with recording(server, ex_15, source) as one:
        raised = one.replay(one.record())
    assert isinstance(raised, Raised)
    assert (raised.verdict, raised.message) == ("compile_error", "never")
    assert [frame.code for frame in raised.frames] == ["wrong[(1,)](z)", 'tl.static_assert(False, "never")']


def test_python_in_a_kernel_is_refused_with_its_line(server: ForkServer, ex_15: Entry) -> None:
    source = """
import numpy as np

@triton.jit
def wrong(x_ptr, z_ptr):
    tl.store(z_ptr, np.sum(tl.load(x_ptr + tl.arange(0, 4))))

def vector_add(x, y):
    z = torch.empty_like(x)
    wrong[(1,)](x, z)
    return z
"""
    with recording(server, ex_15, source) as one:
        raised = one.replay(one.record())
    assert isinstance(raised, Raised)
    assert raised.verdict == "compile_error"
    assert raised.message == "np.sum is Python's, and a kernel has none: write tl.sum"
    assert raised.frames[-1].code.startswith("tl.store(z_ptr, np.sum(")


def test_configurations_that_fail_are_passed_over(server: ForkServer, ex_15: Entry) -> None:
    source = """
@triton.autotune([triton.Config({"BLOCK": size}) for size in (16, 64)], key=[])
@triton.jit
def tuned(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK > 32)
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, inside) + tl.load(y_ptr + offsets, inside), inside)

def vector_add(x, y):
    z = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, z, x.numel())
    return z
"""
    with recording(server, ex_15, source) as one:
        outcome = one.replay(one.record())
    assert isinstance(outcome, Finished)
    (launch,) = outcome.answer.launches
    assert launch.constants == {"BLOCK": 64}
    assert launch.grid == (2,)
    assert replace(launch, traffic=None) != launch
