"""The success checklist of the course: each goal is ticked by what was passed."""

from __future__ import annotations

import pytest

from grader.record.statuses import Status
from grader.report.page import index
from tests.records import samples


def row(number: int, *statuses: Status, objectives: tuple[str, ...] = ("writes",)) -> index.ExerciseRow:
    checks = [samples.check(f"p.c{i}", "C", status, objective="writes") for i, status in enumerate(statuses)]
    return index.ExerciseRow(f"ex_{number}", "T", "begun", "", "f.py", "", 0, tuple(checks), objectives)


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ([row(1, "pass", "pass"), row(2, "pass")], "passed"),
        ([row(1, "pass", "skipped_environment")], "passed"),
        ([row(1, "pass", "fail")], "in part"),
        ([row(1, "pass"), row(2)], "in part"),
        ([row(1, "fail"), row(2, "not_implemented")], "open"),
        ([row(1), row(2)], "open"),
        ([row(1, "skipped_environment")], "not judged here"),
        ([row(1, "skipped_environment"), row(2)], "open"),
    ],
)
def test_a_goal_is_ticked_when_all_that_could_be_judged_passed(rows: list[index.ExerciseRow], word: str) -> None:
    (goal,) = index.goals(rows)
    assert goal.look.word == word
    assert goal.exercises == tuple(one.id for one in rows)


def test_the_checklist_names_goals_of_exercises_that_are_not_begun() -> None:
    page = index.render([row(1, "pass"), row(2, objectives=("chooses",))])
    assert "Success checklist" in page
    assert page.index("writes") < page.index("chooses")
    assert "1 of 1 checks" in page
