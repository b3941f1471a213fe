"""The command line: bad ones are refused in one line, good ones end with the promised code and files."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from grader import __version__
from grader.cli.files import chosen_file, read_submission
from grader.cli.main import dispatch
from grader.exercise.catalogue import Entry, discover
from grader.record.record import from_json
from grader.sandbox.server import ForkServer
from tests.conftest import answered, plan_with

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = ROOT / "reference" / "ex_15_triton_basics" / "solution.py"
KNOWN = ", ".join(entry.id for entry in discover(ROOT))


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said on stderr, which must be one line; nothing may be on stdout."""
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err.strip()


def bad_file(tree: Path, name: str, data: bytes) -> list[str]:
    (tree / name).write_bytes(data)
    return ["ex_15", "--submission", name]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ex_51"], f"grade: the exercise must be one of {KNOWN}, got 'ex_51'; did you mean ex_15?"),
        (["nothing_like_it"], f"grade: the exercise must be one of {KNOWN}, got 'nothing_like_it'"),
        (["ex_15", "--submission", "gone.py"], "grade: a submission must exist, got gone.py"),
        (["ex_15", "--submission", "exercises"], "grade: a submission must be a file, got the directory exercises"),
        (["ex_15", "--seed", "many"], "grade: a seed must be a number such as 17 or 0x5f, got 'many'"),
        (["ex_15", "--seed=-1"], "grade: a seed must lie in 0 … 2^64-1, got -1"),
        (["ex_15", "--json", "exercises"], "grade: an output must be a file, got the directory exercises"),
        (["ex_15", "--html", "/proc/card.html"], "grade: an output must be writable, got /proc/card.html: "),
        (["ex_15", "--json", "-", "--html", "-"], "grade: at most one output must be -, got several"),
        (["other/file.py"], f"grade: a path must name a file of an exercise ({KNOWN}), got 'other/file.py'"),
        (["replay", "ex_15"], "grade: a replay token must look like ex_15:vector_add.tail:N=65,dtype=float16:0x5f"),
        (["check"], "grade: exactly one of an exercise and --all must be given, got neither"),
        (["check", "ex_15", "--all"], "grade: exactly one of an exercise and --all must be given, got both"),
        (["check", "ex_15", "--jobs", "0"], "grade: --jobs must be at least 1, got 0"),
        (["hint", "ex_15", "--part", "gelu"], "grade: a part must be one of vector_add, "),
        (
            ["trace", "ex_15", "--part", "vector_ad"],
            "grade: a part must be one of vector_add, fused_multiply_add, row_softmax, global_sum, got 'vector_ad'; "
            "did you mean vector_add?",
        ),
        (["reset"], "grade: grade reset must get EXERCISE: ex_15, 15, the full name, or a path to a file of that "),
        (["list", "extra"], "grade: Got unexpected extra argument(s) (extra) (grade list --help)"),
        (["ex_15", "--sed", "1"], "grade: No such option"),
    ],
)
def test_a_bad_command_line_is_refused_in_one_line(
    arguments: list[str], said: str, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch(arguments) == 2
    assert one_line(capsys).startswith(said)
    assert not list((tree / "scorecards").glob("*"))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "a submission must not be empty, got bad.py"),
        (b" \n\t\n", "a submission must not be empty, got bad.py"),
        (b"x = '\xff'", "a submission must be UTF-8, got byte 0xff in line 1 of bad.py; save it as UTF-8"),
        (b"# -*- coding: utf-7 -*-\n", "a submission must be UTF-8, and its first lines declare utf-7 in bad.py"),
        (b"#!python\n# coding=klingon\n", "a submission must be UTF-8, and its first lines declare klingon in bad.py"),
        (
            b"x = 1\ny = 2\nx = '\xfc'",
            "a submission must be UTF-8, got byte 0xfc in line 3 of bad.py; save it as UTF-8",
        ),
        (b"x = 1\0", "a submission must be text, got a NUL byte in line 1 of bad.py; save it as UTF-8"),
        (b"#" * (1 << 20) + b"\n", "a submission must hold at most 1048576 bytes, got more in bad.py"),
    ],
)
def test_a_file_that_cannot_be_a_submission_is_refused_in_one_line(
    data: bytes, said: str, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch(bad_file(tree, "bad.py", data)) == 2
    assert one_line(capsys) == f"grade: {said}"


def test_who_emptied_or_deleted_their_own_file_is_told_how_to_restore_it(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tree / "exercises" / "ex_15_triton_basics.py"
    own.write_bytes(b"")
    assert dispatch(["ex_15"]) == 2
    asked = "grade reset ex_15 restores the stub"
    assert one_line(capsys) == f"grade: a submission must not be empty, got {own}; {asked}"
    own.unlink()
    assert dispatch(["ex_15"]) == 2
    assert one_line(capsys) == f"grade: a submission must exist, got {own}; {asked}"
    assert dispatch(["reset", "ex_15", "--yes"]) == 0
    assert own.stat().st_size


def test_a_link_to_a_file_of_another_folder_is_no_submission(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Such a link may come with a repository. It would hand in the model solution, or somebody else's file.
    (tree / "handed.py").symlink_to(tree / "reference" / "ex_15_triton_basics" / "solution.py")
    (tree / "handed_twice.py").symlink_to("handed.py")
    for name in ("handed.py", "handed_twice.py"):
        assert dispatch(["ex_15", "--submission", name]) == 2
        said = f"a submission must not be a link to a file in another folder, got {name}: name that file"
        assert one_line(capsys) == f"grade: {said}"
    (tree / "round.py").symlink_to("round.py")
    assert dispatch(["ex_15", "--submission", "round.py"]) == 2
    assert one_line(capsys).startswith("grade: a submission must ")


def test_a_link_within_its_folder_is_followed(tree: Path) -> None:
    (tree / "mine.py").write_text("import torch\n")
    (tree / "linked.py").symlink_to("mine.py")
    assert read_submission(chosen_file("ex_15", "linked.py")[1]) == "import torch\n"


def test_earlier_scorecards_survive_a_refused_command(tree: Path) -> None:
    (tree / "scorecards").mkdir()
    (tree / "scorecards" / "ex_15.html").write_text("earlier")
    assert dispatch(["ex_15", "--json", "/proc/card.json"]) == 2
    assert (tree / "scorecards" / "ex_15.html").read_text() == "earlier"


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["--version"]) == 0
    assert capsys.readouterr().out == f"grade {__version__}\n"


def test_reset_keeps_a_backup_and_restores_the_stub(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tree / "exercises" / "ex_15_triton_basics.py"
    mine.write_text("# my work\n")
    assert dispatch(["reset", "ex_15", "--yes"]) == 0
    assert mine.read_bytes() == (tree / "reference" / "ex_15_triton_basics" / "stub.py").read_bytes()
    (backup,) = (tree / "exercises").glob("*.bak")
    assert backup.read_text() == "# my work\n"
    assert str(backup) in capsys.readouterr().out


def test_reset_asks_before_it_replaces_anything(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tree / "exercises" / "ex_15_triton_basics.py"
    mine.write_text("# my work\n")
    assert dispatch(["reset", "ex_15"]) == 2
    assert one_line(capsys) == "grade: resetting must be confirmed: grade reset ex_15 --yes"
    assert mine.read_text() == "# my work\n"


def test_reset_leaves_an_untouched_stub_alone(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["reset", "15"]) == 0
    assert "untouched stub already" in capsys.readouterr().out
    assert not list((tree / "exercises").glob("*.bak"))


def test_the_list_names_parts_and_state(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["id"] for entry in listed] == [entry.id for entry in discover(tree)]
    entry = next(entry for entry in listed if entry["id"] == "ex_15")
    assert entry["parts"] == ["vector_add", "fused_multiply_add", "row_softmax", "global_sum"]
    assert entry["state"] == "not started"


def test_hints_get_plainer_and_say_how_to_go_on(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["hint", "ex_15", "--part", "global_sum"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("global_sum (hint 1 of 3): ")
    assert said.endswith("Plainer: grade hint ex_15 --part global_sum --level 2\n")


# -- gradings, in this process ---------------------------------------------------------------------------------------


def graded(*arguments: str) -> int:
    return dispatch(["ex_15", "--cpu", *arguments])


@pytest.mark.usefixtures("lent")
def test_a_right_part_ends_with_0_and_every_point_that_can_be_judged_and_every_output_is_written(tree: Path) -> None:
    """The whole solution is for the author's gate: it grades every part of every exercise."""
    outputs = ("--json", "out/a.json", "--html", "out/a.html", "--junit", "out/a.xml")
    assert graded("--part", "vector_add", "--submission", str(SOLUTION), *outputs) == 0
    record = from_json((tree / "out" / "a.json").read_text())
    assert [part.name for part in record.parts] == ["vector_add"]
    assert record.score == record.judged_score == 15
    assert record.verdict == "pass"
    assert (tree / "out" / "a.html").is_file()
    assert 'classname="grade.ex_15_triton_basics"' in (tree / "out" / "a.xml").read_text()


@pytest.mark.usefixtures("lent")
def test_only_all_parts_of_the_learner_s_own_file_replace_the_standing_record(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cards = tree / "scorecards"
    cards.mkdir()
    (cards / "ex_15.json").write_text("earlier")
    (cards / "ex_15.html").write_text("earlier")
    mine = tree / "exercises" / "ex_15_triton_basics.py"
    shutil.copy(mine, tree / "my other.py")
    aside = {
        ("--part", "vector_add"): "ex_15-vector_add",
        ("--submission", "my other.py"): "ex_15-my_other",
        ("--submission", "my other.py", "--part", "global_sum"): "ex_15-my_other-global_sum",
    }
    for more, name in aside.items():
        assert graded("-q", *more) == 3
        assert f"Scorecard: {cards / name}.html\n" in capsys.readouterr().err
        assert from_json((cards / f"{name}.json").read_text()).exercise.id == "ex_15"
    assert (cards / "ex_15.json").read_text() == (cards / "ex_15.html").read_text() == "earlier"
    assert graded("-q", "--submission", f"exercises/../exercises/{mine.name}") == 3
    assert f"Scorecard: {cards / 'ex_15.html'}\n" in capsys.readouterr().err
    assert from_json((cards / "ex_15.json").read_text()).submission.path == str(mine)


@pytest.mark.usefixtures("lent")
def test_exit_zero_is_for_adapters_that_want_it(tree: Path) -> None:
    assert graded("--part", "vector_add", "-q") == 3
    assert graded("--part", "vector_add", "-q", "--exit-zero") == 0


@pytest.mark.usefixtures("lent")
def test_an_untouched_stub_ends_with_3_and_every_part_not_implemented(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A terminal without Unicode: it refuses every other letter, which that of a process would show as an escape.
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    monkeypatch.setattr("sys.stdout", terminal)
    assert graded("--seed", "7") == 3
    assert b"0 of 75 points that could be judged here" in terminal.buffer.getvalue()  # type: ignore[attr-defined]
    assert (tree / "scorecards" / "ex_15.html").read_text().startswith("<!doctype html>")
    record = from_json((tree / "scorecards" / "ex_15.json").read_text())
    assert {check.status for check in record.checks} == {"not_implemented", "skipped_environment"}
    assert (record.seed, record.command) == ("0x7", "grade ex_15 --seed 0x7 --cpu")


# -- whole processes -------------------------------------------------------------------------------------------------


def grade(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grader", *arguments]
    given = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, env=given, check=False)


def test_a_failing_case_is_replayed_alone_and_bit_for_bit_by_another_process(
    tree: Path, server: ForkServer, ex_15: Entry
) -> None:
    mistake = tree / "mistake.py"
    mistake.write_text(ex_15.mistake("vector_add_last_element").text, encoding="utf-8")
    (tail,) = answered(server, ex_15, mistake, plan_with(ex_15, "vector_add.tail", cases=3)).checks
    assert tail.counterexample is not None
    token = tail.counterexample.replay
    replayed = grade(tree, "replay", token, "--cpu", "--submission", str(mistake), "--json", "-")
    assert replayed.returncode == 1
    assert tail.counterexample.rationale in " ".join(replayed.stderr.split())
    (again,) = from_json(replayed.stdout).checks
    assert (again.id, again.status) == ("vector_add.tail", "fail")


@pytest.mark.usefixtures("lent", "without_cutlass")
def test_the_doctor_runs_a_real_kernel_and_names_the_parts_that_lack_an_extra(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert dispatch(["doctor"]) == 0
    examined = capsys.readouterr().out
    assert "ok      a Triton kernel in mode interpret: right" in examined
    assert (
        "absent  blocked_gemm and gemm of ex_17 cannot be judged here: cutlass is not installed: "
        "pip install -c constraints.txt -e '.[cutlass]'\n"
    ) in examined


def test_an_interrupt_leaves_at_once_and_leaves_nothing_running(tree: Path) -> None:
    # A runner in the background may have been started with the interrupt ignored, and would pass that on.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "grader", "ex_15", "--submission", str(SOLUTION)]
    with subprocess.Popen(
        command,
        cwd=tree,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as running:
        assert running.stderr is not None
        running.stderr.readline()
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 130
        assert b"Traceback" not in running.stderr.read()
