"""The shelf at the command line: the list, the solution once it is earned, hints as data, completion, wrong words."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from grader.cli import model_solution, saved
from grader.cli.all import worst, write_index
from grader.cli.finish import finish_of
from grader.cli.main import dispatch
from grader.cli.next_step import step_after
from grader.cli.scorecard import card_page
from grader.exercise.catalogue import Entry, discover, resolve
from grader.exercise.model import check_id
from grader.record.causes import Counterexample
from grader.record.record import Record, to_json
from grader.record.statuses import Status
from grader.report.view import next_step
from tests.forwarded import command_in
from tests.records import samples

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def entry(tree: Path) -> Entry:
    return resolve(tree, "ex_15")[0]


def keep(entry: Entry, status: Status = "pass") -> Record:
    """Let the learner's file be one that was graded: all its checks passed, but the first one, which is as given."""
    text = "# my own work\n"
    entry.stub.write_text(text)
    named = [(check_id(part, check), check) for part, check in entry.exercise.checks()]
    checks = tuple(
        samples.check(name, check.title, status if i == 0 else "pass", check.points, check.points)
        for i, (name, check) in enumerate(named)
    )
    whole = samples.record(checks, ())
    record = replace(
        whole,
        exercise=replace(whole.exercise, id=entry.id, spec_sha256=entry.sha256()),
        submission=replace(
            whole.submission, path=str(entry.stub.resolve()), sha256=hashlib.sha256(text.encode()).hexdigest()
        ),
    )
    saved.card_of(entry).parent.mkdir(exist_ok=True)
    saved.card_of(entry).with_suffix(".json").write_text(to_json(record))
    return record


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert dispatch(list(arguments)) == code
    return capsys.readouterr().out


