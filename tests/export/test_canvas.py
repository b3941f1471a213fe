"""Canvas' gradebook CSV: the importer's rules, one by one."""

from __future__ import annotations

import csv
import dataclasses
import io
import re

import pytest

from grader.batch.gradebook import Assignment, Gradebook, Mark, Student
from grader.batch.roster import parse_roster
from grader.errors import UsageError
from grader.export import canvas
from grader.export.canvas import MarkRules
from tests.records.classes import ADA, ASSIGNMENT, book

PLAIN = MarkRules({})
EXPORTED = (
    "\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Essay (11),"
    "ex_15 Triton basics (90412),ex_151 (7),Current Score\r\n"
    ",,,,,,Manual Posting,,\r\n"
    "    Points Possible,,,,,10,41,1,(read only)\r\n"
    '"Lovelace, Ada",5501,s-77,ada,GPU-A,9,12.5,,80\r\n'
    '"Hopper, Grace",5502,,grace,GPU-A,8,30,,70\r\n'
    "=evil,5503,,,GPU-A,7,,,60\r\n"
    "Stranger,77,,nobody,GPU-A,7,1,,60\r\n"
)


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def titled(title: str) -> Gradebook:
    return dataclasses.replace(book(), assignments=(dataclasses.replace(ASSIGNMENT, title=title),))


def of_one(mark: Mark, student: Student = ADA) -> Gradebook:
    return Gradebook((ASSIGNMENT,), (student,), (mark,))


def importer_faults(text: str) -> list[str]:
    """Return the cells that the importer would refuse, drop or misread."""
    rows = rows_of(text)
    header = rows[0]
    section = next((place for place, name in enumerate(header) if "Section" in name), -1)
    faults = [] if header[:2] == ["Student", "ID"] and len(header) >= 4 and section >= 2 else ["header"]
    faults += [name for name in header if re.search("(Current|Final) (Score|Points|Grade)|Override", name)]
    faults += ["repeated"] if len(set(header)) != len(header) else []
    faults += [f"{len(row)} cells" for row in rows if len(row) != len(header)]
    faults += ["blank score" for row in rows[2:] for cell in row[section + 1 :] if not cell.strip()]
    faults += [cell for row in rows[2:] for cell in row[section + 1 :] if not re.fullmatch(r"EX|\d+(\.\d\d?)?", cell)]
    return faults


def test_a_fresh_sheet_has_a_line_for_every_score_and_none_for_what_is_not_one() -> None:
    sheet = canvas.fresh(book(), "ex_15", MarkRules({"ex_15": 90412}))
    assert importer_faults(sheet.text) == []
    assert rows_of(sheet.text) == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "ex_15 Triton basics (90412)"],
        ["    Points Possible", "", "", "", "", "41"],
        ["Lovelace, Ada", "5501", "s-77", "ada", "GPU-A", "25.5"],
        ['\'=HYPERLINK("http://x")', "5503", "", "", "'@sum", "40.99"],
    ]
    assert sheet.written == 2
    assert sheet.left_out == (
        "ex_15: not all points could be judged (--of-judged scales up the judged points): grace",
        "ex_15: nothing was handed in: late",
    )


def test_what_was_judged_can_be_taken_for_the_whole() -> None:
    sheet = canvas.fresh(book(), "ex_15", MarkRules({}, of_judged=True))
    assert rows_of(sheet.text)[3][-1] == "14.09"  # 11 of 32, as a share of 41


def test_whole_parts_that_were_not_judged_are_scaled_only_where_that_is_asked_for_by_name() -> None:
    mark = Mark("ada", "ex_15", "skipped_environment", 10.0, 10.0, 41.0, parts_left_out=("f", "g"))
    said = "ex_15: nothing of f and g was judged (--of-judged --parts-left-out-too scales up the judged points)"
    for rules in (PLAIN, MarkRules({}, of_judged=True), MarkRules({}, parts_left_out_too=True)):
        sheet = canvas.fresh(of_one(mark), "ex_15", rules)
        assert (sheet.written, sheet.left_out) == (0, (f"{said}: ada",))
    sheet = canvas.fresh(of_one(mark), "ex_15", MarkRules({}, of_judged=True, parts_left_out_too=True))
    assert rows_of(sheet.text)[2][-1] == "41"


