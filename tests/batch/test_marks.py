"""From records to marks: lateness, overrides, and what a folder of results keeps through a kill."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from grader.batch import result_key
from grader.batch.gradebook import Assignment, Override, Student
from grader.batch.late import LatePolicy, check_policy, parse_policy
from grader.batch.reading import gradebook, read, read_batch
from grader.batch.refused import invalid, lost
from grader.batch.regrading import changed, in_words
from grader.batch.result_key import Terms, content_key, environment, environment_of
from grader.batch.store import Batch, BatchStore, JournalLine, StoredRecord, Submission
from grader.batch.tables import OverrideRow, above_maximum, parse_overrides, parse_times
from grader.batch.work import Task
from grader.errors import UsageError
from grader.exercise.catalogue import resolve
from grader.record.record import Record, SubmissionInfo, from_json, to_json
from grader.record.statuses import UNJUDGED
from tests.records.samples import H200, failing, without_parts

ROOT = Path(__file__).resolve().parents[2]
ENTRY, _ = resolve(ROOT, "ex_15")
NOW = "2026-11-02T10:00:00Z"
INTERPRETER = failing().env

POLICY = """
due = 2026-11-02T23:59:00+01:00
grace_days = 2
percent_per_day = 10
cap_percent = 25

[exercises.ex_16]
due = 2026-11-16T23:59:00+01:00

[[extensions]]
student = "ada"
days = 3
reason = "ill"

