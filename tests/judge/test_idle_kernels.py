"""Kernels that get no memory of the call do none of its work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.judge.idle_kernels import are_idle, owners, unreached
from grader.protocol.answers import Form
from grader.protocol.trace import (
    Choose,
    DescriptorValue,
    KernelText,
    Launch,
    Operator,
    Output,
    Step,
    TensorValue,
    Trace,
    TupleValue,
    Value,
    Window,
    windows_in,
)

# The argument is storage 0, the result storage 1, and storage 2 is a temporary.
X, Z, SCRATCH = TensorValue(0), TensorValue(1), TensorValue(2)
MADE = Operator("empty", (4,), {}, (2,), 3)


def launched(*args: Value) -> Launch:
    return Launch(0, (1,), args, {}, {}, 5)


def traced(*steps: Step) -> Trace:
    windows = tuple(Window(storage, "float32", 0, (4,), (1,)) for storage in range(3))
    form = Form("tensor", "float32", (4,), "cpu")
    return Trace({"x": 0}, windows, (KernelText("f", 1, "jit", {}),), steps, (Output(1, form),))


def idle(*steps: Step) -> bool:
    return are_idle(traced(*steps))


def test_a_kernel_that_gets_only_scratch_memory_is_idle() -> None:
    assert idle(MADE, launched(SCRATCH, 4))


@pytest.mark.parametrize("value", [X, Z, TupleValue((SCRATCH, X))], ids=["argument", "result", "nested"])
def test_a_kernel_that_gets_memory_of_the_call_works(value: Value) -> None:
    assert not idle(MADE, launched(SCRATCH), launched(value))


def test_a_kernel_that_gets_a_copy_works() -> None:
    assert not idle(MADE, Operator("copy_", (SCRATCH, X), {}, (2,), 4), launched(SCRATCH))


def test_a_call_without_a_launch_has_no_idle_kernel() -> None:
    assert not idle(MADE)


def test_tensors_are_found_inside_of_descriptors() -> None:
    described = DescriptorValue(X, (4,), (1,), (4,), "zero")
    assert list(windows_in(TupleValue((3, described)))) == [0]


COPY_IN, COPY_OUT = Operator("copy_.default", (SCRATCH, X), {}, (2,), 4), Operator("clone", (SCRATCH,), {}, (1,), 6)


@pytest.mark.parametrize(
    ("steps", "unread", "unwritten"),
    [
        ((launched(X, Z),), (), ()),
        ((launched(X, TupleValue((SCRATCH, Z))),), (), ()),
        ((MADE, COPY_IN, launched(SCRATCH, Z)), (), ()),
        ((launched(X, SCRATCH), COPY_OUT), (), ()),
        ((Choose(((launched(X),), (launched(Z),)), 5),), (), ()),
        ((launched(Z),), ("x",), ()),
        ((launched(X),), (), (0,)),
        ((Operator("empty_like.default", (X,), {}, (1,), 3), launched(Z)), ("x",), ()),
        ((Operator("fill_", (X, 0.0), {}, (0,), 3), launched(SCRATCH)), ("x",), (0,)),
        ((COPY_OUT, launched(X)), (), (0,)),
    ],
    ids=[
        *("both", "nested", "a copy in", "a copy out", "either configuration", "no argument", "no result"),
        *("only its form", "overwritten", "a copy of what no kernel gets"),
    ],
)
def test_what_no_launch_can_have_read_or_written_is_found(
    steps: tuple[Step, ...], unread: tuple[str, ...], unwritten: tuple[int, ...]
) -> None:
    assert unreached(traced(*steps)) == (unread, unwritten)


def test_an_output_in_an_arguments_memory_has_an_owner() -> None:
    form = Form("tensor", "float32", (4,), "cpu")
    trace = traced(launched(X, Z))
    outputs = tuple(Output(window, form) for window in (0, 1, -1))
    assert owners(replace(trace, outputs=outputs)) == ("x", "", "")
