"""Who handed in what: the layouts of the platforms, and whatever somebody may put into a folder or an archive."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from grader.batch import uploads
from grader.batch.gradebook import Student
from grader.batch.layouts import common_prefix, recognise
from grader.batch.roster import as_id, parse_roster
from grader.batch.store import Batch, Submission
from grader.batch.submissions import Collected, collect, exercises_in, timed
from grader.batch.uploads import printable
from grader.cli.batch_options import requested
from grader.cli.batch_owners import in_short
from grader.cli.commands.batch import BatchOptions
from grader.cli.main import dispatch
from grader.errors import UsageError

EXERCISES = {"ex_15": "ex_15_triton_basics", "ex_16": "ex_16_triton_gemm"}
ONE = {"ex_15": "ex_15_triton_basics"}
FILE = "ex_15_triton_basics.py"
TEXT = "def vector_add(x, y): ...\n"


def lay(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def collected(
    folder: Path,
    exercises: Mapping[str, str] = ONE,
    roster: tuple[Student, ...] = (),
    prefixes: tuple[str, ...] = (),
) -> Collected:
    known = {student.id for student in roster}
    return collect(recognise(folder, exercises, prefixes, known), exercises, roster)


def handed(folder: Path, exercises: Mapping[str, str] = ONE, roster: tuple[Student, ...] = ()) -> Batch:
    found = collected(folder, exercises, roster)
    return Batch((), found.students, found.submissions, roster)


def only(folder: Path, roster: tuple[Student, ...] = ()) -> Submission:
    (one,) = handed(folder, roster=roster).submissions
    return one


# -- layouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "student"),
    [
        ({f"ada/{FILE}": TEXT}, "ada"),
        ({"ada/work/ex-15 (final).py": TEXT}, "ada"),
        ({"ada.zip": zipped({FILE: TEXT})}, "ada"),
        ({"ada.zip": zipped({f"work\\{FILE}": TEXT})}, "ada"),
        ({f"lovelaceada_12345_678_{FILE}": TEXT}, "lovelaceada"),
        ({"lovelaceada_LATE_12345_678_ex_15_triton_basics-1.py": TEXT}, "lovelaceada"),
        ({"lovelaceada_12345_678_work.zip": zipped({FILE: TEXT})}, "lovelaceada"),
        ({f"Ada_12345_assignsubmission_file_/{FILE}": TEXT}, "Ada"),
        ({f"Ada_12345_assignsubmission_file_{FILE}": TEXT}, "Ada"),
        ({f"ex-15-ada/exercises/{FILE}": TEXT, "ex-15-ada/.git/config": "[core]"}, "ada"),
        ({f"ex-15-triton-basics-ada-l/exercises/{FILE}": TEXT}, "ada-l"),
    ],
)
def test_every_layout_says_whose_file_it_is(tmp_path: Path, files: Mapping[str, str | bytes], student: str) -> None:
    one = only(lay(tmp_path, files))
    assert (one.student, one.exercise, one.text, one.trouble) == (student, "ex_15", TEXT, "")


def test_a_class_may_be_one_archive(tmp_path: Path) -> None:
    inner = {f"a_1_2_{FILE}": TEXT, "b_late_3_4_work.zip": zipped({FILE: TEXT}), f"c/{FILE}": TEXT}
    (tmp_path / "class.zip").write_bytes(zipped(inner))
    found = handed(tmp_path / "class.zip")
    assert [(one.student, one.late, one.text) for one in found.submissions] == [
        ("a", False, TEXT),
        ("b", True, TEXT),
        ("c", False, TEXT),
    ]


METADATA = """
submission_7:
  :submitters:
  - :name: Ada Lovelace
    :sid: '17'
    :email: ada@example.edu
  - :name: Bob
    :email: bob@example.edu
  :created_at: 2026-11-02 08:15:00.123456789 Z
submission_8:
  :submitters:
  - :name: Cy
    :sid: '19'
  :created_at: !ruby/object:ActiveSupport::TimeWithZone
    utc: 2026-11-03 08:15:00.000000000 Z