[[extensions]]
student = "bob"
exercise = "ex_15"
until = 2026-11-30T12:00:00+01:00
"""


# -- lateness --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("student", "exercise", "submitted_at", "days"),
    [
        ("cy", "ex_15", "2026-11-02T22:59:00Z", 0),
        ("cy", "ex_15", "2026-11-04T22:59:00Z", 0),
        ("cy", "ex_15", "2026-11-04T22:59:01Z", 1),
        ("cy", "ex_15", "2026-11-05T22:59:00Z", 1),
        ("cy", "ex_15", "2026-11-12T00:00:00Z", 8),
        ("cy", "ex_16", "2026-11-12T00:00:00Z", 0),
        ("ada", "ex_15", "2026-11-07T22:59:00Z", 0),
        ("ada", "ex_16", "2026-11-22T22:00:00Z", 1),
        ("bob", "ex_15", "2026-11-30T11:00:00Z", 0),
        ("bob", "ex_16", "2026-11-30T11:00:00Z", 12),
        ("cy", "ex_15", "", 0),
    ],
)
def test_days_are_counted_from_the_student_s_own_deadline_and_grace(
    student: str, exercise: str, submitted_at: str, days: int
) -> None:
    assert parse_policy(POLICY).days_late(student, exercise, submitted_at) == days


def test_what_is_only_called_late_is_a_day_late_unless_that_day_is_free() -> None:
    assert LatePolicy().days_late("cy", "ex_15", "", said_late=True) == 1
    assert parse_policy(POLICY).days_late("cy", "ex_15", "", said_late=True) == 0
    assert parse_policy(POLICY.replace("grace_days = 2", "")).days_late("ada", "ex_15", "", said_late=True) == 0


def test_a_penalty_is_a_share_of_what_was_earned_up_to_the_cap() -> None:
    policy = parse_policy(POLICY)
    assert [policy.penalty(days, 60.0) for days in (0, 1, 2, 3, 30)] == [0.0, 6.0, 12.0, 15.0, 15.0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("due = ", "late policy must be TOML, got: "),
        ("due = 2026-11-02", "late policy: due must be a moment with an offset such as"),
        ("due = 2026-11-02T10:00:00", "late policy: due must be a moment with an offset such as"),
        ("grace = 2", "late policy: a key must be one of due, grace_days, "),
        ("percent_per_day = 101", "late policy: percent_per_day must be a number from 0 to 100, got 101"),
        ("cap_percent = true", "late policy: cap_percent must be a number from 0 to 100, got True"),
        ("exercises = 3", "late policy: exercises must be a table, got 3"),
        ("[exercises.ex_15]\n", "late policy: exercises.ex_15.due must be a moment with an offset"),
        ("[[extensions]]\ndays = 2", "late policy: extensions must have the field student"),
        ('[[extensions]]\nstudent = "ada"\nday = 2', "late policy: extensions must have only the fields"),
        ('[[extensions]]\nstudent = "ada"\ndays = 1e300', "late policy: days must be a number from -3660 to 3660"),
        ("extensions = 5", "late policy: extensions must be tables [[extensions]], got 5"),
        ("due = 0001-01-01T00:00:00+10:00", "late policy: a moment must lie in the years 1970 to 2999, got 0001-"),
        ("grace_days = " + "9" * 5000, "late policy must be TOML, got: "),
        ("grace_days = " + "[" * 5000 + "]" * 5000, "late policy must be TOML, got: "),
    ],
)
def test_a_policy_that_could_be_misread_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_policy(text)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[extensions]]\nstudent = "adda"\ndays = 2', "extension 1: student must be one of the class's, got 'adda'"),
        (
            '[[extensions]]\nstudent = "ada"\n[[extensions]]\nstudent = "ada"\nexercise = "ex_51"',
            "extension 2: exercise must be one of the class's, got 'ex_51'",
        ),
        (
            "[exercises.ex_51]\ndue = 2026-11-02T10:00:00Z",
            "exercises: exercise must be one of the class's, got 'ex_51'",
        ),
    ],
)
def test_more_time_for_nobody_or_for_no_exercise_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_policy(parse_policy(text), {"ada"}, PARTS)
    assert str(refused.value) == f"late policy, {said}"
    check_policy(parse_policy(text.replace("adda", "ada").replace("ex_51", "ex_15")), {"ada"}, PARTS)


# -- tables ----------------------------------------------------------------------------------------------------------

HEAD = "student,exercise,points,reason,author,time\n"
WHOLE = "student,exercise,part,points,comment,reason,author\n"
PARTS = {"ex_15": ("vector_add", "row_sum")}


def test_of_two_overrides_the_later_line_counts() -> None:
    text = HEAD + "ada,ex_15,70,typo,prof,2026-11-03T10:00:00+01:00\nada,ex_15,80.5,appeal,prof,\n"
    assert parse_overrides(text, {"ada"}, PARTS) == (OverrideRow("ada", "ex_15", Override(80.5, "appeal", "prof"), ""),)


def test_a_comment_and_points_for_a_part_stand_in_the_same_table() -> None:
    text = WHOLE + "ada,ex_15,vector_add,12,Well named.,tidy,prof\nada,ex_15,,,See me.,,ta\n"
    assert [row.override for row in parse_overrides(text, {"ada"}, PARTS)] == [
        Override(12.0, "tidy", "prof", "vector_add", "Well named."),
        Override(None, "", "ta", "", "See me."),
    ]


def test_points_above_the_maximum_are_said() -> None:
    text = WHOLE + "ada,ex_15,vector_add,16,,bonus,prof\nbob,ex_15,,100,,appeal,prof\n"
    rows = parse_overrides(text, {"ada", "bob"}, PARTS)
    most = {("ex_15", ""): 100.0, ("ex_15", "vector_add"): 15.0}
    assert list(above_maximum(rows, most)) == [
        "the override for ada, ex_15 vector_add, gives 16 points; it is worth 15"
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "student,points\n",
            "overrides: the columns must be student, exercise, points, reason, author, time, part, comment, got stu",
        ),
        (HEAD + "eve,ex_15,1,r,a,\n", "overrides, line 2: student must be one of the class's, got 'eve'"),
        (HEAD + "ada,ex_51,1,r,a,\n", "overrides, line 2: exercise must be one of the class's, got 'ex_51'"),
        (HEAD + "ada,ex_15,-1,r,a,\n", "overrides, line 2: points must be a number of at least 0, got '-1'"),
        (HEAD + "ada,ex_15,nan,r,a,\n", "overrides, line 2: points must be a number of at least 0, got 'nan'"),
        (WHOLE + "ada,ex_15,gemm,1,,r,a\n", "overrides, line 2: part must be one of vector_add, row_sum, got 'gemm'"),
        (WHOLE + "ada,ex_15,,,Well done.,,\n", "overrides, line 2: author must be given, got nothing"),
        (WHOLE + "ada,ex_15,,,,r,a\n", "overrides, line 2: points must be a number of at least 0, got ''"),
        (
            WHOLE + "ada,ex_15,,9,,r,a\nada,ex_15,row_sum,9,,r,a\n",
            "overrides: points must be given for an exercise or for its parts, got both for ada, ex_15",
        ),
        (HEAD + "ada,ex_15,1,,a,\n", "overrides, line 2: reason must be given, got nothing"),
        (HEAD + "\nada,ex_15,1,r,a,noon\n", "overrides, line 3: time must be a moment such as"),
        (HEAD.replace("\n", "\r") + "ada,ex_15,1,r,,\r", "overrides, line 2: author must be given, got nothing"),
        (HEAD + "ada,ex_15,1," + "r" * 200_000, "overrides, line 2: a table must be CSV, got: field larger than"),
        (HEAD + "ada,ex_15,1,r,a,9999-12-31T23:59:59-12:00\n", "overrides, line 2: time: a moment must lie in the ye"),
    ],
)
def test_an_override_without_a_reason_or_for_nobody_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_overrides(text, {"ada"}, PARTS)
    assert str(refused.value).startswith(said)


def test_times_are_kept_in_utc() -> None:
    text = "student,exercise,submitted_at\nada,ex_15,2026-11-02T09:15:00+01:00\n"
    assert parse_times(text, {"ada"}, PARTS) == {"ada/ex_15": "2026-11-02T08:15:00Z"}
    with pytest.raises(UsageError, match="must have an offset, such as Z"):
        parse_times(text.replace("+01:00", ""), {"ada"}, PARTS)


@pytest.mark.parametrize(("own", "wrong"), [("ada", "student"), ("ex_15", "exercise")])
def test_a_time_for_nobody_or_for_no_exercise_is_refused(own: str, wrong: str) -> None:
    text = "student,exercise,submitted_at\nada,ex_15,2026-11-02T09:15:00Z\n".replace(own, "ex_51")
    with pytest.raises(UsageError, match=f"^times, line 2: {wrong} must be one of the class's, got 'ex_51'$"):
        parse_times(text, {"ada"}, PARTS)


# -- marks -----------------------------------------------------------------------------------------------------------


def graded(student: str, score: float) -> Record:
    record = failing()
    exercise = replace(record.exercise, id="ex_15")
    submission = SubmissionInfo("ex_15.py", "0" * 64, student)
    return replace(record, exercise=exercise, submission=submission, verdict="fail", score=score, judged_score=75.0)


def found(student: str, score: float) -> StoredRecord:
    return StoredRecord(student, "ex_15", f"records/{student}/ex_15.json", graded(student, score))


BATCH = Batch(
    assignments=(Assignment("ex_15", "Triton basics", 100.0),),
    students=tuple(map(Student, ("ada", "bob", "cy", "dee"))),
    submissions=(
        Submission("ada", "ex_15", "ex_15.py", "k1", submitted_at="2026-11-12T00:00:00Z"),
        Submission("bob", "ex_15", "ex_15.py", "k2", submitted_at="2026-11-12T00:00:00Z"),
        Submission("cy", "ex_15", "ex_15.py", "k3"),
    ),
    policy=parse_policy(POLICY),
    overrides=(OverrideRow("bob", "ex_15", Override(90.0, "appeal", "prof"), NOW),),
)


def test_a_mark_has_what_was_earned_what_lateness_costs_and_who_decided_otherwise() -> None:
    book = gradebook(BATCH, [found("ada", 60.0), found("bob", 60.0)])
    ada, bob = book.mark("ada", "ex_15"), book.mark("bob", "ex_15")
    assert (ada.status, ada.earned, ada.judged, ada.days_late, ada.penalty, ada.points) == ("fail", 60, 75, 5, 15, 45)
    assert ada.record == "records/ada/ex_15.json"
    assert (bob.earned, bob.points) == (60.0, 90.0)


def test_points_by_hand_for_a_part_replace_those_of_the_part_and_lateness_costs_as_before() -> None:
    row = OverrideRow("ada", "ex_15", Override(4.0, "tidy", "prof", "row_softmax", "Clear code."), NOW)
    record = graded("ada", failing().score)
    earned, judged = (
        sum(points for check in record.checks if check.part == "row_softmax" for points in [getattr(check, name)])
        for name in ("points", "max_points")
    )
    (mark, *_) = gradebook(replace(BATCH, overrides=(row,)), [replace(found("ada", 0), record=record)]).marks
    assert (mark.earned, mark.by_hand) == (record.score, 4.0 - earned)
    assert mark.points == pytest.approx((record.score + 4.0 - earned) * 0.75, abs=0.01)
    assert mark.judged == sum(
        check.max_points for check in record.checks if check.part == "row_softmax" or check.status not in UNJUDGED
    )
    assert judged


def test_a_mark_names_the_parts_that_were_left_out() -> None:
    whole = replace(found("ada", 60.0), record=replace(graded("ada", 60.0), checks=without_parts().checks))
    assert gradebook(BATCH, [whole]).mark("ada", "ex_15").parts_left_out == ("f", "g")
    assert gradebook(BATCH, [found("ada", 60.0)]).mark("ada", "ex_15").parts_left_out == ()


def test_nothing_handed_in_is_missing_and_what_waits_to_be_graded_costs_nothing() -> None:
    book = gradebook(BATCH, [])
    assert (book.mark("dee", "ex_15").status, book.mark("dee", "ex_15").points) == ("missing", 0.0)
    assert (book.mark("cy", "ex_15").status, book.mark("cy", "ex_15").judged) == ("grader_error", 0.0)


def test_a_folder_gives_the_same_gradebook_and_refuses_another_s_record(tmp_path: Path) -> None:
    store = BatchStore(tmp_path)
    store.write_batch(BATCH)
    path = store.record_path("ada", "ex_15")
    path.parent.mkdir(parents=True)
    path.write_text(to_json(graded("ada", 60.0)))
    assert read(tmp_path) == gradebook(BATCH, [found("ada", 60.0)])
    path.write_text(to_json(graded("bob", 60.0)))
    assert read(tmp_path).mark("ada", "ex_15").status == "grader_error"


def test_what_could_not_be_read_scores_nothing_and_what_was_lost_costs_nothing() -> None:
    record = invalid(ENTRY, "an archive must be readable, got none", NOW, INTERPRETER)
    assert (record.verdict, record.score, record.judged_score, record.max_score) == ("invalid_submission", 0, 75, 100)
    assert from_json(to_json(record)) == record
    task = Task("k1", ENTRY.name, "x = 1", "0x5f", Terms(), NOW, parts=("vector_add",))
    record = lost(ENTRY, task, "its worker was lost 2 times", H200)
    assert (record.max_score, [part.name for part in record.parts]) == (20, ["vector_add"])
    assert (record.verdict, record.judged_score) == ("grader_error", 0)
    assert from_json(to_json(record)) == record


# -- marks that change -----------------------------------------------------------------------------------------------


def test_a_run_tells_the_marks_that_it_changed_old_and_new_the_ones_that_fell_first() -> None:
    before = gradebook(BATCH, [found("ada", 60.0), found("bob", 60.0)])
    after = gradebook(BATCH, [found("ada", 40.0), found("bob", 20.0), found("cy", 75.0)])
    # Bob has an override, and Cy had no result before.
    assert list(in_words(changed(before, after), set())) == [
        "1 mark changed, 1 of them fell",
        "  fell  ada, ex_15: failed, 45 of 100 points, 75 judged -> failed, 30 of 100 points, 75 judged",
    ]
    rising = [(other, one) for one, other in changed(before, after)]
    head, line = in_words(rising, {("ada", "ex_15")})
    assert head == "1 mark changed, none fell"
    assert line.endswith("45 of 100 points, 75 judged  (another file)")
    assert list(in_words(changed(before, before), set())) == []


def test_who_hands_something_in_later_or_takes_it_back_has_a_changed_mark() -> None:
    before = gradebook(BATCH, [found("ada", 60.0)])
    late = replace(BATCH, submissions=(*BATCH.submissions, Submission("dee", "ex_15", "ex_15.py", "k4")))
    assert list(in_words(changed(before, gradebook(late, [found("ada", 60.0), found("dee", 60.0)])), set())) == [
        "1 mark changed, none fell",
        "  dee, ex_15: missing -> failed, 60 of 100 points, 75 judged",
    ]
    # What waits for its first result has not changed yet.
    assert list(in_words(changed(before, gradebook(late, [found("ada", 60.0)])), set())) == []
    gone = replace(BATCH, students=BATCH.students[1:], submissions=BATCH.submissions[1:])
    assert list(in_words(changed(before, gradebook(gone, [])), set())) == [
        "1 mark changed, 1 of them fell",
        "  fell  ada, ex_15: failed, 45 of 100 points, 75 judged -> missing",
    ]


# -- what is kept ----------------------------------------------------------------------------------------------------

LINE = JournalLine(NOW, "ada", "ex_15", "k1", "pass", 75.0, 75.0, 5.5)


def test_a_journal_is_read_past_half_a_line_and_goes_on_after_it(tmp_path: Path) -> None:
    store = BatchStore(tmp_path)
    assert list(store.journal()) == []
    store.note(LINE)
    with (tmp_path / "journal.jsonl").open("ab") as file:
        file.write(b'{"time": "2026-11-02T10:0\xc3')
    store.note(replace(LINE, student="bob"))
    assert [line.student for line in store.journal()] == ["ada", "bob"]


def owned(key: str, sha256: str = "") -> Submission:
    """A submission whose result has that key; its text is the one that `failing` is of, or another."""
    record = failing()
    return Submission("ada", record.exercise.id, "mine.py", key, sha256 or record.submission.sha256)


def test_half_a_result_is_none_and_no_half_file_stays(tmp_path: Path) -> None:
    store = BatchStore(tmp_path)
    with store.exclusive():
        store.store_result("k1", failing())
        assert store.result(owned("k1")) == failing()
    (tmp_path / "results" / "k2.json").write_text(to_json(failing())[:500])
    (tmp_path / "results" / ".grade-left").write_text("")
    with store.exclusive():
        assert store.result(owned("k2")) is None
        assert store.result(owned("k3")) is None
        assert not list(tmp_path.rglob(".grade-*"))
        store.forget_results()
        assert store.result(owned("k1")) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock"]


def test_a_result_of_another_text_or_exercise_is_none(tmp_path: Path) -> None:
    store = BatchStore(tmp_path)
    store.store_result("k", failing())
    assert store.result(owned("k", sha256="0" * 64)) is None
    assert store.result(replace(owned("k"), exercise="ex_99")) is None


def test_results_and_the_hidden_seed_are_the_instructor_s_alone(tmp_path: Path) -> None:
    store = BatchStore(tmp_path)
    store.store_result("k1", failing())
    seed = store.hidden_seed()
    assert 0 <= seed < 2**64
    assert store.hidden_seed() == seed
    assert stat.S_IMODE((tmp_path / "secret.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "results").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "results" / "k1.json").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "place", [".lock", "journal.jsonl", "results", "records", "records/eve", "cards/eve/ex_15.html"]
)
def test_nothing_is_written_or_removed_through_a_link_that_somebody_left_there(tmp_path: Path, place: str) -> None:
    away, out = tmp_path / "away", tmp_path / "out"
    (away / "eve").mkdir(parents=True)
    for name in ("ex_15.json", "eve/ex_15.json"):
        (away / name).write_text("precious")
    (out / place).parent.mkdir(parents=True)
    (out / place).symlink_to(away / "ex_15.json" if "." in place else away)
    with pytest.raises(UsageError, match=r"out must hold no links, got .*"), BatchStore(out).exclusive():
        raise AssertionError(place)
    assert {path.read_text() for path in away.rglob("*.json")} == {"precious"}


def test_a_hidden_seed_of_somebody_else_s_is_refused_and_results_that_were_open_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = BatchStore(tmp_path)
    (tmp_path / "results").mkdir(mode=0o755)
    store.store_result("k", failing())
    assert stat.S_IMODE((tmp_path / "results").stat().st_mode) == 0o700
    store.hidden_seed()
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(UsageError, match="must be your own file"):
        store.hidden_seed()


def test_the_hidden_seed_of_an_older_grader_s_folder_goes_on(tmp_path: Path) -> None:
    stored = {"seed": "0x5f", "created": NOW, "published": False, "schema": "grade/secret/v1"}
    (tmp_path / "secret.json").write_text(json.dumps(stored))
    assert BatchStore(tmp_path).hidden_seed() == 0x5F


def test_two_runs_do_not_write_to_one_folder(tmp_path: Path) -> None:
    said = "one `grade batch` at a time may write to"
    with BatchStore(tmp_path).exclusive(), pytest.raises(UsageError, match=said), BatchStore(tmp_path).exclusive():
        pass


def test_a_key_changes_with_everything_that_a_result_depends_on() -> None:
    terms = Terms("0.1.0+abc", {"ex_15_triton_basics": "1", "ex_16_triton_gemm": "2"}, "{}")
    same = ("x = 1", "ex_15_triton_basics", terms, 7)
    others = [
        ("x = 2", *same[1:]),
        (same[0], "ex_16_triton_gemm", *same[2:]),
        (*same[:2], replace(terms, grader="0.1.1+abc"), 7),
        (*same[:2], replace(terms, environment='{"gpu": "H200"}'), 7),
        (*same[:2], replace(terms, exercises={"ex_15_triton_basics": "3"}), 7),
        (*same[:3], 8),
        (*same, "compiled"),
    ]
    assert content_key(*same) == content_key(*same)
    assert len({content_key(*same), *(content_key(*other) for other in others)}) == len(others) + 1


@pytest.mark.usefixtures("without_cutlass")
def test_a_result_is_not_used_again_once_a_missing_package_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = environment(gpu=False)
    assert json.loads(lacking)["lacks"] == {"ex_17_cutlass_gemm": ["cuda", "cutlass"]}
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: name)
    whole = environment(gpu=False)
    assert json.loads(whole) == {**json.loads(lacking), "lacks": {}}
    assert environment_of(lacking) == environment_of(whole)
    exercises = {"ex_15_triton_basics": "1", "ex_17_cutlass_gemm": "2"}

    def keys(name: str) -> set[str]:
        return {content_key("x = 1", name, Terms("g", exercises, one), 7) for one in (lacking, whole)}

    # A package of one exercise decides nothing of another.
    assert (len(keys("ex_17_cutlass_gemm")), len(keys("ex_15_triton_basics"))) == (2, 1)


def test_the_course_that_a_wheel_carries_is_no_code_of_the_grader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "judge").mkdir()
    (tmp_path / "judge" / "rule.py").write_text("x = 1\n")
    monkeypatch.setattr(result_key, "_PACKAGE", tmp_path)
    before = result_key.grader_hash.__wrapped__()
    for name in ("course/reference/ex_1/wrong/broken.py", "cli/main.py", "__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("def f(:\n")
        assert result_key.grader_hash.__wrapped__() == before
    (tmp_path / "judge" / "rule.py").write_text("x = 2\n")
    assert result_key.grader_hash.__wrapped__() != before


def test_a_comment_or_a_docstring_of_the_grader_changes_no_key() -> None:
    code = 'def f(x):\n    """Return x."""\n    return x  # as it is\n'
    assert (
        result_key._code(code)
        == result_key._code("def f(x):\n\n    return x\n")
        != result_key._code("def f(x):\n    return -x\n")
    )


def test_batch_json_survives_a_round_trip(tmp_path: Path) -> None:
    store = BatchStore(tmp_path)
    store.write_batch(BATCH)
    assert read_batch(tmp_path) == BATCH
    assert json.loads((tmp_path / "batch.json").read_text())["schema"] == "grade/batch/v1"
    assert os.listdir(tmp_path) == ["batch.json"]
