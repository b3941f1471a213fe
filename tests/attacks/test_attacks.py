"""Work that kernels did not do is told from work that they did, however it hides; honest code that looks odd passes.

attacks/ say in their first line what the check `kernels` must come to; where the answer itself is wrong, the first
check. They earn no point for values either. hostile/ attack whatever else there is, and say what the first check that
they fail must come to.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.claims import MORE_WORK, claim, files, statuses
from tests.conftest import Grade

# Their kernels are right, and used for large inputs.
HONEST_AT_SOME_SIZES = {"falls_back_for_small_inputs"}
CHECKS = tuple(f"vector_add.{name}" for name in ("full_blocks", "tail", "fresh", "kernels"))


@pytest.mark.parametrize("path", files("attacks"), ids=lambda path: path.stem)
def test_work_outside_the_kernels_is_noticed(path: Path, briefly: Grade) -> None:
    status, kind = claim(path)
    # Who did the work is seen in the calls of any check; `fresh` starts processes of its own.
    record = briefly(path, *(name for name in CHECKS if name != "vector_add.fresh"))
    # Who does the work of a wrong answer is not asked.
    technique = next(check for check in record.checks if check.id == "vector_add.kernels")
    told = technique if technique.status != "pass" else record.checks[0]
    assert (told.status, told.cause.kind if told.cause else told.status) == (status, kind), told
    if path.stem not in HONEST_AT_SOME_SIZES:
        assert not any(check.points for check in record.checks if check is not technique), record.checks


@pytest.mark.parametrize("path", files("unrecordable"), ids=lambda path: path.stem)
def test_what_cannot_be_recorded_is_open_and_the_card_says_why_and_where(path: Path, briefly: Grade) -> None:
    record = briefly(path, *CHECKS)
    assert {check.status for check in record.checks} == {"inconclusive"}
    assert record.judged_score == 0
    assert all(re.search(r"the values are right.*\(line \d+\)", check.reason) for check in record.checks[:3])


@pytest.mark.parametrize("path", files("hostile"), ids=lambda path: path.stem)
def test_what_attacks_the_grader_comes_to_what_it_says(path: Path, briefly: Grade, at_once: Grade) -> None:
    graded = at_once if claim(path)[0] == "timeout" else briefly
    failed = [check for check in graded(path, *CHECKS).checks if check.status != "pass"]
    assert failed
    assert (failed[0].status, failed[0].cause and failed[0].cause.kind) == claim(path), failed[0]


@pytest.mark.parametrize("path", files("controls"), ids=lambda path: path.stem)
def test_honest_code_that_looks_odd_passes(path: Path, briefly: Grade) -> None:
    record = briefly(path, *CHECKS, *(f"vector_add.{name}" for name in ("values", "slices", "launches", "traffic")))
    failed = [check for check in record.checks if check.status not in ("pass", "skipped_environment")]
    assert {check.id for check in failed} <= MORE_WORK.get(path.stem, set()), failed
    assert statuses(record, "vector_add") >= {"pass"}
