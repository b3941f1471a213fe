"""How far a learner is: from the file as it is now and the results that are kept of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.progress import File, Kept, PartProgress, Progress, bar, merged, progress_of_file, words
from grader.record.record import Record
from grader.record.statuses import Status
from tests.records import samples

STUB, MINE = "def p():\n    raise NotImplementedError\n", "def p():\n    return 1\n"
OTHER = "def p():\n    return 2\n"
SPEC = "5" * 64


def record_of(*statuses: Status, part: str = "p") -> Record:
    checks = tuple(
        samples.check(f"{part}.c{i}", f"Check {i}", status, 1.0 if status == "pass" else 0.0)
        for i, status in enumerate(statuses)
    )
    whole = samples.record(checks, ())
    return replace(whole, exercise=replace(whole.exercise, spec_sha256=SPEC))


def state(record: Record | None, text: str | None = MINE, checks: int = 2) -> Progress:
    kept = merged(None, record, MINE) if record is not None else None
    return progress_of_file(File(text, STUB), kept, [f"p.c{i}" for i in range(checks)], SPEC)


def course(kept: Kept | None, text: str) -> Progress:
    """The progress with three parts, of one check each."""
    return progress_of_file(File(text, THREE_STUBS), kept, ["f.c0", "g.c0", "h.c0"], SPEC)


THREE_STUBS = "".join(f"def {name}():\n    raise NotImplementedError\n\n\n" for name in "fgh")


def written(name: str, value: int = 1, text: str = THREE_STUBS) -> str:
    """The text with one part written."""
    return text.replace(f"def {name}():\n    raise NotImplementedError", f"def {name}():\n    return {value}")


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
        (record_of("pass", "pass"), OTHER, 2, "changed"),
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
    mine = replace(record, exercise=replace(record.exercise, spec_sha256=SPEC))
    found = progress_of_file(File(MINE, STUB), merged(None, mine, MINE), names, SPEC)
    assert (found.state, found.is_done) == ("begun", False)
    assert words(found) == f"1 of 1 points; nothing of f and g was judged ({samples.NO_DSL})"


def test_another_version_of_the_exercise_takes_the_state_back() -> None:
    record = record_of("pass", "pass")
    other = replace(record, exercise=replace(record.exercise, spec_sha256="6" * 64))
    assert state(other).state == "changed"


def test_what_is_open_is_named_and_what_was_left_out_is_counted() -> None:
    found = state(record_of("pass", "fail"), checks=3)
    assert [check.id for check in found.open] == ["p.c1"]
    assert words(found) == "1 of 2 points; 1 check was left out"


def test_the_bar_is_full_when_everything_is_done_and_never_before() -> None:
    done, nearly = Progress("done"), Progress("begun", earned=74.9, judged=75.0)
    assert bar([done, done], width=4) == "████ 2 of 2 done"
    assert bar([done, nearly], width=4, ascii_only=True) == "###- 1 of 2 done"
    assert bar([], width=4) == "░░░░ 0 of 0 done"


def test_parts_that_were_graded_one_by_one_make_a_whole() -> None:
    text = written("h", text=written("g", text=written("f")))
    kept = None
    for name in "fgh":
        kept = merged(kept, record_of("pass", part=name), text)
    assert course(kept, text).is_done


def test_an_edit_of_one_part_leaves_the_results_of_the_others() -> None:
    text = written("g", text=written("f"))
    kept = merged(merged(None, record_of("pass", part="f"), text), record_of("pass", part="g"), text)
    found = course(kept, text.replace("return 1", "return 3", 1))
    assert found.parts == (PartProgress("f", "changed"), PartProgress("g", "passed"), PartProgress("h", "not started"))
    assert words(found) == "1 of 1 points; changed since: f; not started: h"


@pytest.mark.parametrize(
    ("statuses", "following"),
    [
        ({"g": "fail"}, PartProgress("g", "open")),
        ({"f": "pass", "h": "fail"}, PartProgress("h", "open")),
        ({"f": "pass"}, PartProgress("g", "not started")),
        ({"f": "pass", "g": "not_implemented", "h": "not_implemented"}, PartProgress("g", "not started")),
        ({"f": "pass", "g": "skipped_environment", "h": "pass"}, None),
    ],
)
def test_what_fails_comes_next_and_then_what_is_not_written(
    statuses: dict[str, Status], following: PartProgress | None
) -> None:
    text, kept = THREE_STUBS, None
    for name, status in statuses.items():
        text = text if status == "not_implemented" else written(name, text=text)
    for name, status in statuses.items():
        kept = merged(kept, record_of(status, part=name), text)
    assert course(kept, text).next_part == following


def test_a_part_that_is_written_and_not_graded_comes_before_an_unwritten_one() -> None:
    text = written("h", text=written("f"))
    found = course(merged(None, record_of("pass", part="f"), text), text)
    assert found.next_part == PartProgress("h", "not graded")


def test_a_file_that_does_not_load_is_open_until_its_text_changes() -> None:
    text = written("f")
    kept = merged(
        merged(None, record_of("pass", part="f"), text), record_of("invalid_submission", part="f"), "import x"
    )
    assert course(kept, "import x").next_part == PartProgress("f", "open")
    assert course(kept, text).parts[0] == PartProgress("f", "passed")


def test_the_bar_counts_only_results_that_hold() -> None:
    text = written("g", text=written("f"))
    found = course(merged(None, record_of("pass", part="f"), text), text)
    assert bar([found], width=3) == "░░░ 0 of 1 done"
    assert bar([found], width=12) == "███░░░░░░░░░ 0 of 1 done"