"""


@pytest.mark.parametrize("top", ["", "assignment_1_export/"])
def test_gradescope_s_metadata_names_everybody_and_the_time(tmp_path: Path, top: str) -> None:
    files = {"submission_metadata.yml": METADATA, f"submission_7/{FILE}": TEXT, f"submission_8/{FILE}": TEXT}
    found = handed(lay(tmp_path, {top + name: text for name, text in files.items()}))
    assert [(one.student, one.submitted_at) for one in found.submissions] == [
        ("19", "2026-11-03T08:15:00Z"),
        ("ada", "2026-11-02T08:15:00Z"),
        ("bob", "2026-11-02T08:15:00Z"),
    ]
    assert found.students[1] == Student("ada", "Ada Lovelace", "ada@example.edu", ids={"sis": "17"})


@pytest.mark.parametrize("folder", ["ada", "assignment_1_export-ada", "ex-15-ada"])
def test_the_only_student_of_a_class_does_not_speak_for_others_by_metadata_of_their_own(
    tmp_path: Path, folder: str
) -> None:
    lay(tmp_path, {f"{folder}/submission_metadata.yml": METADATA, f"{folder}/submission_7/{FILE}": TEXT})
    found = collected(tmp_path)
    assert [(one.student, one.submitted_at) for one in found.submissions] == [(folder.removeprefix("ex-15-"), "")]
    assert found.notes == (
        f"{folder}/ counts as one student's and holds a submission_metadata.yml: if it is an export of Gradescope, "
        "name it instead of the folder around it",
    )


def test_gradescope_s_metadata_makes_no_objects(tmp_path: Path) -> None:
    hostile = "submission_7: !!python/object/apply:os.system ['true']\n"
    lay(tmp_path, {"submission_metadata.yml": hostile, f"submission_7/{FILE}": TEXT})
    with pytest.raises(UsageError, match="must be YAML as Gradescope writes it, got: could not determine"):
        handed(tmp_path)


def test_what_belongs_to_nobody_is_named(tmp_path: Path) -> None:
    lay(tmp_path, {"README.md": "hello", "Ada_1_assignsubmission_onlinetext_/a.html": "", f"b/{FILE}": TEXT})
    found = recognise(tmp_path, ONE)
    assert [one.name for one in found if not one.owners] == ["Ada_1_assignsubmission_onlinetext_", "README.md"]


def test_what_an_operating_system_left_is_no_student(tmp_path: Path) -> None:
    left = {"__MACOSX/ada/._x.py": "", "__pycache__/x.pyc": "", ".Trash/x.py": "", ".git/HEAD": ""}
    files = {f"ada/{FILE}": TEXT, **left}
    lay(tmp_path, {**{f"in/{name}": text for name, text in files.items()}, "class.zip": zipped(files)})
    for place in ("in", "class.zip"):
        assert [one.name for one in recognise(tmp_path / place, ONE)] == ["ada"]


def test_an_empty_folder_is_a_student_s_where_no_roster_says_otherwise(tmp_path: Path) -> None:
    lay(tmp_path, {f"ada/{FILE}": TEXT, "old.zip": zipped({}), f"eve/{FILE}": TEXT})
    for name in ("bob", "drafts"):
        (tmp_path / name).mkdir()
    found = collected(tmp_path, roster=(Student("ada"), Student("bob")))
    assert [one.id for one in found.students] == ["ada", "bob", "eve"]
    assert found.nobodys == ("drafts/ (empty)", "old.zip (empty)")
    assert [one.trouble for one in found.submissions if one.student == "bob"] == [
        "a submission must hold ex_15_triton_basics.py, got nothing"
    ]
    assert [one.id for one in collected(tmp_path).students] == ["ada", "bob", "drafts", "eve", "old"]


def test_the_exercises_are_those_that_somebody_handed_in(tmp_path: Path) -> None:
    lay(tmp_path, {f"ada/{FILE}": TEXT, "bob/ex_160.py": TEXT})
    assert exercises_in(recognise(tmp_path, EXERCISES), EXERCISES) == ("ex_15",)


def test_a_student_may_hand_in_several_exercises_in_several_places(tmp_path: Path) -> None:
    lay(tmp_path, {f"ex-15-ada/{FILE}": TEXT, "ex-16-ada/exercises/ex_16_triton_gemm.py": "16", f"bob/{FILE}": TEXT})
    found = handed(tmp_path, EXERCISES)
    assert [(one.student, one.exercise) for one in found.submissions] == [
        ("ada", "ex_15"),
        ("ada", "ex_16"),
        ("bob", "ex_15"),
    ]


# -- repositories of any assignment ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folders", "prefix"),
    [
        (["lab1-ada", "lab1-bob", "lab1-cy-d"], "lab1"),
        (["gpu-lab-1-ada", "gpu-lab-1-alan", "gpu-lab-1-al"], "gpu-lab-1"),
        # Two may be called anna-b and anna-c; numbers are groups; and three people share nothing.
        (["anna-b", "anna-c"], ""),
        (["group-1", "group-2", "group-3"], ""),
        (["ada", "bob", "cy"], ""),
        (["lab1-ada", "lab1-bob", "notes"], ""),
        (["lab1", "lab1-ada", "lab1-bob"], ""),
    ],
)
def test_repositories_are_known_by_the_words_that_all_begin_with(folders: list[str], prefix: str) -> None:
    assert common_prefix(folders) == prefix


def test_a_folder_that_is_called_like_a_student_is_no_repository() -> None:
    assert common_prefix(["lab1-ada", "lab1-bob", "lab1-cy"], {"LAB1-ADA"}) == ""


def test_the_common_start_of_repositories_is_not_part_of_a_user(tmp_path: Path) -> None:
    lay(tmp_path, {f"lab1-{user}/exercises/{FILE}": TEXT for user in ("ada", "bob", "cy")})
    roster = parse_roster("id,github\nal,ADA\nbo,bob\ncy,cy\n")
    assert [one.student for one in collected(tmp_path, roster=roster).submissions] == ["al", "bo", "cy"]


def test_a_prefix_says_how_repositories_are_called(tmp_path: Path) -> None:
    lay(tmp_path, {f"lab1-ada/{FILE}": TEXT, "ex-16-gemm-lab-ada/main.py": "16", f"eve/{FILE}": TEXT})
    found = collected(tmp_path, EXERCISES, prefixes=("lab1", "ex-16-gemm-lab"))
    assert [(one.student, one.exercise) for one in found.submissions] == [("ada", "ex_15"), ("eve", "ex_15")]
    assert found.left_over == ("ex-16-gemm-lab-ada/main.py",)


@pytest.mark.parametrize("prefixes", [("lab1",), ()])
def test_the_prefix_is_not_part_of_a_user_whose_repository_is_an_archive(
    tmp_path: Path, prefixes: tuple[str, ...]
) -> None:
    lay(tmp_path, {f"lab1-{user}.zip": zipped({FILE: TEXT}) for user in ("ada", "bob", "cy")})
    lay(tmp_path, {f"lab1-bob/{FILE}": "1", "ex-16-dee.zip": zipped({"ex_16.py": "16"})})
    found = collected(tmp_path, EXERCISES, parse_roster("id,github\nal,ADA\n"), prefixes)
    students = [("al", "ex_15"), ("bob", "ex_15"), ("cy", "ex_15"), ("dee", "ex_16")]
    assert [(one.student, one.exercise) for one in found.submissions] == students
    assert found.submissions[1].trouble == (
        f"there must be one file for ex_15, got 2: lab1-bob/{FILE}, lab1-bob.zip/{FILE}"
    )
    assert found.notes == ("bob handed in ex_15 2 times: lab1-bob/, lab1-bob.zip",)


def test_a_prefix_that_would_find_students_who_handed_nothing_in_is_hinted_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("ada", "lab1-carol", "lab1-ann-lee", "lab1-ada", "old-eve", "-carol")
    lay(tmp_path / "in", {f"{name}/{FILE}": TEXT for name in names} | {f"lab2-zoe_1_2_{FILE}": TEXT})
    lay(tmp_path / "in", {"lab1-dan.zip": zipped({FILE: TEXT})})
    lay(tmp_path, {"roster.csv": "id,github\nada,\ncarol,\ndan,\nlee,ann-lee\nzoe,\n"})
    asked = ["batch", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--dry-run"]
    asked += ["--roster", str(tmp_path / "roster.csv")]
    assert dispatch(asked) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if "--prefix" in line] == [
        "  --prefix lab1 would find students who handed nothing in: "
        "lee by lab1-ann-lee/, carol by lab1-carol/, dan by lab1-dan.zip"
    ]
    assert dispatch([*asked, "--prefix", "lab1"]) == 0
    assert "--prefix" not in capsys.readouterr().out


def test_a_folder_and_its_archive_are_one_name_of_the_three_that_make_a_prefix(tmp_path: Path) -> None:
    lay(tmp_path, {f"anna-b/{FILE}": TEXT, f"anna-c/{FILE}": TEXT, "anna-c.zip": zipped({FILE: TEXT})})
    assert [one.student for one in collected(tmp_path).submissions] == ["anna-b", "anna-c"]


def test_an_archive_of_something_else_hides_no_prefix_of_folders(tmp_path: Path) -> None:
    lay(tmp_path, {f"lab1-{user}/{FILE}": TEXT for user in ("ada", "bob", "cy")})
    lay(tmp_path, {"slides.zip": zipped({"slides.md": ""})})
    assert [one.student for one in collected(tmp_path).submissions if not one.trouble] == ["ada", "bob", "cy"]


def test_an_archive_that_is_called_like_an_exercise_is_no_repository_of_it(tmp_path: Path) -> None:
    lay(tmp_path, {f"{Path(FILE).stem}.zip": zipped({FILE: TEXT})})
    assert [one.student for one in collected(tmp_path).submissions] == [Path(FILE).stem]


# -- what an instructor should look at -------------------------------------------------------------------------------


def test_a_folder_beside_an_archive_of_the_same_name_is_named(tmp_path: Path) -> None:
    lay(tmp_path, {f"bob/{FILE}": "1", "bob.zip": zipped({FILE: "2"}), f"ada/{FILE}": TEXT})
    lay(tmp_path, {"ada.zip": zipped({FILE: TEXT})})
    found = collected(tmp_path)
    ada, bob = found.submissions
    # Equal texts are one.
    assert (ada.text, ada.source) == (TEXT, f"ada/{FILE}")
    assert bob.trouble == f"there must be one file for ex_15, got 2: bob/{FILE}, bob.zip/{FILE}"
    assert found.notes == ("ada handed in ex_15 2 times: ada/, ada.zip", "bob handed in ex_15 2 times: bob/, bob.zip")


def test_names_that_differ_in_case_only_are_named(tmp_path: Path) -> None:
    lay(tmp_path, {f"ADA/{FILE}": "1", f"ada/{FILE}": "2"})
    (note,) = collected(tmp_path).notes
    assert note.startswith("names that differ in case only count as different students: ADA/ (ADA")
    found = collected(tmp_path, roster=(Student("ada"),))
    assert found.notes == ("ada handed in ex_15 2 times: ADA/, ada/",)
    assert found.submissions[0].trouble == f"there must be one file for ex_15, got 2: ADA/{FILE}, ada/{FILE}"
    lay(tmp_path / "zipped", {f"bob/{FILE}": "1", "BOB.zip": zipped({FILE: "2"})})
    assert "BOB.zip (BOB" in collected(tmp_path / "zipped").notes[0]


def test_files_of_one_name_are_no_names_that_differ_in_case(tmp_path: Path) -> None:
    canvas = {f"lovelaceada_1_5_{FILE}": "1", f"turingalan_2_6_{FILE}": "2", f"weizhang_3_7_{FILE}": "3"}
    archives = {"weizhang_4_8_lab.zip": zipped({FILE: "4"}), "noetheremmy_5_9_Lab.zip": zipped({FILE: "5"})}
    assert collected(lay(tmp_path, canvas | archives)).notes == ()


def test_a_file_is_named_as_it_lies_in_the_folder_of_submissions(tmp_path: Path) -> None:
    lay(tmp_path, {f"lovelaceada_1_5_{FILE}": "1", f"lovelaceada_1_6_{FILE}": "2", f"turingalan_2_7_{FILE}": "3"})
    ada, alan = collected(tmp_path).submissions
    assert (alan.source, alan.path) == (f"turingalan_2_7_{FILE}", FILE)
    places = f"lovelaceada_1_5_{FILE}, lovelaceada_1_6_{FILE}"
    assert ada.trouble == f"there must be one file for ex_15, got 2: {places}"


def test_the_files_of_a_folder_are_named_in_order(tmp_path: Path) -> None:
    lay(tmp_path, {f"ada/{folder}/ex_15.py": folder for folder in "bca"})
    (ada,) = collected(tmp_path).submissions
    assert ada.trouble == "there must be one file for ex_15, got 3: a/ex_15.py, b/ex_15.py, c/ex_15.py"


def test_every_file_that_nobody_grades_is_left_over(tmp_path: Path) -> None:
    lay(tmp_path, {f"ada/exercises/{FILE}": TEXT, f"ada/old/{FILE}": "old", "ada/notes.md": "", "README": ""})
    lay(tmp_path, {"bob/a/ex_15.py": "1", "bob/b/ex_15.py": "2"})
    found = collected(tmp_path)
    assert (found.nobodys, set(found.left_over)) == (("README",), {f"ada/old/{FILE}", "ada/notes.md"})
    assert found.submissions[0].source == f"ada/exercises/{FILE}"


def test_of_one_upload_with_thousands_of_files_a_few_are_named_and_the_others_counted(tmp_path: Path) -> None:
    data = {f"data/{number:04}.txt": "" for number in range(3000)}
    lay(tmp_path, {"ada.zip": zipped({FILE: TEXT, **data, "data/main.py": ""}), "bob/a.txt": "", f"bob/{FILE}": TEXT})
    left_over = collected(tmp_path).left_over
    assert left_over[:2] == ("ada.zip/data/main.py", "ada.zip/data/0000.txt")
    assert left_over[9:] == ("ada.zip/data/0008.txt", "ada.zip: 2,991 more files", "bob/a.txt")


def test_a_hand_in_of_two_students_counts_against_the_exercise_that_it_names_or_none(tmp_path: Path) -> None:
    roster = parse_roster("id,email,sis\nada,ada@example.edu,1\nbob,bob@example.edu,17\n")
    lay(tmp_path, {"submission_metadata.yml": METADATA, f"submission_7/{FILE}": TEXT})
    found = collected(tmp_path, EXERCISES, roster)
    assert [(one.exercise, bool(one.trouble)) for one in found.submissions] == [("ex_15", True), ("ex_15", False)]
    (tmp_path / "submission_7" / FILE).rename(tmp_path / "submission_7" / "main.py")
    nameless = collected(tmp_path, EXERCISES, roster)
    assert [one.student for one in nameless.submissions] == ["bob", "bob"]
    assert nameless.notes[0].startswith("submission_7/ names no exercise and counts against none: an owner must be one")


@pytest.mark.parametrize(
    ("files", "exercises"),
    [
        ({"ada.zip": b"PK\3\4 broken"}, ["ex_15", "ex_16"]),
        ({"ada_1_2_ex-16.zip": b"PK\3\4 broken"}, ["ex_16"]),
        # There is a file for one exercise, so nothing says that the archive was for the other.
        ({f"ada/{FILE}": TEXT, "ada.zip": b"PK\3\4 broken"}, ["ex_15"]),
    ],
)
def test_what_cannot_be_read_counts_against_the_exercise_that_it_names(
    tmp_path: Path, files: Mapping[str, str | bytes], exercises: list[str]
) -> None:
    assert [one.exercise for one in collected(lay(tmp_path, files), EXERCISES).submissions] == exercises


def test_a_dry_run_names_everybody_every_stranger_and_every_file_left_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strangers = [f"s{number:02}" for number in range(15)]
    lay(tmp_path / "in", {f"{one}/{FILE}": TEXT for one in ("ada", *strangers)} | {"ada/x.py": "", "notes.txt": ""})
    lay(tmp_path, {"roster.csv": "id,name\nada,Ada L\nzoe,\n"})
    given = ["--out", str(tmp_path / "out"), "--roster", str(tmp_path / "roster.csv"), "--dry-run"]
    assert dispatch(["batch", str(tmp_path / "in"), *given]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"16 submissions of 16 students for ex_15 in {tmp_path}/in; nothing is graded\nada  Ada L\n")
    assert f"  ex_15  ada/{FILE}\nzoe: nothing handed in\n\nNot on the roster\n  s00\n" in said
    assert all(f"\n    ex_15  {one}/{FILE}\n" in said for one in strangers)
    assert "Nobody's\n  notes.txt\n" in said
    assert said.endswith("\n  ada/x.py\n")
    assert not (tmp_path / "out").exists()


def test_a_dry_run_leaves_out_no_file_that_a_message_is_too_short_for_and_no_damaged_upload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    several = {f"ada/try{number}/{FILE}": f"{number}" for number in range(7)}
    lay(tmp_path / "in", several | {f"bob/{FILE}": TEXT, "bob.zip": b"no archive"})
    asked = ["batch", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--dry-run"]
    assert dispatch(asked) == 0
    said = capsys.readouterr().out
    assert [place for place in several if place.removeprefix("ada/") not in said] == []
    assert "got 7: " in said
    assert f"/{FILE} and 2 more\n" in said
    left_over = said.partition("\nLeft over: of a student, and not graded\n")[2].splitlines()
    assert len([line for line in left_over if line.startswith("  ada/try")]) == 2
    assert "  bob.zip (an archive must be a readable zip file" in left_over[2]


def test_names_of_strangers_are_harmless_in_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lay(tmp_path / "in", {f"Ada \u202eL\u200b_12_assignsubmission_file_/{FILE}": TEXT, "n\u202ex.txt": ""})
    assert dispatch(["batch", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "Ada " in said
    assert not {"\u202e", "\u200b"} & set(said)


def test_the_start_of_a_run_shortens_what_a_dry_run_tells_in_full() -> None:
    note = "--prefix lab1 would find: " + ", ".join(f"s{number} by lab1-s{number}/" for number in range(90))
    names = tuple(f"stranger{number}" for number in range(12))
    look, nobodys, strangers = in_short(Collected((), (), ("a.txt",), (), (note,)), names)
    assert len(look) < 350
    assert look.endswith("… (--dry-run names all)")
    assert nobodys == "  nobody's: a.txt"
    assert strangers.endswith(", stranger9 and 2 more (--dry-run names all)")


def test_more_time_and_times_are_for_students_of_the_class_and_exercises_of_the_course(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lay(tmp_path / "in", {f"ada/{FILE}": TEXT, f"eve/{FILE}": TEXT})
    lay(tmp_path, {"roster.csv": "id\nada\nzoe\n"})
    # On the roster, or only in the class; and an exercise that nobody handed in.
    lay(tmp_path, {"late.toml": "".join(f'[[extensions]]\nstudent = "{one}"\ndays = 1\n' for one in ("zoe", "eve"))})
    lay(tmp_path, {"times.csv": "student,exercise,submitted_at\nada,ex_16,2026-11-02T09:15:00Z\n"})
    asked = ["batch", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--dry-run"]
    asked += ["--roster", str(tmp_path / "roster.csv")]
    tables = {"--late": tmp_path / "late.toml", "--times": tmp_path / "times.csv"}
    assert dispatch([*asked, *(word for option, path in tables.items() for word in (option, str(path)))]) == 0
    lay(tmp_path, {"late.toml": '[[extensions]]\nstudent = "carol"\ndays = 1\n'})
    lay(tmp_path, {"times.csv": "student,exercise,submitted_at\nada,ex_51,2026-11-02T09:15:00Z\n"})
    said = {
        "--late": "late.toml, extension 1: student must be one of the class's, got 'carol'",
        "--times": "times.csv, line 2: exercise must be one of the class's, got 'ex_51'",
    }
    for option, path in tables.items():
        capsys.readouterr()
        assert dispatch([*asked, option, str(path)]) == 2
        assert capsys.readouterr().err == f"grade: {tmp_path}/{said[option]}\n"


def test_a_time_that_is_given_replaces_that_of_the_layout() -> None:
    one = Submission("ada", "ex_15", FILE, submitted_at="2026-11-02T08:15:00Z")
    (first, second) = timed([one, replace(one, exercise="ex_16")], {"ada/ex_15": "2026-11-03T08:15:00Z"})
    assert (first.submitted_at, second.submitted_at) == ("2026-11-03T08:15:00Z", "2026-11-02T08:15:00Z")


def test_points_for_a_part_of_nothing_are_refused_and_points_above_the_maximum_are_noted(tmp_path: Path) -> None:
    lay(tmp_path / "in", {f"ada/{FILE}": TEXT})
    lay(tmp_path, {"roster.csv": "id\nada\nzoe\n"})
    head = "student,exercise,part,points,reason,author\n"
    lay(tmp_path, {"good.csv": f"{head}ada,ex_15,vector_add,99,bonus,prof\nzoe,ex_15,,9,oral exam,prof\n"})
    lay(tmp_path, {"bad.csv": f"{head}zoe,ex_15,vector_add,9,oral exam,prof\n"})
    asked = BatchOptions(str(tmp_path / "in"), "out", roster=str(tmp_path / "roster.csv"))
    _, _, found = requested(replace(asked, overrides=str(tmp_path / "good.csv")), None)
    assert found.notes == ("the override for ada, ex_15 vector_add, gives 99 points; it is worth 20",)
    with pytest.raises(UsageError, match=r"points for a part must have a submission; .*, got vector_add of zoe"):
        requested(replace(asked, overrides=str(tmp_path / "bad.csv")), None)


# -- what is no submission -------------------------------------------------------------------------------------------

BOMB = zipped({FILE: b"#" * (1 << 24)})
# Made where they are used: every worker collects this file.
WIDE = partial(zipped, {f"{place}.bin": bytes(1 << 26) for place in range(9)})
MANY = partial(zipped, {f"{place}.txt": "" for place in range(10_001)})


@pytest.mark.parametrize(
    ("content", "trouble"),
    [
        (zipped({f"../{FILE}": TEXT}), f"a path must stay inside its archive, got ../{FILE}"),
        (zipped({f"/etc/{FILE}": TEXT}), f"a path must stay inside its archive, got /etc/{FILE}"),
        (zipped({f"C:\\x\\{FILE}": TEXT}), "a path must stay inside its archive, got C:"),
        (BOMB, f"a submission must hold at most 1048576 bytes, got more in {FILE}"),
        (WIDE, "an archive must unpack to at most 536870912 bytes, got 603979776"),
        (MANY, "an archive must hold at most 10000 files, got 10001"),
        (b"PK\3\4 and no archive", "an archive must be a readable zip file, got: File is not a zip file"),
        (zipped({FILE: TEXT})[:-40], "an archive must be a readable zip file, got: "),
        (bytes((1 << 24) + 1), "an archive must hold at most 16777216 bytes, got more"),
        (zipped({"main.py": TEXT, "a.md": ""}), "a submission must hold ex_15_triton_basics.py, got main.py, a.md"),
        (zipped({}), "a submission must hold ex_15_triton_basics.py, got nothing"),
        (zipped({FILE: "x = 'é'".encode("latin-1")}), "a submission must be UTF-8, got byte 0xe9 in line 1 of"),
        (zipped({FILE: TEXT.encode("utf-16")}), "a submission must be text, got a NUL byte in line 1 of"),
        (zipped({FILE: ""}), f"a submission must not be empty, got {FILE}"),
        (
            zipped({f"a/{FILE}": "1", "b/ex_15.py": "2"}),
            f"there must be one file for ex_15, got 2: a/{FILE}, b/ex_15.py",
        ),
    ],
    # An archive holds the time at which it was made: as an id, it would differ between workers.
    ids=lambda value: value[:40] if isinstance(value, str) else "content",
)
def test_what_cannot_be_graded_is_said_of_that_student_and_of_nobody_else(
    tmp_path: Path, content: bytes | Callable[[], bytes], trouble: str
) -> None:
    given = content if isinstance(content, bytes) else content()
    found = handed(lay(tmp_path, {"mallory.zip": given, f"ada/{FILE}": TEXT}))
    ada, mallory = found.submissions
    assert (ada.student, ada.text, ada.trouble) == ("ada", TEXT, "")
    assert mallory.text == ""
    assert mallory.trouble.startswith(trouble)


def test_an_archive_with_a_damaged_file_is_said_to_be(tmp_path: Path) -> None:
    data = bytearray(zipped({FILE: TEXT * 50}))
    data[len(FILE) + 40] ^= 0xFF
    (tmp_path / "ada.zip").write_bytes(data)
    assert only(tmp_path).trouble.startswith(f"an archive's file must be readable, got {FILE}: ")


def test_links_in_archives_are_not_files(tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        link = zipfile.ZipInfo(FILE)
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    (tmp_path / "ada.zip").write_bytes(data.getvalue())
    assert only(tmp_path).trouble == f"a submission must be a regular file, got a symbolic link ({FILE})"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_file_that_could_only_be_unpacked_as_a_whole_is_not(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "ada.zip", "w", method) as archive:
        archive.writestr(FILE, TEXT)
    lay(tmp_path, {"bob.zip": zipped({FILE: TEXT})})
    (tmp_path / "class.zip").write_bytes(
        zipped({name: (tmp_path / name).read_bytes() for name in ("ada.zip", "bob.zip")})
    )
    for place in (tmp_path, tmp_path / "class.zip"):
        ada, bob = (one for one in handed(place).submissions if one.student in ("ada", "bob"))
        assert "a file that is compressed by another method than deflate" in ada.trouble
        assert bob.text == TEXT


def test_an_archive_s_table_of_contents_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    opened = zipfile.ZipFile.__init__
    monkeypatch.setattr(
        zipfile.ZipFile, "__init__", lambda *given, **named: (read.append(1), opened(*given, **named))[1]
    )
    (tmp_path / "ada.zip").write_bytes(zipped({f"{place}/{FILE}": TEXT for place in range(100)}))
    read.clear()
    assert only(tmp_path).text == TEXT
    assert len(read) == 1


def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    class_folder = tmp_path / "class"
    lay(class_folder, {"ada/notes.md": ""})
    lay(tmp_path, {f"elsewhere/{FILE}": "secret"})
    os.symlink(tmp_path / "elsewhere" / FILE, class_folder / "ada" / FILE)
    os.symlink(tmp_path / "elsewhere", class_folder / "bob")
    (class_folder / "cy").mkdir()
    os.mkfifo(class_folder / "cy" / FILE)
    os.symlink(tmp_path / "elsewhere", class_folder / "cy" / "inner")
    ada, bob, cy = handed(class_folder).submissions
    assert ada.trouble == f"a submission must be a regular file, got a symbolic link ({FILE})"
    assert bob.trouble == "a submission must be a file or a folder, got a symbolic link"
    assert cy.trouble == f"a submission must be a regular file, got no regular file ({FILE})"


def test_a_folder_without_end_is_trouble_of_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MOST_FILES", 3)
    lay(tmp_path, {f"mallory/{place}.txt": "" for place in range(4)} | {f"ada/{FILE}": TEXT})
    lay(tmp_path, {f"deep/{'x/' * 40}{FILE}": TEXT})
    ada, deep, mallory = handed(tmp_path).submissions
    assert ada.trouble == ""
    assert deep.trouble == "folders must lie at most 32 deep, got more below x"
    assert mallory.trouble == "a folder must hold at most 3 files, got more"


def test_the_stub_s_own_place_decides_between_several_files(tmp_path: Path) -> None:
    lay(tmp_path, {f"ex-15-ada/exercises/{FILE}": TEXT, f"ex-15-ada/old/{FILE}": "old", f"bob/{FILE}": TEXT})
    lay(tmp_path, {"bob/copy/ex_15.py": TEXT})
    assert [one.text for one in handed(tmp_path).submissions] == [TEXT, TEXT]


def test_names_that_are_no_utf_8_become_ids_that_are(tmp_path: Path) -> None:
    for name in (b"\xe9mile", b"Ada Lovelace", b"a\x1b[31m"):
        folder = os.path.join(os.fsencode(tmp_path), name)
        os.mkdir(folder)
        with open(os.path.join(folder, FILE.encode()), "w") as file:
            file.write(TEXT)
    students = [one.student for one in handed(tmp_path).submissions]
    assert all(student.isprintable() and "/" not in student and not student.startswith(".") for student in students)
    assert [student.rpartition("-")[0] for student in students] == ["Ada_Lovelace", "a_31m", "mile"]
    assert [one.text for one in handed(tmp_path).submissions] == [TEXT] * 3


def test_ids_keep_what_is_fit_and_stay_different() -> None:
    assert as_id("ada.l@example.edu") == "ada.l@example.edu"
    ids = {as_id(label) for label in ("Ada L", "Ada_L", "Ada  L", "../Ada_L", "Ada/L", "", "..", "é" * 300)}
    assert len(ids) == 8
    assert all(0 < len(one) < 100 and one.strip(".") for one in ids)
    assert printable("a\x1b[0m\udce9") == "a\ufffd[0m\ufffd"


# -- the roster ------------------------------------------------------------------------------------------------------

CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,Essay (12)
    Points Possible,,,,,10
"Lovelace, Ada",12345,S17,ada,Lab 1,9
"Byron, Émile",12346,S18,emile,Lab 2,
"""


