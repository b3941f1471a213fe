"""What an operation of a kernel is lowered to is remembered by types and constants, and by nothing less."""

from __future__ import annotations

import pytest
import torch

from grader.exercise.catalogue import Entry
from grader.exercise.triton_version import TRITON
from grader.sandbox.server import ForkServer
from tests.interpreter.test_contract import python
from tests.recordings import answer_in, recording

pytestmark = pytest.mark.process

# One program per 64 elements; `x` and `y` are its elements, `z` what it stores.
KERNEL = """
@triton.jit
def twice(x):
    return x + x

@triton.jit
def work(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    offsets = program * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x, y = tl.load(x_ptr + offsets, inside, 1.0), tl.load(y_ptr + offsets, inside, 1.0)
{lines}
    tl.store(z_ptr + offsets, z, inside)

def vector_add(x, y):
    z = torch.empty_like(x)
    work[(triton.cdiv(x.numel(), 64),)](x, y, z, x.numel(), BLOCK=64)
    return z
"""
ROWS = torch.arange(100)


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        pytest.param("z = x * x + x * y", lambda x, y: x * x + x * y, id="one value as both operands, then two"),
        pytest.param("z = x * y + x * x", lambda x, y: x * y + x * x, id="two values, then one as both operands"),
        pytest.param(
            "z = tl.where(x > 0, x, 0.0) + tl.where(x > 0, y, x)",
            lambda x, y: torch.where(x > 0, x, 0.0) + torch.where(x > 0, y, x),
            id="a constant where there was a tensor",
        ),
        pytest.param(
            "a = x.to(tl.int32) + 1; b = x.to(tl.int32) + 1.0; z = a.to(tl.float32) + b * 0.5",
            lambda x, y: (x.int() + 1) * 1.5,
            id="one and 1.0",
        ),
        pytest.param(
            "a = x.to(tl.int32) << 1; b = x.to(tl.int32) * True; z = a.to(tl.float32) + b.to(tl.float32)",
            lambda x, y: 2 * x.int().float() + x.int().float(),
            id="one and True",
        ),
        pytest.param(
            "z = x\nfor i in range(program + 1):\n    z += i * y",
            lambda x, y: x + torch.where(ROWS < 64, 0.0, y),
            id="loops of different lengths",
        ),
        pytest.param(
            "z = x + tl.load(y_ptr + program, program < 1, 0.0)",
            lambda x, y: x + torch.where(ROWS < 64, y[0], 0.0),
            id="a scalar that is masked",
        ),
        pytest.param(
            "b = tl.make_block_ptr(y_ptr, (n,), (1,), (program * BLOCK,), (BLOCK,), (0,))\n"
            "z = x + tl.load(b, boundary_check=(0,), padding_option='zero')\n"
            "b = tl.advance(b, (program * BLOCK,))\n"
            "z += tl.load(b, boundary_check=(0,), padding_option='zero')",
            lambda x, y: x + torch.where(ROWS < 64, 2 * y, y),
            id="block pointers",
            marks=pytest.mark.skipif(TRITON >= (3, 9), reason="triton 3.9 has no block pointers"),
        ),
        pytest.param(
            "c = tl.arange(0, BLOCK) >> 1; d = tl.arange(0, BLOCK) + 1\nz = x + (c + d).to(tl.float32) * 2.0",
            lambda x, y: x + ((ROWS % 64) // 2 + ROWS % 64 + 1) * 2,
            id="constants that an operation changes",
        ),
        pytest.param(
            "tl.extra.cuda.gdc_wait()\nz = x + y\ntl.extra.cuda.gdc_launch_dependents()",
            lambda x, y: x + y,
            id="waiting for a kernel that has ended",
        ),
        pytest.param(
            "z = x\nif program > 0:\n    z = y",
            lambda x, y: torch.where(ROWS < 64, x, y),
            id="a branch on a value",
        ),
        pytest.param(
            "z = tl.sum(tl.reshape(x, (64, 1)) * tl.reshape(y, (64, 1)), 1) + twice(y)",
            lambda x, y: x * y + 2 * y,
            id="shapes, reductions and functions",
        ),
        pytest.param(
            "z = (x[None, :] + y[None, :]).reshape((64,)) + tl.trans(x[:, None] * y[:, None]).reshape((64,))",
            lambda x, y: x + y + x * y,
            id="slices",
        ),
        pytest.param(
            "z = (x.to(tl.bfloat16) + y.to(tl.bfloat16)).to(tl.float32) + (x.to(tl.float16) + y).to(tl.float32)",
            lambda x, y: (x.bfloat16() + y.bfloat16()).float() + (x.half() + y),
            id="the same operation on other types",
        ),
    ],
)
def test_every_program_computes_with_its_own_values(
    lines: str, wanted: object, server: ForkServer, ex_15: Entry
) -> None:
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    with recording(server, ex_15, KERNEL.replace("{lines}\n", body)) as one:
        for seed in (5, 6):
            told = one.record()
            x, y = one.inputs(seed)
            expected = wanted(x, y)  # type: ignore[operator]
            torch.testing.assert_close(answer_in(one.replay(told, seed)), expected, equal_nan=True)


def test_a_store_and_an_atomic_addition_happen_every_time(server: ForkServer, ex_15: Entry) -> None:
    lines = "    z = x * 0\n    for i in range(3):\n        tl.atomic_add(z_ptr + offsets, y, inside)\n        z += y\n"
    source = KERNEL.replace("{lines}\n", lines).replace("empty_like", "zeros_like")
    source = source.replace("tl.store(z_ptr + offsets, z, inside)", "tl.atomic_add(z_ptr + offsets, z, inside)")
    with recording(server, ex_15, source) as one:
        y = one.inputs(5)[1]
        torch.testing.assert_close(answer_in(one.replay(one.record(), 5)), 6 * y)


COUNTING = """
from grader.interpreter.corrections import apply_corrections
from grader.interpreter.once import patch_language_once
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle, interpreter_semantic, tl
import numpy as np
apply_corrections()
patch_language_once()
asked = []
for name in ("add", "mul"):
    def counted(*operands, method=getattr(interpreter_semantic, name), name=name):
        asked.append(name)
        return method(*operands)
    setattr(interpreter_semantic, name, counted)
def block(kind, dtype, *values):
    shape = tl.block_type(kind, [len(values)])
    return tl.tensor(TensorHandle(np.array(values, dtype), kind), shape)
floats = [block(tl.float32, np.float32, 1.0, start) for start in (2.0, 3.0, 4.0)]
"""


def test_the_language_is_asked_once_for_each_combination_of_types_and_refuses_every_time() -> None:
    ran = python(
        COUNTING
        + "sums = [one + floats[0] for one in floats[1:]]; print(len(asked), [one.handle.data[1] for one in sums])\n"
        + "whole = block(tl.int32, np.int32, 5, 6); whole + whole; floats[1] + whole; floats[1] * whole; print(asked)\n"
        + "four = block(tl.float32, np.float32, 1.0, 2.0, 3.0, 4.0)\n"
        + "for _ in range(2):\n    try:\n        floats[0] + four\n    except Exception as e:\n"
        + "        print(type(e).__name__)"
    )
    assert ran.stdout.splitlines() == [
        "1 [np.float32(5.0), np.float32(6.0)]",
        "['add', 'add', 'add', 'mul']",
        *["ValueError"] * 2,
    ], ran.stderr
