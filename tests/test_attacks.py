"""Work that kernels did not do is told from work that they did, however it hides; honest code that looks odd passes.

attacks/ say in their first line which cause the check `kernels` must name. Their values are right: they earn their
points, and the technique's are lost. hostile/ attack whatever else there is, and say what the first check that they
fail must come to.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grader.judge import rules
from grader.judge.causes import Failure
from grader.model.cases import Case
from grader.plan import PlannedCase
from grader.record import Cause, Status
from tests.claims import MORE_WORK, claim, files, statuses
from tests.conftest import Grade

CHECKS = tuple(f"vector_add.{name}" for name in ("full_blocks", "tail", "fresh", "kernels"))


@pytest.mark.parametrize("path", files("attacks"), ids=lambda path: path.stem)
def test_work_outside_the_kernels_is_noticed(path: Path, briefly: Grade) -> None:
    status, kind = claim(path)
    record = briefly(path, *CHECKS)
    technique = next(check for check in record.checks if check.id == "vector_add.kernels")
    assert (technique.status, technique.cause and technique.cause.kind) == (status, kind), technique
    assert technique.points == 0


@pytest.mark.parametrize("path", files("hostile"), ids=lambda path: path.stem)
def test_what_attacks_the_grader_comes_to_what_it_says(path: Path, briefly: Grade) -> None:
    failed = [check for check in briefly(path, *CHECKS).checks if check.status != "pass"]
    assert failed
    assert (failed[0].status, failed[0].cause and failed[0].cause.kind) == claim(path), failed[0]


@pytest.mark.parametrize("path", files("controls"), ids=lambda path: path.stem)
def test_honest_code_that_looks_odd_passes(path: Path, briefly: Grade) -> None:
    record = briefly(path, *CHECKS, *(f"vector_add.{name}" for name in ("values", "slices", "launches", "traffic")))
    failed = [check for check in record.checks if check.status not in ("pass", "skipped_environment")]
    assert {check.id for check in failed} <= MORE_WORK.get(path.stem, set()), failed
    assert statuses(record, "vector_add") >= {"pass"}


@pytest.mark.parametrize(
    ("status", "verdict"), [("timeout", "timeout"), ("fail", "policy"), ("crash", "policy"), ("oom", "policy")]
)
def test_a_sealed_call_that_is_not_over_in_time_says_nothing_about_who_does_the_work(
    status: Status, verdict: str
) -> None:
    trial = SimpleNamespace(failure=Failure(status, Cause(status, "A title", "It took too long.")))
    bench: Any = SimpleNamespace(try_case=lambda *_, **__: trial)
    failure = rules._sealed(bench, PlannedCase(Case({"N": 7}), 1))
    assert failure is not None
    assert failure.status == verdict
