"""How far a learner is: from the file as it is now and the record that is kept of it."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from grader.progress import File, Progress, bar, progress_of_file, words
from grader.record import Record, Status
from tests.records import samples

PATH, STUB, MINE = "/learner/ex.py", "raise NotImplementedError\n", "x = 1\n"
SPEC = "5" * 64


def record_of(*statuses: Status, text: str = MINE, path: str = PATH) -> Record:
    checks = tuple(
        samples.check(f"p.c{i}", f"Check {i}", status, 1.0 if status == "pass" else 0.0)
        for i, status in enumerate(statuses)
    )
    whole = samples.record(checks, ())
    submission = replace(whole.submission, path=path, sha256=hashlib.sha256(text.encode()).hexdigest())
    return replace(whole, submission=submission, exercise=replace(whole.exercise, spec_sha256=SPEC))


def state(record: Record | None, text: str | None = MINE, checks: int = 2) -> Progress:
    return progress_of_file(File(PATH, text, STUB), record, [f"p.c{i}" for i in range(checks)], SPEC)


def test_all_that_could_be_judged_here_passed() -> None:
    found = state(record_of("pass", "skipped_environment"))
    assert found.is_done
    assert words(found) == "done: 1 of 1 points, 1 more cannot be judged here"


@pytest.mark.parametrize(
    ("record", "text", "checks", "expected"),
    [
        (record_of("pass", "pass"), None, 2, "no file"),
        (record_of("pass", "pass"), STUB, 2, "not started"),
        (None, MINE, 2, "not graded"),
        (record_of("pass", "pass", path="/elsewhere.py"), MINE, 2, "not graded"),
        (record_of("pass", "pass"), "x = 2\n", 2, "changed"),
        (record_of("pass", "fail"), MINE, 2, "begun"),
        (record_of("pass", "pass"), MINE, 3, "begun"),
        (record_of("skipped_environment", "skipped_environment"), MINE, 2, "begun"),
        (record_of("pass", "grader_error"), MINE, 2, "begun"),
        (record_of("pass", "inconclusive"), MINE, 2, "done"),
    ],
)
def test_a_state_follows_from_the_file_and_the_record(
    record: Record | None, text: str | None, checks: int, expected: str
) -> None:
    assert state(record, text, checks).state == expected


def test_an_exercise_is_not_done_while_a_whole_part_was_not_judged() -> None:
    record, names = samples.without_parts(), ("f.a", "f.b", "g.a", "g.b", "h.values", "h.speed")
    sha256 = hashlib.sha256(MINE.encode()).hexdigest()
    mine = replace(
        record,
        submission=replace(record.submission, path=PATH, sha256=sha256),
        exercise=replace(record.exercise, spec_sha256=SPEC),
    )
    found = progress_of_file(File(PATH, MINE, STUB), mine, names, SPEC)
    assert (found.state, found.is_done) == ("begun", False)
    assert words(found) == f"1 of 1 points; nothing of f and g was judged ({samples.NO_DSL})"


def test_another_version_of_the_exercise_takes_the_state_back() -> None:
    record = record_of("pass", "pass")
    other = replace(record, exercise=replace(record.exercise, spec_sha256="6" * 64))
    assert state(other).state == "changed"


def test_what_is_open_is_named_and_what_was_left_out_is_counted() -> None:
    found = state(record_of("pass", "fail"), checks=3)
    assert [check.id for check in found.open] == ["p.c1"]
    assert words(found) == "1 of 2 points; 1 checks were left out"


def test_the_bar_is_full_when_everything_is_done_and_never_before() -> None:
    done, nearly = Progress("done"), Progress("begun", earned=74.9, judged=75.0)
    assert bar([done, done], width=4) == "████ 2 of 2 done"
    assert bar([done, nearly], width=4, ascii_only=True) == "###- 1 of 2 done"
    assert bar([], width=4) == "░░░░ 0 of 0 done"
