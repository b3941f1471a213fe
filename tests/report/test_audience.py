"""Test that a student's files hold their own work, and no case, value, token or seed of a secret plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Literal

import pytest

from grader.diagnosis.ranking import explained
from grader.exercise.cases import Case
from grader.export import junit
from grader.export.formats import Format, formats
from grader.judge.access_findings import cause_of
from grader.judge.failure import Failure
from grader.judge.unanswered import missing_function, why_not_finished
from grader.protocol.answers import Frame, Raised
from grader.protocol.observations import GuardFinding
from grader.record.causes import Cause, Suspect
from grader.record.checks import PartInfo
from grader.record.json_numbers import Number
from grader.record.record import PrintedOutput, Record, to_json
from grader.report.audience import for_student
from grader.report.page import html
from grader.report.status import LOOKS
from grader.sandbox.outcome import Died, TimedOut
from grader.speed.verify import no_launch_failure
from tests.records import compiled, samples

PLACE = {"CLASSROOM": "gpu", "ASSIGNMENT": "ex-15", "SUBMISSION_TAG": "submit/1", "COMMIT_URL": "c", "RELEASE_URL": "r"}


def texts(format: Format, record: Record) -> str:
    """Return all that an export format writes of one record."""
    files = "".join(format.files(record, PLACE).values()) if format.files is not None else ""
    return files + (format.render(record) if format.render is not None else "")


RENDERERS: dict[str, Callable[[Record], str]] = {
    **{
        name: partial(texts, one) for name, one in formats().items() if not one.marks_only and (one.files or one.render)
    },
    "strict junit": junit.strict,
    "page": html.render,
    "record": to_json,
}
SEED = "0x5ec4e7"


def secret() -> Record:
    """Return a record of an instructor's seed, with the seed and its cases in every place that a grading fills."""
    record = samples.failing()
    token = f"ex_15:row_softmax.tail:M=24,N=1025:{SEED}"
    checks = [
        dataclasses.replace(
            check,
            evidence={"seed": SEED, "cases": "M=24"},
            counterexample=dataclasses.replace(check.counterexample, replay=token) if check.counterexample else None,
            work=samples.on_paper().checks[1].work,
        )
        for check in record.checks
    ]
    return dataclasses.replace(
        record,
        seed=SEED,
        checks=tuple(checks),
        parts=(*record.parts, compiled.gemm(), PartInfo("p", "P", coverage=samples.hostile_coverage(f"M=24 {SEED}"))),
        printed=PrintedOutput(f"input of M=24: {SEED}", 30),
        command=f"grade ex_15 --submission /srv/course/ada/ex_15.py --seed {SEED}",
        submission=dataclasses.replace(record.submission, path="/srv/course/ada/ex_15_triton_basics.py"),
    )


@pytest.mark.parametrize("format", RENDERERS)
def test_nothing_of_a_secret_plan_is_in_a_student_s_file(format: str) -> None:
    text = RENDERERS[format](for_student(secret(), secret=True)).replace("1.75rem", "")
    for told in (
        SEED,
        "M=24",
        "N=1025",
        "N=10000",
        "grade replay",
        "NameError",
        "/srv/course",
        "1.75",
        "M=2048",
    ):
        assert told not in text, told


@pytest.mark.parametrize("format", RENDERERS)
def test_the_secret_is_in_there_to_be_found(format: str) -> None:
    assert "M=24" in RENDERERS[format](secret()) or format == "autolab"


def test_a_student_still_learns_which_check_failed_where_and_what_to_look_at() -> None:
    check = for_student(secret(), secret=True).checks[6]
    assert check.cause is not None
    assert check.cause.title == "wrong only in the last, partly filled tile"
    assert check.reason == "The output is wrong only at the end. The cases of this grading are kept secret."
    assert check.cause.help.startswith("Which lanes of the last program have no data?")


def test_a_title_with_a_number_gives_way_to_the_kind_and_suspects_stay_secret() -> None:
    record = secret()
    cause = record.checks[6].cause
    assert cause is not None
    suspects = (Suspect("remainder_skipped", "Looks as if the last 17 are left out", "For M=24.", "How many?"),)
    told = dataclasses.replace(cause, title=suspects[0].title, suspects=suspects)
    checks = tuple(dataclasses.replace(one, cause=told) if one.cause is cause else one for one in record.checks)
    shown = for_student(dataclasses.replace(record, checks=checks), secret=True).checks[6].cause
    assert shown is not None
    assert (shown.title, shown.suspects) == ("Looks like: remainder skipped", ())