def test_nothing_short_of_full_marks_is_rounded_up_to_them() -> None:
    sheet = canvas.fresh(of_one(Mark("ada", "ex_15", "pass", 40.996, 41.0, 41.0)), "ex_15", PLAIN)
    assert rows_of(sheet.text)[2][-1] == "40.99"


def test_a_mark_that_nobody_could_judge_is_never_a_zero() -> None:
    sheet = canvas.fresh(
        of_one(Mark("ada", "ex_15", "grader_error", 0, 0, 41.0)), "ex_15", MarkRules({}, of_judged=True)
    )
    assert (sheet.written, sheet.left_out) == (0, ("ex_15: nothing could be judged: ada",))


@pytest.mark.parametrize(
    ("title", "header"),
    [
        ("Flash (18)", "ex_15 Flash 18"),
        ("the Final Grade", "ex_15"),
        ("=1+1\nx", "ex_15 =1+1 x"),
    ],
)
def test_our_own_title_is_never_taken_for_something_else(title: str, header: str) -> None:
    assert rows_of(canvas.fresh(titled(title), "ex_15", PLAIN).text)[0][-1] == header


def test_a_login_of_digits_and_dots_is_not_written_beside_an_id_and_refused_without() -> None:
    mark = Mark("ada", "ex_15", "pass", 41.0, 41.0, 41.0)
    numbered = dataclasses.replace(ADA, ids={"canvas": "5501", "login": "12.34"})
    assert rows_of(canvas.fresh(of_one(mark, numbered), "ex_15", PLAIN).text)[2][3] == ""
    with pytest.raises(
        UsageError, match=r"a login of digits and dots must stand beside a Canvas or SIS ID, got '12\.34' alone"
    ):
        canvas.fresh(of_one(mark, dataclasses.replace(ADA, ids={"login": "12.34"})), "ex_15", PLAIN)


def test_the_sis_login_of_a_roster_is_the_one_that_canvas_gets() -> None:
    roster = parse_roster("id,name,login,sis_login\nada,Ada,al,a17\nbob,Bob,bo,\n")
    marks = tuple(Mark(one.id, "ex_15", "pass", 41.0, 41.0, 41.0) for one in roster)
    sheet = canvas.fresh(Gradebook((ASSIGNMENT,), roster, marks), "ex_15", PLAIN)
    assert [row[3] for row in rows_of(sheet.text)[2:]] == ["a17", "bo"]
    assert sheet.left_out == ()


def test_whoever_the_roster_knows_by_name_only_is_named() -> None:
    mark = Mark("ada", "ex_15", "pass", 41.0, 41.0, 41.0)
    sheet = canvas.fresh(of_one(mark, dataclasses.replace(ADA, ids={})), "ex_15", PLAIN)
    assert sheet.left_out == ("ex_15: Canvas ID, SIS ID and login, which the roster lacks; the name is written: ada",)


def test_an_exported_gradebook_gets_our_scores_and_nothing_else_of_it_is_written() -> None:
    sheet = canvas.update(book(), EXPORTED, PLAIN)
    assert rows_of(sheet.text) == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "ex_15 Triton basics (90412)"],
        ["    Points Possible", "", "", "", "", "41"],
        ["Lovelace, Ada", "5501", "s-77", "ada", "GPU-A", "25.5"],
        ["'=evil", "5503", "", "", "GPU-A", "40.99"],
    ]
    assert importer_faults(sheet.text) == []
    assert "not in the gradebook: late" in sheet.left_out
    assert "in the gradebook, but not in this class: Stranger" in sheet.left_out