def test_a_gradebook_of_canvas_is_a_roster(tmp_path: Path) -> None:
    roster = parse_roster(CANVAS)
    assert roster[0] == Student(
        "ada", "Lovelace, Ada", "", "Lab 1", {"canvas": "12345", "sis": "S17", "sis_login": "ada"}
    )
    lay(tmp_path, {f"lovelaceada_12345_1_{FILE}": TEXT, f"byronemile_99_1_{FILE}": TEXT})
    found = handed(tmp_path, roster=roster)
    # The name is right, but the number is somebody else's.
    assert [one.student for one in found.submissions] == ["ada", "byronemile"]
    assert found.strangers == ("byronemile",)
    assert [student.id for student in found.students] == ["ada", "emile", "byronemile"]


def test_logins_of_a_roster_are_kept_for_canvas_and_name_a_folder(tmp_path: Path) -> None:
    roster = parse_roster("id,login,sis_login\nada,al,a17\nbob,bo,\n")
    assert [one.ids for one in roster] == [{"login": "al", "sis_login": "a17"}, {"login": "bo"}]
    assert only(lay(tmp_path, {f"a17/{FILE}": TEXT}), roster).student == "ada"


@pytest.mark.parametrize(
    "roster",
    [
        "id,name,github\nada,Ada Lovelace,ada-l\n",
        "identifier,github_username,github_id,name\nada,ada-l,1,Ada Lovelace\n",
        "\ufeffFirst Name,Last Name,SID,Email,github\nAda,Lovelace,17,ada@example.edu,ADA-L\n",
    ],
)
def test_rosters_of_other_platforms_name_the_owner_of_a_repository(tmp_path: Path, roster: str) -> None:
    assert only(lay(tmp_path, {f"ex-15-ada-l/{FILE}": TEXT}), parse_roster(roster)).student == "ada"