@pytest.mark.parametrize("format", RENDERERS)
def test_no_name_no_figure_and_no_time_carries_a_secret_case_out(format: str) -> None:
    record, message = secret(), "rows_twentyfour"
    outside = GuardFinding("load", message, 3, message, (2,), message, (5,), (24,), 30, 24, 3, 8, False, grid=(7,))
    race = dataclasses.replace(outside, kind="race", access="load", other_access="store", other_program=(1,))
    causes = [told for told in map(cause_of, ([outside], [race])) if told is not None]
    suspects = (Suspect("missing_mask", f"A load outside {message}: looks like a mask", "", causes[0].help),)
    causes += [explained(causes[0], suspects), dataclasses.replace(causes[0], help="The 7 programs. Only 1025 fit?")]
    figures: dict[str, Number] = {"cases": 9.0, "worst_error_over_allowed": 0.241025, "moved": 1.241025}
    checks = tuple(
        dataclasses.replace(record.checks[6], id=f"{record.checks[6].id}{place}", cause=told, metrics=figures)
        for place, told in enumerate(causes)
    )
    passed = dataclasses.replace(record.checks[0], metrics=figures, duration_s=0.241025)
    whole = dataclasses.replace(record, checks=(passed, *checks), duration_s=7.241025)
    shown = for_student(whole, secret=True)
    assert (shown.duration_s, shown.timeline) == (0.0, ())
    text = RENDERERS[format](shown)
    for told in (message, "241025", "0.241", "of the 7", "1025"):
        assert told not in text, told
    assert [one.metrics for one in shown.checks] == [{"cases": 9.0}] * 5
    assert [one.cause.title for one in shown.checks[1:] if one.cause] == [
        "Out of bounds",
        "Race",
        "Out of bounds: looks like: missing mask",
        "Out of bounds",
    ]


@pytest.mark.parametrize(
    ("failure", "title", "advice"),
    [
        (no_launch_failure(Case({"N": 24})), "No kernel was launched", "What is timed must be what was judged."),
        (missing_function("gemm", ()), "The function is missing", "Keep the stub's function names"),
        (why_not_finished(TimedOut(5.0), ""), "No answer in time", "Look for a loop that never reaches its bound"),
        (why_not_finished(Died("ended"), ""), "The process ended", "Nothing that it printed counts as an answer"),
    ],
)
def test_a_title_and_advice_of_the_grader_s_own_stay(failure: Failure, title: str, advice: str) -> None:
    shown = shown_of(failure)
    assert shown.title == title
    assert shown.help.startswith(advice)


@pytest.mark.parametrize("kind", ["NotImplementedError", "NameError"])
def test_the_words_of_an_exception_are_the_submission_s_and_go(kind: str) -> None:
    verdict: Literal["not_implemented", "crash"] = "not_implemented" if kind == "NotImplementedError" else "crash"
    message = "name 'rows_twentyfour' is not defined"
    shown = shown_of(why_not_finished(Raised("raised", verdict, kind, message, (Frame(3, "f", "x"),)), ""))
    assert "twentyfour" not in f"{shown}"
    assert shown.title == LOOKS[verdict].word
    assert shown.help == ""


def test_a_suspect_of_a_call_that_stopped_may_quote_names_and_goes() -> None:
    failure = why_not_finished(TimedOut(5.0), "")
    suspect = Suspect("missing_mask", "A load outside rows_twentyfour: looks like a mask", "", "See rows_twentyfour.")
    shown = shown_of(dataclasses.replace(failure, cause=explained(failure.cause, (suspect,))))
    assert "twentyfour" not in f"{shown}"
    assert shown.title == "Looks like: missing mask"
    died = why_not_finished(Died("ended"), "")
    sure = Suspect("process_died", "The process ended", "", "", confirmed=True)
    assert shown_of(dataclasses.replace(died, cause=explained(died.cause, (sure,)))).title == "Process died"


def test_names_of_arguments_do_not_leave_in_advice() -> None:
    cause = Cause("value_read", "Launch code reads the values of a tensor", "", "Write tl.load(rows_twentyfour_ptr).")
    shown = shown_of(Failure("policy", cause))
    assert (shown.title, shown.help) == (cause.title, "")


def test_a_zero_tells_no_size() -> None:
    cause = Cause("wrong_values", "All wrong", "", "Subtract 0 instead of it. Start at 0.5. Take 7 of them.")
    assert shown_of(Failure("fail", cause)).help == "Subtract 0 instead of it."


def shown_of(failure: Failure) -> Cause:
    """Return the cause of a failure as its student sees it of a secret plan."""
    record = secret()
    check = dataclasses.replace(record.checks[6], status=failure.status, cause=failure.cause)
    shown = for_student(dataclasses.replace(record, checks=(check,)), secret=True).checks[0].cause
    assert shown is not None
    return shown


def test_points_and_statuses_are_the_same_for_everybody() -> None:
    shown, whole = for_student(secret(), secret=True), secret()
    assert [(c.status, c.points) for c in shown.checks] == [(c.status, c.points) for c in whole.checks]
    assert (shown.score, shown.judged_score, shown.verdict) == (whole.score, whole.judged_score, whole.verdict)


def test_of_a_public_plan_only_the_instructor_s_paths_go() -> None:
    shown = for_student(secret(), secret=False)
    assert shown.submission.path == "ex_15_triton_basics.py"
    assert shown.command == "grade ex_15"
    assert shown.checks == secret().checks


def test_what_is_hidden_already_stays_as_it_is() -> None:
    once = for_student(secret(), secret=True)
    assert for_student(once, secret=True) == once


def test_why_a_file_cannot_be_loaded_is_no_secret() -> None:
    checks = [one for one in secret().checks if one.cause]
    unloadable = tuple(dataclasses.replace(one, status="invalid_submission") for one in checks)
    assert for_student(dataclasses.replace(secret(), checks=unloadable), secret=True).checks == unloadable
