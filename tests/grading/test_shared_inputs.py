"""Files of an exercise's author, and the saves of one file, meet the same inputs; a hand-in meets inputs of its own."""

from __future__ import annotations

import pytest

from grader.exercise.catalogue import Entry
from grader.exercise.plan import with_shared_inputs
from grader.grading import Job, grade, truth_of
from grader.judge.truth import Expected, Truth
from grader.protocol.requests import Recipe
from grader.sandbox.server import ForkServer
from tests.conftest import plan_with

PLANNED = 3


@pytest.mark.parametrize(("shared", "seeds"), [(True, PLANNED), (False, 2 * PLANNED)])
def test_expected_values_of_shared_inputs_are_computed_once(
    shared: bool, seeds: int, server: ForkServer, ex_15: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[int] = []
    compute = Truth._compute

    def noted(self: Truth, part: object, recipe: Recipe) -> tuple[Expected, ...]:
        computed.append(recipe.seed)
        return compute(self, part, recipe)  # type: ignore[arg-type]

    monkeypatch.setattr(Truth, "_compute", noted)
    plan = plan_with(ex_15, "vector_add.tail", cases=PLANNED)
    plan = with_shared_inputs(plan) if shared else plan
    # Their texts differ, and so do their traces.
    other = next(path for path in ex_15.honest if "vector_add" in ex_15.parts_in(path))
    truth = truth_of(ex_15, on_gpu=False)
    for path in (ex_15.solution, other):
        job = Job(ex_15, path.name, path.read_text(encoding="utf-8"), plan, "", "", timed=False, compiled=False)
        assert {check.status for check in grade(job, server, truth=truth).checks} == {"pass"}
    assert len(computed) == len({*computed}) == seeds
    # A trace must not hold the answer: decoys are made from the planned seeds.
    assert not {*computed} & {one.seed for check in plan.checks for one in check.cases}
