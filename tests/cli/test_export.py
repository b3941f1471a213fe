"""`grade export`: what it refuses, what it writes where, and who may read it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.cli.main import dispatch
from grader.export.formats import formats
from grader.record.record import Record, to_json
from tests.records import classes, samples
from tests.report.test_audience import SEED, secret


@pytest.fixture
def out_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("CLASSROOM", "ASSIGNMENT", "SUBMISSION_TAG", "COMMIT_URL", "RELEASE_URL", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "record.json").write_text(to_json(samples.failing()))
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "secret.json").write_text(to_json(secret()))
    return classes.out_dir(tmp_path / "graded")


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gone", "--format", "csv"], "an OUT_DIR or a record must exist, got gone"),
        (
            ["graded", "--format", "moodle"],
            f"--format must be one of {', '.join(formats())}, got 'moodle'",
        ),
        (["bad.json", "--format", "gradescope"], "a record must be a grade/result/v1 document, got bad.json: "),
        (["record.json", "--format", "canvas"], "canvas takes a class, an OUT_DIR of grade batch, got one record"),
        (["record.json", "--format", "classroom50"], "classroom50 needs the runner's environment, got no CLASSROOM, "),
        (["graded", "--format", "github"], "github takes one record, of the run that it is in, got the OUT_DIR graded"),
        (["record.json", "--format", "csv", "--out", "graded"], "an output must be a file, got the directory graded"),
        (["graded", "--format", "csv", "--audience", "all"], "--audience must be student or instructor, got 'all'"),
        (["graded", "--format", "canvas", "--column", "ex_15"], "--column must look like ex_15=90412, got 'ex_15'"),
        (["graded", "--format", "canvas", "--column", "ex_9=1"], "--column must look like ex_15=90412, got 'ex_9=1'"),
        (
            ["graded", "--format", "canvas", "--parts-left-out-too"],
            "--parts-left-out-too must come with --of-judged, got it alone",
        ),
        (["graded", "--format", "canvas", "--into", "gone.csv"], "--into must name a readable file, got gone.csv: "),
        (
            ["record.json", "--format", "gradescope", "--metadata", "gone"],
            "--metadata must name a readable file, got gone",
        ),
        (["record.json", "--format", "gradescope", "--metadata", "graded"], "--metadata must name a readable file, "),
    ],
)
def test_a_bad_command_line_is_refused_in_one_line(
    arguments: list[str], said: str, out_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch(["export", *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"grade: {said}")
    assert told.err.count("\n") == 1


def test_lateness_is_taken_off_in_files_of_the_gradebook_and_not_in_files_of_one_record(
    out_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = "lateness costs nothing in these files; csv and canvas take it off"
    # Ada earned 29.5 points, and lateness costs 4 of them.
    for name, file, points in (
        ("csv", "ex_15.csv", "25.5,29.5,41,41,2,4"),
        ("canvas", "canvas_ex_15.csv", "GPU-A,25.5"),
        ("gradescope", "ada/ex_15.json", '"score": 29.5,'),
        ("autolab", "ada/ex_15.txt", '{"ex_15":29.5}'),
    ):
        assert dispatch(["export", "graded", "--format", name]) == 0
        assert (note in capsys.readouterr().err) is (name in ("gradescope", "autolab"))
        assert points in (out_dir / "export" / name / file).read_text(), name


@pytest.mark.parametrize("format", [one.name for one in formats().values() if one.render or one.printed])
def test_one_record_s_document_goes_to_stdout_and_nothing_else_does(
    format: str, out_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = below(out_dir.parent)
    assert dispatch(["export", "record.json", "--format", format]) == 0
    assert capsys.readouterr().out
    assert below(out_dir.parent) == before


def test_the_help_names_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["export", "--help"]) == 0
    words = capsys.readouterr().out.replace(",", " ").split()
    assert set(formats()) <= set(words)


def test_one_record_s_document_is_written_where_it_is_wanted(out_dir: Path) -> None:
    assert dispatch(["export", "record.json", "--format", "gradescope", "--out", "results/results.json"]) == 0
    assert json.loads(Path("results/results.json").read_text())["score"] == 11


def test_a_class_s_documents_lie_by_student_and_exercise(out_dir: Path) -> None:
    assert dispatch(["export", "graded", "--format", "gradescope"]) == 0
    assert below(out_dir / "export" / "gradescope") == ["ada/ex_15.json", "evil/ex_15.json", "grace/ex_15.json"]


def test_the_class_s_tables_are_one_gradebook_and_a_file_an_exercise(out_dir: Path) -> None:
    assert dispatch(["export", "graded", "--format", "csv"]) == 0
    assert below(out_dir / "export" / "csv") == ["ex_15.csv", "gradebook.csv"]


def test_canvas_says_whose_marks_are_left_out_and_why(out_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["export", "graded", "--format", "canvas", "--column", "ex_15=90412"]) == 0
    assert "left out, ex_15: nothing was handed in: late" in capsys.readouterr().err
    assert "ex_15 Triton basics (90412)" in (out_dir / "export" / "canvas" / "canvas_ex_15.csv").read_text()


def test_canvas_s_own_export_is_filled_and_printed(out_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("canvas.csv").write_text("Student,ID,Section,ex_15 (4)\nAda,5501,A,1\n")
    assert dispatch(["export", "graded", "--format", "canvas", "--into", "canvas.csv"]) == 0
    assert capsys.readouterr().out == "Student,ID,Section,ex_15 (4)\r\nAda,5501,A,25.5\r\n"


def test_an_export_without_a_score_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classes.write(tmp_path, {})
    assert dispatch(["export", str(tmp_path), "--format", "canvas"]) == 2
    assert capsys.readouterr().err.endswith("grade: there must be a score to export, got none\n")


@pytest.mark.parametrize(
    ("record", "advice"),
    [
        (samples.failing, "--of-judged scales up the judged points"),
        (samples.without_parts, "--of-judged --parts-left-out-too scales up the judged points"),
    ],
)
def test_an_export_without_a_score_names_the_option_that_gives_one(
    record: Callable[[], Record], advice: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    classes.write(tmp_path, {("ada", "ex_15"): record()})
    asked = ["export", str(tmp_path), "--format", "canvas"]
    assert dispatch(asked) == 2
    assert capsys.readouterr().err.endswith(f"grade: there must be a score to export, got none; {advice}\n")
    assert dispatch([*asked, *advice.partition(" scales")[0].split()]) == 0


def test_canvas_takes_no_part_for_the_whole_unless_told_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classes.write(tmp_path, {("ada", "ex_15"): samples.without_parts(), ("evil", "ex_15"): classes.all_judged()})
    asked = ["export", str(tmp_path), "--format", "canvas", "--of-judged"]
    sheet = tmp_path / "export" / "canvas" / "canvas_ex_15.csv"
    assert dispatch(asked) == 0
    told = capsys.readouterr().err
    assert "left out, ex_15: nothing of f and g was judged (--of-judged --parts-left-out-too scales " in told
    assert "ada" not in sheet.read_text()
    assert dispatch([*asked, "--parts-left-out-too"]) == 0
    # 1 of 1 judged points is 41 of 41, less two late days of 7 %.
    assert '"Lovelace, Ada",5501,s-77,ada,GPU-A,35.26' in sheet.read_text()


def test_a_damaged_record_is_named_and_the_others_are_exported(
    out_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (out_dir / "records" / "ada" / "ex_15.json").write_text("{")
    assert dispatch(["export", "graded", "--format", "exercism"]) == 0
    assert "not read, records/ada/ex_15.json: Input data was truncated" in capsys.readouterr().err
    assert below(out_dir / "export" / "exercism") == ["evil/ex_15.json", "grace/ex_15.json"]


def test_a_secret_seed_is_shown_to_the_instructor_only(out_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["export", "secret.json", "--format", "gradescope"]) == 0
    assert SEED not in capsys.readouterr().out
    assert dispatch(["export", "secret.json", "--format", "gradescope", "--audience", "instructor"]) == 0
    assert SEED in capsys.readouterr().out


def test_a_workflow_s_step_gets_commands_on_stdout_and_its_summary_appended(
    out_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("summary.md").write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    assert dispatch(["export", "record.json", "--format", "github"]) == 0
    assert capsys.readouterr().out.startswith("::error file=ex_15_triton_basics.py,")
    assert Path("summary.md").read_text().startswith("before\n### ex\\_15 Triton basics")


def test_classroom_50_gets_its_two_files_in_the_working_directory(
    out_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("CLASSROOM", "gpu"), ("ASSIGNMENT", "ex-15"), ("SUBMISSION_TAG", "submit/1")):
        monkeypatch.setenv(name, value)
    for name in ("COMMIT_URL", "RELEASE_URL"):
        monkeypatch.setenv(name, f"https://e.org/{name}")
    assert dispatch(["export", "record.json", "--format", "classroom50"]) == 0
    assert json.loads(Path("result.json").read_text())["review"] == "https://e.org/COMMIT_URL"
    assert Path("release-body.md").is_file()