def test_a_column_is_found_by_canvas_number_too() -> None:
    renamed = EXPORTED.replace("ex_15 Triton basics (90412)", "Homework (90412)")
    assert canvas.update(book(), renamed, MarkRules({"ex_15": 90412})).written == 2
    with pytest.raises(UsageError, match=r"a column's title must end with \(5\) for ex_15, got none that does"):
        canvas.update(book(), renamed, MarkRules({"ex_15": 5}))
    with pytest.raises(UsageError, match="the gradebook must have a column for one of ex_15, got Essay"):
        canvas.update(book(), renamed, PLAIN)


def test_whoever_is_excused_stays_excused() -> None:
    sheet = canvas.update(book(), EXPORTED.replace("12.5", "ex"), PLAIN)
    assert "Lovelace" not in sheet.text


def test_a_student_whose_mark_is_open_keeps_what_canvas_has() -> None:
    assert "Hopper" not in canvas.update(book(), EXPORTED, PLAIN).text


def test_a_column_of_another_worth_is_refused_unless_scaling_is_asked_for() -> None:
    twenty = EXPORTED.replace(",10,41,1,", ",10,20,1,")
    with pytest.raises(UsageError, match=r"must be worth 41 points, got 20 \(--scale fits the scores to it\)"):
        canvas.update(book(), twenty, PLAIN)
    assert rows_of(canvas.update(book(), twenty, MarkRules({}, scale=True)).text)[2][-1] == "12.44"


def test_a_gradebook_with_semicolons_is_answered_with_semicolons() -> None:
    sheet = canvas.update(
        book(), EXPORTED.replace('"Lovelace, Ada"', "Ada").replace('"Hopper, Grace"', "Grace").replace(",", ";"), PLAIN
    )
    assert sheet.text.splitlines()[2] == "Ada;5501;s-77;ada;GPU-A;25.5"


def test_a_student_is_matched_by_login_and_by_a_name_that_only_one_has() -> None:
    by_login = EXPORTED.replace("5501,s-77", ",")
    assert rows_of(canvas.update(book(), by_login, PLAIN).text)[2][-1] == "25.5"
    by_name = EXPORTED.replace('"Lovelace, Ada",5501,s-77,ada', '"Lovelace, Ada",99,,unknown')
    assert rows_of(canvas.update(book(), by_name, PLAIN).text)[2][-1] == "25.5"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "an exported gradebook must not be empty, got no line"),
        ("Name,Points\r\n", "an exported gradebook must begin with Student,ID,…,Section, got Name,Points"),
        (
            "Student,ID,SIS User ID,Section,ex_15\r\n",
            "must begin with Student,ID,…,Section, got Student,ID,SIS User ID",
        ),
        ("Student,ID,Section,a,a\r\n", "an exported gradebook's columns must differ, got 'a' twice"),
        ("Student,ID,Section,ex_15\r\nAda,1,A\r\n", "every line must have 4 cells as the header, got 3: 'Ada'"),
        (
            "Student,ID,Section,ex_15 a,ex_15 b\r\n",
            "one column must begin with ex_15 (or --column ex_15=NUMBER), got ex_15 a",
        ),
        (
            "Student,ID,Section,ex_15\r\nAda,5501,A,1\r\nAda B,5501,A,1\r\n",
            "a student must have one line, got 'Ada' and 'Ada B' for ada",
        ),
        (
            "Student,ID,Section,ex_15\r\nPoints Possible,,,many\r\n",
            "points possible must be a number, got 'many' for 'ex_15'",
        ),
    ],
)
def test_what_is_no_gradebook_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        canvas.update(book(), text, PLAIN)


def test_two_exercises_share_a_sheet_and_neither_loses_a_score() -> None:
    other = Assignment("ex_16", "GEMM", 10.0)
    both = dataclasses.replace(
        book(),
        assignments=(ASSIGNMENT, other),
        students=(ADA,),
        marks=(book().marks[0], Mark("ada", "ex_16", "missing", 0, 0, 10.0)),
    )
    exported = "Student,ID,Section,ex_15,ex_16\r\nAda,5501,A,1,7\r\n"
    assert rows_of(canvas.update(both, exported, PLAIN).text)[1] == ["Ada", "5501", "A", "25.5", "7"]
