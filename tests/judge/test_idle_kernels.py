"""Kernels that get no memory of the call do none of its work."""

from __future__ import annotations

import pytest

from grader.judge.idle_kernels import are_idle
from grader.protocol.messages import Form
from grader.protocol.trace import (
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


def idle(*steps: Step) -> bool:
    windows = tuple(Window(storage, "float32", 0, (4,), (1,)) for storage in range(3))
    form = Form("tensor", "float32", (4,), "cpu")
    return are_idle(Trace({"x": 0}, windows, (KernelText("f", 1, "jit", {}),), steps, (Output(1, form),)))


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
