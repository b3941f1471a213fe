"""Submissions whose launches are compiled in the tests: a head, some kernels, and how they are called.

Every launcher is a function of one tensor x: [N] of the case's dtype, which begins `offset` elements into its memory.
"""

from __future__ import annotations

from grader.exercise.model import Limits
from grader.protocol.answers import Binary, Compiled, Raised
from grader.protocol.requests import Call, CompileUntil, Recipe, RecordCall, Start
from grader.sandbox.clean_compiler import CleanCompiler
from grader.sandbox.outcome import Unanswered
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session

INPUTS = """
import torch

def _any(case, generator):
    buffer = torch.zeros(case["N"] + 64, dtype=getattr(torch, case["dtype"]))
    return (buffer[case["offset"] : case["offset"] + case["N"]],)

def __getattr__(name):
    return _any

launch = second = _any
"""
HEAD = """import os, time, torch, triton
import triton.language as tl
"""
COPY = """
@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)
"""
LAUNCH_COPY = """
def launch(x):
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
"""
DOT = """
@triton.jit
def dot_kernel(x_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr = "ieee"):
    rows, columns, ks = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((M, N), tl.float32)
    for step in range(64):
        a = tl.load(x_ptr + step * K + rows[:, None] * 4096 + ks[None, :])
        b = tl.load(x_ptr + (step * K + ks[:, None]) * 4096 + columns[None, :])
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    tl.store(x_ptr + rows[:, None] * 4096 + columns[None, :], acc.to(x_ptr.dtype.element_ty))
"""


def compiled_in(
    server: ForkServer,
    text: str,
    capability: int = 90,
    *,
    dtype: str = "float32",
    offset: int = 0,
    every: bool = False,
    until: CompileUntil = "end",
    limit_s: float = 60.0,
) -> tuple[Compiled | Raised | Unanswered, str]:
    """What comes of compiling the launches of `launch`; and the kernel that was in the works when the process ended."""
    start = Start("ex.py", HEAD + text, INPUTS, ("launch",), capability)
    call = Call(Recipe("launch", {"N": 1 << 16, "dtype": dtype, "offset": offset}, 0), ("x",), (), ())
    spec = ProcessSpec(server, start, Limits(call_s=limit_s))
    with Session(spec) as session, CleanCompiler(lambda: spec) as compiler:
        recorded = session.record(RecordCall(call, afresh=True, inputs="timed"))
        if not isinstance(recorded, tuple):
            return recorded, ""
        return compiler.compile(call, recorded[0].trace, capability, every=every, until=until, limit_s=limit_s)


def binaries_of(server: ForkServer, text: str, capability: int = 90, **how: object) -> tuple[Binary, ...]:
    """The kernels that a submission's launches were compiled to."""
    answer, _ = compiled_in(server, text, capability, **how)  # type: ignore[arg-type]
    assert isinstance(answer, Compiled), answer
    assert not answer.stopped, answer.stopped
    return answer.binaries


def line_of(text: str, words: str) -> int:
    """The line of the submission in which these words stand first."""
    lines = (HEAD + text).splitlines()
    return next(number for number, line in enumerate(lines, 1) if words in line)
