"""Programs on an axis of the grid that a kernel does not ask for all do the same, and the card says so."""

from __future__ import annotations

import pytest

from grader.diagnosis.edits.idle_axes import idle_axis_clue
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of

pytestmark = pytest.mark.process

GRID = "(triton.cdiv(x.numel(), 64),)"
CASE = Case({"N": 100, "dtype": "float32", "values": "normal", "offset": 0})


@pytest.mark.parametrize(
    ("grid", "place", "is_told"),
    [
        ("(1, 128)", "tl.program_id(0)", True),
        ("(1, 128)", "tl.program_id(0) + tl.program_id(axis=1)", False),
        ("(1, 128)", "tl.program_id(0) + tl.program_id(BLOCK // 64)", False),
        ("(1, 1)", "tl.program_id(0)", False),
    ],
    ids=["threads as in CUDA", "used", "perhaps used", "one program"],
)
def test_an_axis_of_several_programs_that_the_kernel_ignores_is_told(
    server: ForkServer, ex_15: Entry, grid: str, place: str, *, is_told: bool
) -> None:
    source = VECTOR_ADD.replace("x + y", "x - y").replace(GRID, grid).replace("tl.program_id(0)", place)
    with bench_of(server, ex_15, source) as bench:
        failure = bench.try_case(CASE, 5).failure
        assert failure
        assert failure.wrong_call
        clue = idle_axis_clue(source, failure.wrong_call)
    assert (clue is not None) is is_told
    if clue is not None:
        assert "128 programs on axis 1" in clue.evidence