def rows(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    return {row["id"]: row for row in json.loads(said(capsys, "list", "--json"))}


def test_the_list_follows_the_file_and_the_record(entry: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    assert rows(capsys)["ex_15"]["state"] == "not started"
    keep(entry)
    found = rows(capsys)
    assert (found["ex_15"]["state"], found["ex_15"]["points"]) == ("done", 100)
    assert "1 of 5 done" in said(capsys, "list")
    entry.stub.write_text("# something else\n")
    assert rows(capsys)["ex_15"]["state"] == "changed"
    entry.stub.unlink()
    assert "no file; grade reset ex_15 brings the stub back" in said(capsys, "list")


def test_the_list_names_files_as_they_are_found_from_here(
    entry: Entry, tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADE_ROOT", str(tree))
    monkeypatch.chdir(tree)
    assert f"\n       {entry.stub.relative_to(tree)}\n" in said(capsys, "list")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert f"\n       {entry.stub}\n" in said(capsys, "list")


def graded(entry: Entry, path: Path, **statuses: Status) -> Record:
    """Let the parts of a file be graded, each with one status for all its checks."""
    checks = tuple(
        samples.check(check_id(part, check), check.title, statuses[part.name], check.points, check.points)
        for part, check in entry.exercise.checks()
        if part.name in statuses
    )
    whole = samples.record(checks, ())
    record = replace(
        whole,
        exercise=replace(whole.exercise, id=entry.id, spec_sha256=entry.sha256()),
        submission=replace(whole.submission, path=str(path.resolve())),
    )
    saved.card_of(entry).parent.mkdir(exist_ok=True)
    saved.keep_results(entry, record, path.read_text())
    return record


def write_part(entry: Entry, part: str) -> None:
    """Write the part's function in the learner's file: in the stub it raises."""
    before, _, after = entry.stub.read_text().partition(f'raise NotImplementedError("{part}')
    entry.stub.write_text(f"{before}return x\n{after.partition(chr(10))[2]}")


def test_parts_that_are_graded_one_by_one_add_up(entry: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    names = [part.name for part in entry.exercise.parts]
    for i, name in enumerate(names):
        write_part(entry, name)
        record = graded(entry, entry.stub, **{name: "pass"})
        following = step_after(entry, record)
        assert following is not None
        command = f"grade ex_15 --part {names[i + 1]}" if i + 1 < len(names) else "grade watch ex_16"
        assert following.command == command
    assert rows(capsys)["ex_15"]["state"] == "done"
    assert "Next: write matmul: grade watch ex_16" in said(capsys, "list")
    entry.stub.write_text(entry.stub.read_text().replace("    return x\n", "    return y\n", 1))
    assert f"changed since: {names[0]}" in said(capsys, "list")
    assert f"Next: grade the new {names[0]}: grade watch ex_15" in said(capsys, "list")


def test_what_anybody_elses_file_earned_is_not_the_learners(entry: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    write_part(entry, "vector_add")
    for path in (entry.solution, *entry.honest):
        record = graded(entry, path, **{part.name: "pass" for part in entry.exercise.parts})
        assert step_after(entry, record) is None
        page = card_page(entry, record)
        assert next_step(record).command in page
        assert "grade watch" not in page
    assert rows(capsys)["ex_15"]["state"] == "not graded"


def test_what_fails_is_repaired_before_anything_is_written(entry: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    write_part(entry, "row_softmax")
    graded(entry, entry.stub, row_softmax="fail")
    assert "Next: repair row_softmax: grade watch ex_15" in said(capsys, "list")
    row = rows(capsys)["ex_15"]
    assert row["next_part"] == "row_softmax"
    assert row["part_states"] == {
        "vector_add": "not started",
        "fused_multiply_add": "not started",
        "row_softmax": "open",
        "global_sum": "not started",
    }


def test_the_solution_is_for_whoever_has_one(
    entry: Entry, tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted(entry: Entry, source: str) -> Record:
        """Stand for a grading of the solution."""
        record = samples.on_paper()
        sha256 = hashlib.sha256(source.encode()).hexdigest()
        return replace(
            record,
            exercise=replace(record.exercise, spec_sha256=entry.sha256()),
            submission=replace(record.submission, sha256=sha256),
        )

    monkeypatch.setattr(model_solution, "_counted", counted)
    assert dispatch(["solution", "ex_15"]) == 1
    told = capsys.readouterr()
    assert (told.out, "not started" in told.err) == ("", True)
    keep(entry, "fail")
    assert dispatch(["solution", "15"]) == 1
    told = capsys.readouterr()
    assert "open: vector_add: Right for lengths that fill every block" in told.err
    record = keep(entry)
    text = said(capsys, "solution", "ex_15")
    assert "yours" in text
    assert "Nothing can be saved here: three elements move for each result." in " ".join(text.split())
    assert text.endswith(f"\n{entry.solution}\n")
    page = (tree / "scorecards" / "ex_15-beside.html").read_text()
    assert "def vector_add_kernel(" in page
    # What the solution costs is counted once, as long as solution and specification stay the same.
    monkeypatch.setattr(model_solution, "_counted", None)
    assert said(capsys, "solution", "ex_15") == text
    document = json.loads(said(capsys, "solution", "ex_15", "--json"))
    assert [part["title"] for part in document["parts"]] == ["Vector addition"]
    assert {cost["own"] for cost in document["parts"][0]["costs"]} == {"–"}
    # Now the learner's record holds what was counted.
    paper = {check.id: check for check in samples.on_paper().checks}
    counting = replace(record, checks=tuple(paper.get(check.id, check) for check in record.checks))
    saved.card_of(entry).with_suffix(".json").write_text(to_json(counting))
    document = json.loads(said(capsys, "solution", "ex_15", "--json"))
    assert [cost["own"] for cost in document["parts"][0]["costs"]] == ["1", "120,000", "0", "734 µs"]
    assert said(capsys, "solution", "ex_15", "--print") == entry.solution.read_text()
    copy = tree / "solutions" / "ex_15_triton_basics.py"
    assert said(capsys, "solution", "ex_15", "--write") == f"{copy}\n"
    assert copy.read_text() == entry.solution.read_text()
    entry.stub.write_text("# broken again\n")
    assert json.loads(said(capsys, "solution", "ex_15", "--json", code=1))["solution"] is None


def test_the_solution_waits_for_parts_that_were_not_judged_and_says_what_to_install(
    entry: Entry, capsys: pytest.CaptureFixture[str]
) -> None:
    record = keep(entry)
    checks = tuple(
        replace(check, status="skipped_environment", reason="dsl is not installed: pip install dsl", points=0.0)
        if check.part == "global_sum"
        else check
        for check in record.checks
    )
    saved.card_of(entry).with_suffix(".json").write_text(to_json(replace(record, checks=checks)))
    said_of_it = "nothing of global_sum was judged (dsl is not installed: pip install dsl)"
    assert said_of_it in said(capsys, "list")
    assert dispatch(["solution", "ex_15"]) == 1
    assert said_of_it in capsys.readouterr().err
    assert said_of_it in json.loads(said(capsys, "solution", "ex_15", "--json", code=1))["words"]


def test_a_student_bundle_says_that_it_has_no_solution(entry: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    keep(entry)
    entry.solution.unlink()
    assert dispatch(["solution", "ex_15"]) == 2
    assert "a student bundle without that of ex_15" in capsys.readouterr().err


def test_hints_are_data_as_well_and_name_the_next_command(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(said(capsys, "hint", "ex_15", "--part", "global_sum", "--level", "2", "--json"))
    assert [hint["part"] for hint in told["hints"]] == ["global_sum"]
    assert told["next"] == "grade hint ex_15 --part global_sum --level 3"
    assert "Next: grade watch ex_15" in said(capsys, "hint", "ex_15", "--level", "3")


def test_a_hint_without_an_exercise_is_for_the_part_that_comes_next(
    entry: Entry, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "hint").startswith("vector_add (hint 1 of 3): ")
    write_part(entry, "row_softmax")
    graded(entry, entry.stub, row_softmax="fail")
    assert said(capsys, "hint").startswith("row_softmax (hint 1 of 3): ")
    other, _ = resolve(entry.root, "ex_16")
    write_part(other, other.exercise.parts[0].name)
    graded(other, other.stub, **{other.exercise.parts[0].name: "fail"})
    assert said(capsys, "hint").startswith(f"{other.exercise.parts[0].name} (hint 1 of 3): ")


def test_the_exercise_that_is_worked_on_is_the_last_graded_one_unless_it_is_done(entry: Entry) -> None:
    other, _ = resolve(entry.root, "ex_16")
    assert saved.current(entry.root) == entry
    write_part(other, other.exercise.parts[0].name)
    graded(other, other.stub, **{other.exercise.parts[0].name: "fail"})
    assert saved.current(entry.root) == other
    graded(other, other.stub, **{part.name: "pass" for part in other.exercise.parts})
    assert saved.current(entry.root) == entry


def test_the_last_failure_is_the_first_failing_case_that_is_kept(
    entry: Entry, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch(["replay"]) == 2
    assert "replay needs a case that failed, got none; grade ex_15" in capsys.readouterr().err
    token = "ex_15:row_softmax.tail:M=1,N=3:0x5f"
    record = graded(entry, entry.stub, vector_add="pass", row_softmax="fail")
    checks = tuple(
        replace(check, counterexample=Counterexample({}, "M=1, N=3", token) if check.status == "fail" else None)
        for check in record.checks
    )
    saved.keep_results(entry, replace(record, checks=checks), entry.stub.read_text())
    assert saved.last_failure(entry.root) == token
    # An edit does not take it away: it is what the edit is tried on.
    write_part(entry, "row_softmax")
    assert saved.last_failure(entry.root) == token
    # Nor does an exercise that was graded later and does not fail.
    other, _ = resolve(entry.root, "ex_16")
    graded(other, other.stub)
    assert saved.current(entry.root) == other
    assert saved.last_failure(entry.root) == token
    # Nor does it matter that only a record tells of it.
    saved.card_of(entry).with_suffix(".kept").unlink()
    saved.card_of(entry).with_suffix(".json").write_text(to_json(replace(record, checks=checks)))
    assert saved.last_failure(entry.root) == token


def test_another_file_is_replayed_by_a_token_only(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["replay", "--submission", "ada.py"]) == 2
    assert "a token must be given with --submission, got only ada.py" in capsys.readouterr().err


def test_help_is_a_command_too_and_keeps_learners_and_instructors_apart(capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, "help")
    assert shown == said(capsys, "--help")
    learners, instructors = shown.split("Commands for learners:")[1].split("Commands for authors and instructors:")
    assert "  watch " in learners
    assert "  batch " in instructors
    assert "  batch " not in learners
    assert said(capsys, "help", "watch") == said(capsys, "watch", "--help")


@pytest.mark.parametrize(
    ("path", "parts", "name"),
    [
        ("exercises/ex_15_triton_basics.py", (), "ex_15"),
        ("reference/../exercises/ex_15_triton_basics.py", (), "ex_15"),
        ("exercises/ex_15_triton_basics.py", ("global_sum", "vector_add"), "ex_15-vector_add-global_sum"),
        (
            "exercises/ex_15_triton_basics.py",
            ("vector_add", "row_softmax", "global_sum", "fused_multiply_add"),
            "ex_15",
        ),
        ("ada.py", (), "ex_15-ada"),
        ("ada.py", ("vector_add",), "ex_15-ada-vector_add"),
        ("a b/../$(x)\n.. .py", (), "ex_15-_x_"),
        ("bj\udcf6rn.py", (), "ex_15-bj_rn"),
        (f"{'ö' * 120}.py", (), f"ex_15-{'ö' * 50}"),
    ],
    ids=["own", "own by a detour", "parts", "every part", "file", "file and part", "signs", "no UTF-8", "long"],
)
def test_a_part_and_another_file_have_scorecards_of_their_own(
    entry: Entry, tree: Path, path: str, parts: tuple[str, ...], name: str
) -> None:
    assert saved.card_for(entry, Path(path), parts) == tree / "scorecards" / f"{name}.html"


def test_attempts_are_texts_that_were_tried(entry: Entry) -> None:
    record = keep(entry, "fail")
    assert saved.note_attempt(entry, record) == 1
    assert saved.note_attempt(entry, record) == 1
    other = replace(record, submission=replace(record.submission, sha256="0" * 64))
    assert saved.note_attempt(entry, other) == 2
    elsewhere = replace(other, submission=replace(other.submission, path="/elsewhere.py", sha256="1" * 64))
    assert saved.note_attempt(entry, elsewhere) == 2
    broken = replace(
        record,
        submission=replace(record.submission, sha256="2" * 64),
        checks=tuple(replace(check, status="invalid_submission") for check in record.checks),
    )
    assert saved.note_attempt(entry, broken) == 2


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([0, 0], 0),
        ([0, 4], 0),
        ([4, 4], 4),
        ([0, 3, 4], 3),
        ([3, 1, 0], 1),
        ([1, 2], 2),
        ([1, 5, 2], 5),
        ([], 4),
    ],
)
def test_the_exit_code_of_all_is_the_worst_and_what_a_machine_lacks_is_no_failure(codes: list[int], code: int) -> None:
    assert worst(codes) == code


def test_the_index_links_to_the_scorecards_and_shows_how_far_everything_is(entry: Entry, tree: Path) -> None:
    keep(entry)
    saved.card_of(entry).write_text("<!doctype html>")
    page = write_index(discover(tree)).read_text()
    assert "1 of 5 exercises done; 100 of 100 points" in page
    assert '<a href="ex_15.html">Triton basics</a>' in page
    assert "<code>grade solution ex_15</code>" in page
    assert "<code>grade watch ex_16</code>" in page
    assert "<script" not in page
    assert "http://" not in page
    assert "https://" not in page


# -- words and completion --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "meant"), [("wathc", "watch"), ("lst", "list"), ("hnt", "hint"), ("solutoin", "solution")]
)
def test_a_mistyped_command_is_asked_about(
    tree: Path, capsys: pytest.CaptureFixture[str], word: str, meant: str
) -> None:
    assert dispatch([word, "ex_15"]) == 2
    assert capsys.readouterr().err.endswith(f"got '{word}'; did you mean {meant}?\n")


def completions(command: Path, *words: str) -> list[str]:
    """What bash would offer for the last word, with the script that we print and a command that is this grade."""
    script = (
        'eval "$(grade completion bash)"\n'
        'COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _grade_completion grade; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    given = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}
    shell = ["bash", "--norc", "-c", script, "bash", "grade", *words]
    return subprocess.run(shell, capture_output=True, text=True, env=given, check=True).stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="the script is one for bash")
def test_bash_completes_commands_exercises_options_and_parts(tree: Path) -> None:
    with command_in(tree / "bin") as command:
        assert completions(command, "wa") == ["watch"]
        first = completions(command, "")
        assert {"watch", "all", "solution", "ex_15"} <= set(first)
        assert "--seed" in completions(command, "ex_15", "--s")
        assert completions(command, "hint", "ex_15", "--part", "g") == ["global_sum"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert "_GRADE_COMPLETE" in said(capsys, "completion", shell)


def test_another_shell_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["completion", "tcsh"]) == 2
    assert capsys.readouterr().err == "grade: the shell must be one of bash, zsh, fish, got 'tcsh'\n"


# -- every exercise --------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tree: Path) -> Path:
    """Two exercises, of which one has no file any more."""
    for entry in discover(tree):
        if entry.id not in ("ex_15", "ex_16"):
            shutil.rmtree(entry.folder)
    (tree / "exercises" / "ex_16_triton_gemm.py").unlink()
    return tree


@pytest.mark.usefixtures("lent")
def test_all_goes_on_after_a_missing_file_and_gives_one_document(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(said(capsys, "all", "--cpu", "-q", "--json", "-", code=2))
    assert (document["schema"], document["exit_code"]) == ("grade/all/v1", 2)
    first, second = document["exercises"]
    assert (first["id"], first["record"]["verdict"]) == ("ex_15", "not_implemented")
    assert (second["record"], "grade reset ex_16" in second["why"]) == (None, True)
    page = (small / "scorecards" / "index.html").read_text()
    assert "0 of 2 exercises done" in page


def test_the_page_of_a_finished_exercise_leads_to_the_solution(entry: Entry) -> None:
    finish = finish_of(entry, keep(entry))
    assert finish is not None
    assert finish.solution == "grade solution ex_15"
    assert finish.questions == entry.questions != ()
    assert finish_of(entry, keep(entry, "fail")) is None
    record = keep(entry)
    assert finish_of(entry, replace(record, checks=record.checks[1:])) is None


def test_explain_answers_the_questions_of_an_exercise(entry: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "explain", "ex_15")
    assert "What is Triton and why use it over CUDA?" in text
    assert "Next: grade ex_15" in text
    document = json.loads(said(capsys, "explain", "15", "--json"))
    assert [one["question"] for one in document["questions"]] == [one.question for one in entry.questions]
    (entry.folder / "interview.py").unlink()
    assert said(capsys, "explain", "ex_15") == "ex_15 has no questions.\n"
