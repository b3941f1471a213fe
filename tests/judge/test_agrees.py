"""Which failing cases of a comparison are explained, and in which order."""

from __future__ import annotations

import pytest

from grader.exercise.cases import QUICK_VOLUME, Case, Cases, Choice, Size, Space
from grader.exercise.catalogue import Entry
from grader.exercise.plan import PlannedCase
from grader.exercise.rules import Agrees
from grader.judge.failure import Failure
from grader.judge.rules.agrees import _most_telling, decide
from grader.judge.trial import NotRunHere
from grader.record.causes import Cause, Mismatch
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of


def failed(side: int) -> tuple[PlannedCase, Failure]:
    """Return a failing product of matrices with this side."""
    mismatch = Mismatch("c", 1, side * side, 1.0, 1.0, (0, 0), "scattered", ())
    cause = Cause("mismatch", "c is wrong", "…", mismatch=mismatch)
    return PlannedCase(Case({"M": side, "N": side, "K": side}), side), Failure("fail", cause)


def explained(*sides: int) -> list[str]:
    found = _most_telling([failed(side) for side in sides])
    return [one.cause.case.partition(",")[0] for one in found]


def test_the_largest_outputs_are_explained_first() -> None:
    assert explained(1, 64, 16, 100) == ["M=100", "M=64", "M=16", "M=1"]


def test_calls_that_take_the_oracle_seconds_are_explained_last_the_smallest_first() -> None:
    assert 2048**3 > QUICK_VOLUME > 100**3
    assert explained(4096, 2048, 1, 100) == ["M=100", "M=1", "M=2048", "M=4096"]
    assert explained(4096, 2048, 3, 4, 5, 6) == ["M=6", "M=5", "M=4", "M=3"]


def with_assembly_from(length: int, total: str) -> str:
    """Return an addition that needs a GPU for vectors of some length, and computes the total for shorter ones."""
    moved = 'tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)'
    return VECTOR_ADD.replace(
        "    tl.store(z_ptr + offsets, x + y,",
        f"    if n < {length}:\n        z = {total}\n    else:\n        z = {moved}\n    tl.store(z_ptr + offsets, z,",
    )


def test_a_wrong_case_counts_although_a_later_one_needs_a_gpu(server: ForkServer, ex_15: Entry) -> None:
    space = Space(
        {"N": Size(1, 999), "dtype": Choice(("float32",)), "values": Choice(("normal",)), "offset": Choice((0,))}
    )
    short, long = (
        PlannedCase(Case({"N": n, "dtype": "float32", "values": "normal", "offset": 0}), 3) for n in (65, 130)
    )
    rule = Agrees(Cases(space, ({"N": 65},), generated=0))
    with bench_of(server, ex_15, with_assembly_from(100, "x - y")) as bench:
        ruling = decide(bench, [short, long], rule)
        with pytest.raises(NotRunHere):
            decide(bench, [long, short], rule)
    assert ruling.failing == short
    with bench_of(server, ex_15, with_assembly_from(100, "x + y")) as bench, pytest.raises(NotRunHere):
        decide(bench, [short, long], rule)
