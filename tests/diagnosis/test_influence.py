"""Which lines of a kernel lead to which outputs: by the values, places and masks of its stores."""

from __future__ import annotations

from grader.diagnosis.edits.influence import outputs_of_lines
from grader.protocol.trace import KernelText, Launch, TensorValue, Trace, Window

TEXT = """import triton
import triton.language as tl


@triton.jit
def first(x_ptr, t_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    half = x * 0.5
    double = x * 2.0
    for step in range(n):
        double += step
    t_ptrs = t_ptr + at
    tl.store(t_ptrs, half)
    tl.store(y_ptr + at, double)


@triton.jit
def second(t_ptr, z_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(z_ptr + at, tl.load(t_ptr + at))
"""


def _line(text: str) -> int:
    return next(number for number, line in enumerate(TEXT.splitlines(), 1) if text in line)


def test_a_line_leads_to_the_outputs_that_its_names_reach_through_later_launches_too() -> None:
    x, t, y, z = range(4)
    windows = tuple(Window(storage, "float32", 0, (8,), (1,)) for storage in (x, t, y, z))
    kernels = tuple(
        KernelText(name, TEXT.splitlines().index(f"def {name}" + rest), "jit", {}, {}, {}, {})  # the decorator's line
        for name, rest in (
            ("first", "(x_ptr, t_ptr, y_ptr, n, BLOCK: tl.constexpr):"),
            ("second", "(t_ptr, z_ptr, BLOCK: tl.constexpr):"),
        )
    )
    launches = (
        Launch(0, (1,), (TensorValue(x), TensorValue(t), TensorValue(y), 8), {}, {}, 1),
        Launch(1, (1,), (TensorValue(t), TensorValue(z)), {}, {}, 2),
    )
    trace = Trace({"x": x}, windows, kernels, launches, ())
    found = outputs_of_lines(TEXT, trace, [y, z])
    assert found[_line("half = ")] == {1}
    assert found[_line("double = ")] == {0}
    assert found[_line("for step")] == {0}
    assert found[_line("x = tl.load")] == {0, 1}
    assert found[_line("t_ptrs = ")] == {1}
    assert found[_line("tl.store(z_ptr")] == {1}


def test_the_lines_of_a_kernel_that_is_too_long_lead_nowhere() -> None:
    lines = "".join(f"    a{i} = half + {i} if {i} < n else half - {i}\n" for i in range(1000))
    long = TEXT.replace("    double = x", f"{lines}    double = x")
    kernels = (
        KernelText(
            "first",
            TEXT.splitlines().index("def first(x_ptr, t_ptr, y_ptr, n, BLOCK: tl.constexpr):"),
            "jit",
            {},
            {},
            {},
            {},
        ),
    )
    windows = tuple(Window(storage, "float32", 0, (8,), (1,)) for storage in range(3))
    launch = Launch(0, (1,), (TensorValue(0), TensorValue(1), TensorValue(2), 8), {}, {}, 1)
    trace = Trace({"x": 0}, windows, kernels, (launch,), ())
    assert outputs_of_lines(TEXT, trace, (1, 2))
    assert not outputs_of_lines(long, trace, (1, 2))