def test_a_name_finds_its_student_whichever_way_round(tmp_path: Path) -> None:
    roster = parse_roster("id,name\nal,Ada Lovelace\n")
    for name in (f"lovelaceada_1_2_{FILE}", f"Ada Lovelace_7_assignsubmission_file_{FILE}"):
        folder = tmp_path / name[:3]
        assert only(lay(folder, {name: TEXT}), roster).student == "al"


def test_nobody_is_another_one_of_the_roster_by_a_name_of_their_choice(tmp_path: Path) -> None:
    roster = parse_roster("id,name,email,canvas\nada,Ada Lovelace,ada@example.edu,111\n")
    lay(tmp_path / "canvas", {f"lovelaceada_111_1_{FILE}": TEXT, f"ada_222_2_{FILE}": "other"})
    by_label = {one.text: one.student for one in handed(tmp_path / "canvas", roster=roster).submissions}
    assert by_label[TEXT] == "ada"
    assert by_label["other"] != "ada"
    metadata = METADATA.replace("ada@example.edu", "ada@elsewhere.example")
    lay(tmp_path / "gradescope", {"submission_metadata.yml": metadata, f"submission_7/{FILE}": TEXT})
    assert "ada" not in [one.student for one in handed(tmp_path / "gradescope", roster=roster).submissions]


