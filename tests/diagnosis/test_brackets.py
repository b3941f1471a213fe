"""A condition that & takes apart is told where an edit proves nothing: the kernel has a second mistake beside it."""

from __future__ import annotations

import pytest

from grader.diagnosis.edits.brackets import brackets_clue
from grader.diagnosis.edits.edited import Edited
from grader.diagnosis.edits.edits import scopes_of
from grader.diagnosis.edits.repairs import kernels_in
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of

pytestmark = pytest.mark.process

CASE = Case({"N": 100, "dtype": "float32", "values": "normal", "offset": 0})
MASK = "mask = offsets < n"
LOOSE = f"{MASK} & (offsets >= 0)"


@pytest.mark.parametrize("is_loose", [True, False])
def test_the_line_with_the_condition_and_its_brackets_are_told(
    server: ForkServer, ex_15: Entry, *, is_loose: bool
) -> None:
    source = VECTOR_ADD.replace("x + y", "x - y").replace(MASK, LOOSE if is_loose else MASK)
    with bench_of(server, ex_15, source) as bench:
        failure = bench.try_case(CASE, 5).failure
        assert failure
        assert failure.wrong_call
        recorded = Edited.of(bench, failure.wrong_call.recipe).recorded
    assert recorded
    clue = brackets_clue(scopes_of(source, kernels_in(recorded.trace), "vector_add"))
    if not is_loose:
        assert clue is None
        return
    assert clue
    line = next(number for number, text in enumerate(source.splitlines(), 1) if LOOSE in text)
    assert clue.evidence == f"Line {line}: `offsets < n & (offsets >= 0)` lacks brackets."
    assert "write `(offsets < n) & (offsets >= 0)`" in clue.help
