"""A right call is made again with other numbers where nobody wrote any, if NaN there may have been hidden."""

from __future__ import annotations

import pytest

from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.sandbox.server import ForkServer
from tests.benches import bench_of
from tests.conftest import SHORT, limited
from tests.recordings import CASE, HEAD


@pytest.fixture(scope="module")
def ex_15() -> Entry:
    return limited(SHORT)


# A sum with 0 times something: right while that something is NaN and hidden.
SOURCE = """
@triton.jit
def add(x_ptr, y_ptr, kept_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x, y = tl.load(x_ptr + at, inside), tl.load(y_ptr + at, inside)
    {hidden}
    tl.store(z_ptr + at, x + y + hidden, inside)

def vector_add(x, y):
    z, kept = torch.empty_like(x), torch.empty_like(x)
    add[(4,)](x, y, kept, z, x.numel(), BLOCK=32)
    return z
"""
GARBAGE = {
    "a maximum of masked lanes": "hidden = tl.minimum(tl.maximum(tl.max(x), 50.0), 60.0) - 50.0",
    "a minimum of masked lanes": "hidden = tl.maximum(tl.minimum(tl.min(x), -50.0), -60.0) + 50.0",
    "a comparison with masked lanes": "hidden = tl.sum((x > 50.0).to(tl.float32), 0)",
    "a maximum with unwritten memory": "hidden = tl.maximum(tl.load(kept_ptr + at, inside, other=0.0), 0.0)",
}
HARMLESS = {
    "masked lanes that are not stored": "hidden = tl.maximum(x, 0.0) - tl.maximum(x, 0.0)",
    "masked lanes that are left out": "hidden = tl.maximum(tl.max(tl.where(inside, x, 0.0)), 50.0) - 50.0",
}


def failure_kind(hidden: str, server: ForkServer, ex_15: Entry) -> str:
    """Return the kind of the failure of a call; "" where it is right."""
    with bench_of(server, ex_15, HEAD + SOURCE.format(hidden=hidden)) as bench:
        failure = bench.try_case(Case(CASE), 5).failure
    return failure.cause.kind if failure else ""


@pytest.mark.parametrize("hidden", GARBAGE.values(), ids=GARBAGE.keys())
def test_what_depends_on_numbers_that_nobody_wrote_fails(hidden: str, server: ForkServer, ex_15: Entry) -> None:
    assert failure_kind(hidden, server, ex_15) == "undefined"


COUNTED = SOURCE.replace("torch.empty_like(x)\n", "torch.empty(128, dtype=torch.int32, device=x.device)\n")
NOT_STORED = """
@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    z = tl.load(x_ptr + at, at < n) + tl.load(y_ptr + at, at < n)
    bits = z.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    tl.store(z_ptr + at, z, (at < n) & {some})

def vector_add(x, y):
    z = torch.empty_like(x)
    add[(4,)](x, y, z, x.numel(), BLOCK=32)
    return z
"""


def test_whole_numbers_that_nobody_wrote_change_nothing(server: ForkServer, ex_15: Entry) -> None:
    assert COUNTED != SOURCE
    small = COUNTED.format(hidden="hidden = (tl.load(kept_ptr + at, inside, other=0) < 5).to(tl.float32) * inside")
    unused = COUNTED.format(hidden="hidden = 0.0")
    for source, kind in ((small, "undefined"), (unused, "")):
        with bench_of(server, ex_15, HEAD + source) as bench:
            failure = bench.try_case(Case(CASE), 5).failure
        assert (failure.cause.kind if failure else "") == kind


@pytest.mark.parametrize(("some", "kind"), [("(bits <= 0x7F800000)", "undefined"), ("(bits >= 0)", "")])
def test_a_nan_that_is_right_is_stored_as_any_other_number(
    some: str, kind: str, server: ForkServer, ex_15: Entry
) -> None:
    with bench_of(server, ex_15, HEAD + NOT_STORED.format(some=some)) as bench:
        failure = bench.try_case(Case({**CASE, "values": "nonfinite"}), 5).failure
    assert (failure.cause.kind if failure else "") == kind


@pytest.mark.parametrize("hidden", HARMLESS.values(), ids=HARMLESS.keys())
def test_numbers_that_nobody_wrote_may_lie_where_they_change_nothing(
    hidden: str, server: ForkServer, ex_15: Entry
) -> None:
    assert failure_kind(hidden, server, ex_15) == ""
