"""Conditions that no tensor decides turn out for the compiler as in the interpreter, or the kernel is refused."""

from __future__ import annotations

import pytest

from grader.exercise.catalogue import Entry
from grader.gpus import USUAL
from grader.protocol.answers import Binary, Compiled
from grader.sandbox.clean_compiler import CleanCompiler
from grader.sandbox.outcome import Finished
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from tests.conftest import SHORT, limited
from tests.recordings import HEAD, recording


@pytest.fixture(scope="module")
def ex_15() -> Entry:
    return limited(SHORT)


SOURCE = """
@triton.jit
def factor(x, WIDE: tl.constexpr):
    return 1.0 if x.dtype == tl.float32 and not WIDE else 2.0

@triton.jit
def add_if(x_ptr, y_ptr, z_ptr, n, one, nothing, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = o < n
    x, y = tl.load(x_ptr + o, inside), tl.load(y_ptr + o, inside)
    z = x
    {condition}:
        z = x + y
    else:
        z = x + y + 0.0
    tl.store(z_ptr + o, z, inside)

def vector_add(x, y):
    z = torch.empty_like(x)
    add_if[(4,)](x, y, z, x.numel(), 1, None, BLOCK=32, WIDE=False)
    return z
"""
ALIKE = [
    *("if BLOCK == 32", "if BLOCK > 32", "if WIDE", "if not WIDE and BLOCK > 16", "if WIDE or BLOCK > 64"),
    *(
        "if one == 1",
        'if WIDE or not hasattr(one, "dtype")',
        "if n > 3 and BLOCK > 16",
        "if BLOCK > 16 and n > 3",
        "if nothing is None",
        "if 0.0 < BLOCK / 3",
    ),
    *("if nothing is not None and WIDE", "if x.dtype == tl.float32", "if x_ptr.dtype.element_ty.is_fp16()"),
    *("if x.shape[0] == BLOCK", "if len(x.shape) == 2", "if (1 if WIDE else 2) == 2", "if factor(x, WIDE) == 1.0"),
    "for i in tl.static_range(3):\n        if i == 1:\n            z = x + y\n    if WIDE",
    "for i in range(n // 64):\n        if i == 1 or WIDE:\n            z = x + y\n    if BLOCK",
    "if tl.program_id(0) == 1 and BLOCK == 32",
]
UNLIKE = [
    *("if o.shape is o.shape", "if isinstance(one, int)", 'if hasattr((1, 2), "count")', "if isinstance([1, 2], list)"),
    'if WIDE or hasattr((1, 2), "count")',
    "if (1 if o.shape is o.shape else 2) == 1",
]


def refused_in(condition: str, server: ForkServer, ex_15: Entry) -> tuple[Binary, ...]:
    """Return the kernels that the compiler's front end refuses, of a call that the interpreter has run."""
    text = SOURCE.format(condition=condition)
    with (
        recording(server, ex_15, text) as one,
        CleanCompiler(lambda: ProcessSpec.of(server.beside("compile"), ex_15, HEAD + text)) as compiler,
    ):
        told = one.record()
        outcome = one.replay(told)
        assert isinstance(outcome, Finished), outcome
        conditions = outcome.answer.conditions
        answer, _ = compiler.compile(told.call, told.message, USUAL.capability, until="read", conditions=conditions)
    assert isinstance(answer, Compiled), answer
    return answer.binaries


@pytest.mark.parametrize("condition", ALIKE)
def test_conditions_of_constants_and_arguments_turn_out_alike(condition: str, server: ForkServer, ex_15: Entry) -> None:
    assert not refused_in(condition, server, ex_15)


@pytest.mark.parametrize("condition", UNLIKE)
def test_a_condition_that_tells_the_interpreter_from_the_compiler_is_found(
    condition: str, server: ForkServer, ex_15: Entry
) -> None:
    (binary,) = refused_in(condition, server, ex_15)
    line = next(n for n, words in enumerate((HEAD + SOURCE).splitlines(), 1) if "{condition}" in words)
    assert (binary.kernel, binary.error_line, binary.other_branch) == ("add_if", line, True)