@pytest.mark.parametrize(
    "files",
    [
        {f"weizhang_1_7_{FILE}": "1", f"weizhang_2_8_{FILE}": "2"},
        {f"Wei Zhang_1_assignsubmission_file_/{FILE}": "1", f"Wei Zhang_2_assignsubmission_file_/{FILE}": "2"},
        {f"Ada Lovelace/{FILE}": "1", f"{as_id('Ada Lovelace')}/{FILE}": "2"},
        {f"Ada/{FILE}": "1", f"ada/{FILE}": "2"},
    ],
)
def test_two_people_are_two_students_whatever_they_are_called(tmp_path: Path, files: Mapping[str, str]) -> None:
    found = handed(lay(tmp_path, files)).submissions
    assert sorted(one.text for one in found) == ["1", "2"]
    assert len({one.student.casefold() for one in found}) == 2
    assert [one.student for one in found] == [one.student for one in handed(tmp_path).submissions]


def test_a_stranger_is_not_called_like_somebody_of_the_roster(tmp_path: Path) -> None:
    lay(tmp_path, {f"ada_222_2_{FILE}": TEXT})
    found = handed(tmp_path, roster=(Student("ada", ids={"canvas": "111"}),))
    assert [one.id for one in found.students] == ["ada", *found.strangers]
    assert len(set(found.strangers) - {"ada"}) == 1


