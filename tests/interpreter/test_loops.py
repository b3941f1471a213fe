"""Loops, conditions and products as a compiler has them: one type for a variable, `and` for blocks, a least K."""

from __future__ import annotations

import ast

import pytest

from grader.exercise.catalogue import Entry
from grader.interpreter.language.loops import WrapLoops
from grader.judge.trial import Trial
from grader.sandbox.server import ForkServer
from tests.benches import bench_of
from tests.judge.test_configurations import ONE

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    LOOP
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z
"""


def watched_in(body: str) -> list[str]:
    """Return the variables that the loops of a function tell, in the order of the loops."""
    text = "def f(a, b):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    tree = WrapLoops().visit(ast.parse(text))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    told = [call.args[1] for call in calls if call.func.attr == "carried"]  # type: ignore[attr-defined]
    return sorted(str(one.value) for one in told if isinstance(one, ast.Constant))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("x = 0\nfor i in range(a):\n    x = x + 1", ["x"]),
        ("x = y = 0\nwhile x < a:\n    y, x = x, y + 1", ["x y"]),
        ("x = 0\nfor i in range(a):\n    for j in range(b):\n        x = x + 1", ["x", "x"]),
        ("for i in range(a):\n    x = 0\n    for j in range(b):\n        x = x + 1", ["x"]),
        # Not there before, there in one branch alone, or another variable in every turn.
        ("for i in range(a):\n    x = i", []),
        ("if a:\n    x = 0\nfor i in range(a):\n    x = i", []),
        ("x = 0\nfor i in tl.static_range(4):\n    x = x + 1", []),
    ],
)
def test_a_loop_tells_the_variables_that_it_finds_and_assigns(body: str, told: list[str]) -> None:
    assert watched_in(body) == told


def tried(server: ForkServer, entry: Entry, *lines: str) -> Trial:
    source = KERNEL.replace("LOOP", "\n    ".join(lines))
    with bench_of(server, entry, source) as bench:
        return bench.try_case(ONE.case, ONE.seed)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            ("t = 0.0", "for i in range(2):", "    t = t + x"),
            "finds t as fp32 and leaves it as fp32 of the shape [1024]",
        ),
        (("t = 0", "for i in range(2):", "    t = t + 0.5"), "finds t as an integer and leaves it as fp32"),
        (
            ("t = tl.zeros((BLOCK,), tl.float16)", "while tl.sum(t) < 1:", "    t = t + 1 + 0 * x"),
            "finds t as fp16 of the shape [1024] and leaves it as fp32 of the shape [1024]",
        ),
    ],
)
def test_a_variable_of_another_type_does_not_compile(
    server: ForkServer, ex_15: Entry, lines: tuple[str, ...], words: str
) -> None:
    failure = tried(server, ex_15, *lines).failure
    assert failure is not None
    assert failure.status == "compile_error"
    assert words in failure.cause.rationale


@pytest.mark.parametrize(
    "lines",
    [
        # Conditions of blocks, lane by lane, and of constants, of which the first may decide.
        ("y = tl.where((x > 0) and (y > 0) or not (x > 0) and offsets < n, y, y)",),
        ("y = tl.where(not ((x == x) and (offsets < n)), 0.0, y)",),
        ("if BLOCK == 7 and tl.load(x_ptr + (1 << 40)) > 0 or not BLOCK:", "    y = x"),
        ("t = 0.0", "for i in range(2):", "    t = t + tl.sum(x)"),
        ("t = 0", "for i in range(n):", "    t = t + i.to(tl.int64)"),
        ("t = 0.0", "for i in tl.static_range(2):", "    t = t + x"),
        ("t = x", "for i in range(2):", "    t, u = t * 2, offsets"),
        ("for i in range(2):", "    t = 0.0", "t = x"),
        ("p = x_ptr + offsets", "for i in range(2):", "    p = p + 0 * BLOCK"),
        # A counter of one loop after another, and the last constant of an unrolled one.
        ("for i in range(2):", "    for i in range(3):", "        t = i", "for i in range(2):", "    t = i"),
        ("for i in tl.static_range(2):", "    t = i", "y = y + 0 * i"),
        ("for i in range(3, 0, -1):", "    t = i"),
        ("y = max(y, y - 1.0, x * 0 + y)", "y = min(y, y + 1.0)", "k = max(BLOCK, 7) + min(n, BLOCK)"),
        # A constant that decides ends a chain; one that does not drops out of it.
        ("k = n or 0", "four = n or 4", "y = tl.where((k == n) and (four == 4), y, x)"),
        ("y = tl.where((offsets < n) and True, y, x)",),
        ("ones = (offsets >= 0).to(tl.int32) + (offsets < n)", "y = tl.where(offsets < n, y * (ones == 2), y)"),
    ],
)
def test_a_variable_that_keeps_its_type_or_begins_in_the_loop_is_right(
    server: ForkServer, ex_15: Entry, lines: tuple[str, ...]
) -> None:
    assert tried(server, ex_15, *lines).failure is None


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("for i in range(2):", "    t = i", "y = y + 0 * i"), "`i` has no value here"),
        (("i = n", "for i in range(2):", "    t = i", "y = y + 0 * i"), "`i` has no value here"),
        (("for i in range(3, 0, tl.minimum(n, -1)):", "    t = i"), "counts down by a constant only"),
        (("k = n and (n + 1)",), "`and` joins conditions, and one side is a block of int32"),
        (("k = tl.multiple_of(BLOCK, 16)",), "promises something of a tensor, and here it gets the constant 1024"),
        (("k = not n",), "takes truth values, and here it gets int32"),
    ],
)
def test_what_compiled_code_takes_otherwise_is_said(
    server: ForkServer, ex_15: Entry, lines: tuple[str, ...], words: str
) -> None:
    failure = tried(server, ex_15, *lines).failure
    assert failure is not None
    assert words in failure.cause.rationale


def test_true_and_true_add_up_to_false(server: ForkServer, ex_15: Entry) -> None:
    assert tried(server, ex_15, "y = tl.where((offsets >= 0) + (offsets < n), x, y)").failure is None


def test_both_sides_of_an_and_are_computed(server: ForkServer, ex_15: Entry) -> None:
    trial = tried(server, ex_15, "if (n < 0) and (tl.load(x_ptr + (1 << 30)) > 0):", "    y = x")
    assert trial.failure is not None
    assert trial.failure.cause.kind == "out_of_bounds"


def test_a_product_of_fewer_than_16_at_a_time_does_not_compile(server: ForkServer, ex_15: Entry) -> None:
    failure = tried(
        server, ex_15, "a = tl.zeros((16, 8), tl.float16)", "x = x + 0 * tl.sum(tl.dot(a, tl.trans(a)))"
    ).failure
    assert failure is not None
    assert "K = 16" in failure.cause.rationale
