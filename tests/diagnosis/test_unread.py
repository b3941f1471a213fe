"""A result cannot depend on an argument that no kernel gets, whatever its errors look like."""

from __future__ import annotations

import pytest

from grader.diagnosis.edits.edited import Edited
from grader.diagnosis.edits.unread import unread_clue
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of

pytestmark = pytest.mark.process

CASE = Case({"N": 100, "dtype": "float32", "values": "normal", "offset": 0})


@pytest.mark.parametrize(
    ("launched", "is_told"),
    [("(x, x, z,", True), ("(x, x + 0, z,", True), ("(x, y, z,", False), ("(x, y.clone(), z,", False)],
)
def test_the_argument_that_no_launch_gets_is_told(
    server: ForkServer, ex_15: Entry, launched: str, *, is_told: bool
) -> None:
    source = VECTOR_ADD.replace("x + y", "x + 2 * y").replace("(x, y, z,", launched)
    with bench_of(server, ex_15, source) as bench:
        failure = bench.try_case(CASE, 5).failure
        assert failure
        assert failure.wrong_call
        recorded = Edited.of(bench, failure.wrong_call.recipe).recorded
    assert recorded
    clue = unread_clue(recorded.trace)
    assert (clue is not None) is is_told
    if clue is not None:
        assert "gets y" in clue.evidence