def test_a_submission_that_speaks_of_two_students_is_nobody_s(tmp_path: Path) -> None:
    roster = parse_roster("id,email,sis\nada,ada@example.edu,1\nbob,bob@example.edu,17\n")
    lay(tmp_path, {"submission_metadata.yml": METADATA, f"submission_7/{FILE}": TEXT})
    found = handed(tmp_path, roster=roster)
    (first, second) = found.submissions
    assert (first.student,) == found.strangers
    assert first.student not in ("ada", "bob")
    assert first.trouble == "an owner must be one student of the roster, got 'ada', which is ada, bob"
    assert (second.student, second.trouble) == ("bob", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "student,Full Name\nada,Ada\n",
            "roster: a roster must have a column id, login, email, sis, canvas or github, got 'student,Full Name'",
        ),
        ("", "roster: a roster must have a column id, login, email, sis, canvas or github, got ''"),
        ("id\nada\nada\n", "roster: a student must stand on one line, got 'ada' twice"),
        ("id\rada\rada\r", "roster: a student must stand on one line, got 'ada' twice"),
        (f"id,name\nada,{'a' * 200_000}\n", "roster, line 2: a table must be CSV, got: field larger than"),
    ],
)
def test_a_roster_that_names_nobody_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_roster(text)
    assert str(refused.value).startswith(said)
