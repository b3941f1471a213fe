"""A product and the sum that it goes into are rounded once in the interpreter, where compiled code does so.

What the PTX and SASS of Triton 3.7 show for sm_90, case by case.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from grader.exercise.catalogue import Entry
from grader.sandbox.server import ForkServer
from tests.recordings import answer_in, recording

pytestmark = pytest.mark.process

KERNEL = """
@triton.jit
def product(x, y):
    return x * y

@triton.jit
def work(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr, NONE: tl.constexpr):
    places = tl.arange(0, BLOCK)
    offsets = tl.program_id(0) * BLOCK + places
    inside = offsets < n
    x, y = tl.load(x_ptr + offsets, inside, 1.0), tl.load(y_ptr + offsets, inside, 1.0)
{lines}
    tl.store(z_ptr + offsets, z, inside)

def vector_add(x, y):
    z = torch.empty_like(x)
    work[(triton.cdiv(x.numel(), 64),)](x, y, z, x.numel(), BLOCK=64, NONE=None{options})
    return z
"""

Formula = Callable[[Tensor, Tensor], Tensor]


def result(
    server: ForkServer, entry: Entry, lines: str, options: str = "", dtype: str = "float32"
) -> tuple[Tensor, Tensor, Tensor]:
    """Return z after these lines of a kernel, with x and y."""
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    with recording(server, entry, KERNEL.replace("{lines}\n", body).replace("{options}", options)) as one:
        other = one.at(dtype=dtype)
        x, y = other.inputs(5)
        return answer_in(other.replay(other.record(), 5)).view(x.dtype), x, y


def once(formula: Formula) -> Formula:
    """Return a formula that is rounded at its end only."""
    return lambda x, y: formula(x.double(), y.double()).to(x.dtype)


def equal(got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ("z = x * y + x", once(lambda x, y: x * y + x)),
        ("z = x + x * y", once(lambda x, y: x + x * y)),
        ("z = x * y - x", once(lambda x, y: x * y - x)),
        ("z = x - x * y", once(lambda x, y: x - x * y)),
        ("z = product(x, y) + x", once(lambda x, y: x * y + x)),
        ("z = 1.7 * x\nz += y", once(lambda x, y: torch.tensor(1.7, dtype=torch.float32) * x + y)),
    ],
)
def test_a_product_and_a_sum_are_rounded_once(lines: str, wanted: Formula, server: ForkServer, ex_15: Entry) -> None:
    got, x, y = result(server, ex_15, lines)
    equal(got, wanted(x, y))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_so_they_are_in_16_bits(dtype: str, server: ForkServer, ex_15: Entry) -> None:
    got, x, y = result(server, ex_15, "z = x * y + x", dtype=dtype)
    equal(got, once(lambda x, y: x * y + x)(x, y))
    assert not torch.equal(got, x * y + x)


def test_a_product_in_float64_overflows_only_with_its_sum(server: ForkServer, ex_15: Entry) -> None:
    lines = "wide = x.to(tl.float64) * 0.0 + 1e200\nz = (wide * wide - wide * wide).to(tl.float32)\n"
    # The left product is far below infinity, which the right one is rounded to.
    got, *_ = result(server, ex_15, lines)
    equal(got, torch.full_like(got, -torch.inf))


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("p = x * y\nz = p - tl.maximum(p, p)", id="a maximum"),
        pytest.param("z = x * y - x * y", id="the left one of two products"),
        pytest.param("p = x * y\nz = p - p", id="one product twice"),
        pytest.param(
            "p = x * y\ntl.store(z_ptr + offsets, p, inside)\nz = p - tl.load(z_ptr + offsets, inside, 0)", id="a store"
        ),
        pytest.param("p = x * y\nq = p + 0.0\nz = p - q", id="a sum before"),
        pytest.param("p = x * y\nif NONE is None:\n    q = tl.maximum(p, p)\nz = p - q", id="a branch at compile time"),
        pytest.param("for i in range(2):\n    p = x * y\n    z = p - tl.maximum(p, p)", id="within a turn of a loop"),
        pytest.param("p = x * y\nfor i in tl.static_range(2):\n    z = p - tl.maximum(p, p)", id="an unrolled loop"),
    ],
)
def test_each_use_of_a_product_takes_it_as_it_is_there(lines: str, server: ForkServer, ex_15: Entry) -> None:
    got, x, y = result(server, ex_15, lines)
    equal(got, (x.double() * y.double() - (x * y).double()).float())
    assert got.count_nonzero() > 50


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("p = tl.where(places >= 0, x * y, 0.0)\nz = p - tl.maximum(p, p)", id="a choice before the sum"),
        pytest.param("p = (x * y).to(tl.float64)\nz = (p - tl.maximum(p, p)).to(tl.float32)", id="a conversion"),
        pytest.param("p = x * y\nfor i in range(2):\n    z = p - tl.maximum(p, p)", id="from before a loop"),
        pytest.param("for i in range(2):\n    p = x * y\nz = p - tl.maximum(p, p)", id="out of a loop"),
        pytest.param("p = x\nif n > 0:\n    p = x * y\nz = p - tl.maximum(p, p)", id="out of a branch"),
        pytest.param("p = x * y\nz = x\nif n > 0:\n    z = p - tl.maximum(p, p)", id="into a branch"),
    ],
)
def test_elsewhere_a_product_is_rounded(lines: str, server: ForkServer, ex_15: Entry) -> None:
    got, *_ = result(server, ex_15, lines)
    equal(got, torch.zeros_like(got))


def test_a_launch_may_forbid_it(server: ForkServer, ex_15: Entry) -> None:
    got, x, y = result(server, ex_15, "z = x * y + x", ", enable_fp_fusion=False")
    equal(got, x * y + x)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("p = tl.load(x_ptr) * tl.load(y_ptr)\nz = p + x", id="a scalar"),
        pytest.param(
            "few = 0 * tl.arange(0, 8)\n"
            "p = tl.load(x_ptr + few) * tl.load(y_ptr + few)\n"
            "z = (p[:, None] + tl.reshape(x, (8, 8))).reshape((64,))",
            id="a column",
        ),
    ],
)
def test_a_product_keeps_its_factors_in_another_shape(lines: str, server: ForkServer, ex_15: Entry) -> None:
    got, x, y = result(server, ex_15, lines)
    equal(got, (x[0].double() * y[0].double() + x.double()).float())


def test_a_product_is_the_accumulator_of_tensor_cores(server: ForkServer, ex_15: Entry) -> None:
    lines = (
        "a = tl.broadcast_to(x[:, None], (64, 16)) * 0.0\n"
        "p = tl.broadcast_to((x * y)[:, None], (64, 16)) * 1.1\n"
        "z = tl.max(p + tl.dot(a, tl.zeros((16, 16), tl.float32), input_precision='ieee'), 1)"
    )
    got, x, y = result(server, ex_15, lines)
    equal(got, x * y * 1.1)
