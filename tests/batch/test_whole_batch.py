"""`grade batch` as a whole: real workers, real gradings, and what is in the folder afterwards.

What is killed is a process of its own, and starts its own worker. All else shares one worker.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader.batch import dask_workers, result_key
from grader.batch.ledger import Ledger
from grader.batch.reading import read, read_batch
from grader.batch.store import BatchStore, Submission
from grader.cli import batch as command
from grader.cli.commands.batch import BatchOptions
from grader.cli.main import dispatch
from grader.errors import MissingEnvironment, UsageError
from grader.exercise.catalogue import discover, resolve
from grader.record.record import from_json
from grader.report.isolation import FILES

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not dask_workers.is_installed(), reason="distributed is not installed"),
]

ROOT = Path(__file__).resolve().parents[2]
ENTRY, _ = resolve(ROOT, "ex_15")
SOLUTION = ENTRY.solution.read_text(encoding="utf-8")
WRONG = ENTRY.mistake("vector_add_last_element").text
STUB = ENTRY.pristine_stub.read_text(encoding="utf-8")
CRASH = "import os\n\n\ndef vector_add(x, y):\n    os._exit(0)\n"
FILE = f"{ENTRY.name}.py"


def lay(folder: Path, texts: dict[str, str]) -> Path:
    for student, text in texts.items():
        (folder / student).mkdir(parents=True, exist_ok=True)
        (folder / student / FILE).write_text(text, encoding="utf-8")
    return folder


def arguments(source: Path, out: Path, *more: str) -> list[str]:
    return ["batch", str(source), "--out", str(out), "--cpu", "--part", "vector_add", "--workers", "1", *more]


@pytest.fixture(scope="module")
def grade_here() -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Run a command in this process, with one worker for all of them: (exit code, what it printed, what it said)."""

    def run(*given: str) -> tuple[int, str, str]:
        with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()) as said:
            code = dispatch(given)
        return code, printed.getvalue(), said.getvalue()

    with pytest.MonkeyPatch.context() as patch, dask_workers.start_local(dask_workers.local_workers((), 1)) as workers:
        patch.setenv("GRADE_ROOT", str(ROOT))
        patch.setattr(command, "_workers_here", lambda _: contextlib.nullcontext(workers))
        yield run


def verdicts(out: Path) -> dict[str, str]:
    return {mark.student: mark.status for mark in read(out).marks}


@pytest.fixture(scope="module")
def graded(
    tmp_path_factory: pytest.TempPathFactory, grade_here: Callable[..., tuple[int, str, str]]
) -> tuple[Path, Path, str]:
    """A class of six with a hidden seed, graded once: (submissions, OUT_DIR, what was said)."""
    folder = tmp_path_factory.mktemp("class")
    source = lay(folder / "in", {"ada": SOLUTION, "bob": WRONG, "cy": STUB, "dee": CRASH, "eve": STUB})
    (source / "mallory").mkdir()
    (source / "mallory" / FILE).symlink_to("/etc/passwd")
    (folder / "roster.csv").write_text("id,name\n" + "".join(f"{one},\n" for one in ("ada", "bob", "cy", "dee", "zoe")))
    more = ("--seed", "hidden", "--roster", str(folder / "roster.csv"))
    code, printed, said = grade_here(*arguments(source, folder / "out", *more))
    assert code == 1, said
    return source, folder / "out", printed + said


def test_the_end_of_a_run_names_files_that_do_not_load_too(
    tmp_path: Path, grade_here: Callable[..., tuple[int, str, str]]
) -> None:
    source = lay(tmp_path / "in", {"ada": "def vector_add(x, y:\n"})
    _, printed, _ = grade_here(*arguments(source, tmp_path / "out"))
    assert "invalid file  ada, ex_15: SyntaxError (line 1): '(' was never closed\n" in printed


def test_everybody_gets_the_verdict_that_is_theirs(graded: tuple[Path, Path, str]) -> None:
    _, out, said = graded
    assert verdicts(out) == {
        "ada": "pass",
        "bob": "fail",
        "cy": "not_implemented",
        "dee": "crash",
        "zoe": "missing",
        "eve": "not_implemented",
        "mallory": "invalid_submission",
    }
    assert "not on the roster: eve, mallory" in said
    assert "invalid file  mallory, ex_15: a submission must be a regular file, got a symbolic link" in said
    # One line for two who handed in the same text.
    assert "[4/4]" in said
    assert "cy and 1 more  ex_15  not implemented" in said


def test_every_record_and_card_names_its_owner(graded: tuple[Path, Path, str]) -> None:
    _, out, _ = graded
    for student in ("ada", "bob", "cy", "dee", "eve", "mallory"):
        record = from_json((out / "records" / student / "ex_15.json").read_text())
        assert record.submission.student == student
        assert (out / "cards" / student / "ex_15.html").read_text().startswith("<!doctype html>")
    assert (out / "submissions" / "bob" / FILE).read_text() == WRONG


def test_no_student_s_file_shows_the_hidden_seed(graded: tuple[Path, Path, str]) -> None:
    _, out, said = graded
    results = [from_json(path.read_text()) for path in (out / "results").glob("*.json")]
    secrets = {json.loads((out / "secret.json").read_text())["seed"], *(one.seed for one in results)}
    secrets |= {check.counterexample.replay for one in results for check in one.checks if check.counterexample}
    assert len(secrets) > 1
    shown = said + (out / "batch.json").read_text() + (out / "journal.jsonl").read_text()
    for folder in ("records", "cards", "submissions"):
        shown += "".join(path.read_text() for path in (out / folder).rglob("*") if path.is_file())
    assert not [secret for secret in secrets if secret in shown or secret.rpartition(":")[2] in shown]


def test_a_run_that_changes_nothing_grades_nothing_and_writes_nothing(
    graded: tuple[Path, Path, str], grade_here: Callable[..., tuple[int, str, str]]
) -> None:
    _, out, _ = graded
    before = {path: path.stat().st_mtime_ns for path in (out / "records").rglob("*.json")}
    # The parts, the seed and the roster are those of the last run.
    _, printed, said = grade_here("batch", "--out", str(out), "--resume", "-q")
    assert printed.startswith("0 graded in "), said
    assert "5 as before" in printed
    assert {path: path.stat().st_mtime_ns for path in (out / "records").rglob("*.json")} == before


@pytest.mark.usefixtures("lent")
def test_an_appeal_is_replayed_on_the_same_bits(
    graded: tuple[Path, Path, str], grade_here: Callable[..., tuple[int, str, str]]
) -> None:
    _, out, _ = graded
    code, printed, _ = grade_here("batch", "--out", str(out), "--appeal", "bob")
    assert code == 0
    assert printed.startswith("ex_15: fail, ")
    line = next(line for line in printed.splitlines() if line.startswith("  vector_add.tail fail: grade replay "))
    code, replayed, _ = grade_here(*line.partition(": grade ")[2].split(), *([] if "--cpu" in line else ["--cpu"]))
    assert code == 1
    example = next(
        check.counterexample
        for path in (out / "results").glob("*.json")
        for check in from_json(path.read_text()).checks
        # Others failed at the same case in ways of their own.
        if (check.id, check.status) == ("vector_add.tail", "fail") and check.counterexample
        if check.counterexample.replay in line
    )
    assert example.rationale in " ".join(replayed.split())


def test_what_was_graded_can_be_exported_and_reported(graded: tuple[Path, Path, str], tmp_path: Path) -> None:
    _, out, _ = graded
    assert dispatch(["export", str(out), "--format", "csv", "--out", str(tmp_path / "csv")]) == 0
    rows = (tmp_path / "csv" / "gradebook.csv").read_text(encoding="utf-8").splitlines()
    assert {row.split(",")[0] for row in rows[1:]} == {"ada", "bob", "cy", "dee", "eve", "mallory", "zoe"}
    page = tmp_path / "class.html"
    assert dispatch(["report", str(out), "--out", str(page)]) == 0
    assert "bob" in page.read_text(encoding="utf-8")


def test_what_changed_is_graded_again_and_overrides_stay(
    graded: tuple[Path, Path, str], grade_here: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    source, out, _ = graded
    mine = tmp_path / "out"
    shutil.copytree(out, mine)
    changed = tmp_path / "in"
    shutil.copytree(source, changed, symlinks=True)
    lay(changed, {"cy": WRONG})
    shutil.rmtree(changed / "eve")
    table = tmp_path / "overrides.csv"
    table.write_text(
        "student,exercise,part,points,reason,author,comment\n"
        "dee,ex_15,,7,shown in person,prof,\nada,ex_15,vector_add,99,bonus,prof,Clear names.\n"
    )
    _, printed, said = grade_here(*arguments(changed, mine, "--overrides", str(table)))
    # Bob handed in that text, too: nothing is graded.
    assert printed.startswith("0 graded in "), said
    assert verdicts(mine)["cy"] == "fail"
    assert "the override for ada, ex_15 vector_add, gives 99 points; it is worth 20" in said
    assert "4 marks changed, none fell\n" in printed
    assert "  eve, ex_15: not implemented, 0 of 20 points, 15 judged -> missing\n" in printed
    assert "  cy, ex_15: not implemented, 0 of 20 points, 15 judged -> failed, " in printed
    assert "(another file)" in printed
    assert "  dee, ex_15: crashed, 0 of 20 points, 15 judged -> crashed, 7 of 20 points\n" in printed
    assert "Clear names." in (mine / "cards" / "ada" / "ex_15.html").read_text()
    assert from_json((mine / "records" / "ada" / "ex_15.json").read_text()).feedback[0].points == 99.0
    assert "eve" not in verdicts(mine)
    assert not (mine / "records" / "eve" / "ex_15.json").exists()
    lay(changed, {"cy": f"{STUB}\n# mine\n"})
    _, printed, said = grade_here(*arguments(changed, mine))
    assert printed.startswith("1 graded in "), said
    book = read(mine)
    assert (book.mark("cy", "ex_15").status, book.mark("dee", "ex_15").points) == ("not_implemented", 7.0)


def test_a_published_seed_is_in_every_record(graded: tuple[Path, Path, str], tmp_path: Path) -> None:
    _, out, _ = graded
    mine = tmp_path / "out"
    shutil.copytree(out, mine)
    assert dispatch(["batch", "--out", str(mine), "--publish"]) == 0
    seed = json.loads((mine / "secret.json").read_text())["seed"]
    record = from_json((mine / "records" / "bob" / "ex_15.json").read_text())
    assert record.seed == seed
    assert record.command == f"grade ex_15 --seed {seed}"
    assert any(check.counterexample and check.counterexample.replay for check in record.checks)
    assert dispatch(["batch", "--out", str(mine), "--publish"]) == 2
    assert read_batch(mine).seed == seed


def test_a_resumed_run_keeps_the_seed_of_its_folder(graded: tuple[Path, Path, str], tmp_path: Path) -> None:
    _, out, _ = graded
    mine = tmp_path / "out"
    shutil.copytree(out, mine)
    instead = "; leave --seed out, or name another --out"
    rule = "with --resume the seed must be the folder's own"

    def refused(seed: str, *, resume: bool = True) -> str:
        asked = BatchOptions(None, str(mine), seed=seed, resume=resume)
        with pytest.raises(UsageError) as said:
            command.completed(asked, read_batch(mine))
        return str(said.value)

    assert refused("5") == f"{rule} (hidden), got 5{instead}"
    # Without --resume as well: nothing says that a run without DIR is a new one.
    assert refused("5", resume=False) == f"without DIR the seed must be the folder's own (hidden), got 5{instead}"
    assert refused("many").startswith("a seed must be a number such as 17 or 0x5f")
    (mine / "secret.json").unlink()
    for own, asked in (("5", "hidden"), ("5", "6"), ("", "5")):
        BatchStore(mine).write_batch(replace(read_batch(mine), seed=own))
        assert refused(asked) == f"{rule} ({own or 'that of the default plan'}), got {asked}{instead}"
    BatchStore(mine).write_batch(replace(read_batch(mine), seed="0x11"))
    assert command.completed(BatchOptions(None, str(mine), seed="17", resume=True), read_batch(mine)).seed == "17"


def test_a_run_that_names_the_folder_again_says_that_the_seed_changes(
    graded: tuple[Path, Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADE_ROOT", str(ROOT))
    source, out, _ = graded
    mine = tmp_path / "out"
    shutil.copytree(out, mine)

    def notes(own: str, asked: str | None) -> tuple[str, ...]:
        options = BatchOptions(str(source), str(mine), seed=asked)
        return command.requested(options, replace(read_batch(mine), seed=own))[2].notes

    told = "everything is graded on other inputs"
    assert f"the seed was hidden, and is 5 now: {told}" in notes("hidden", "5")
    assert f"the seed was that of the default plan, and is hidden now: {told}" in notes("", "hidden")
    assert not [note for own, asked in (("5", "0x5"), ("5", None)) for note in notes(own, asked) if told in note]


def test_only_takes_a_student_who_is_called_like_a_state_by_a_form_of_its_own() -> None:
    ada, failed = Submission("ada", "ex_15", ""), Submission("failed", "ex_15", "")
    assert command.selected(None, [failed]) == (False, "")
    assert command.selected("failed", [ada]) == (True, "")
    assert command.selected("changed", [ada]) == (False, "")
    assert command.selected("state:failed", [ada, failed]) == (True, "")
    assert command.selected("student:failed", [ada, failed]) == (False, "failed")
    assert command.selected("ada", [ada, failed]) == (False, "ada")
    with pytest.raises(UsageError) as said:
        command.selected("failed", [ada, failed])
    assert str(said.value) == (
        "--only must have one meaning, got failed, which is a student's id, too: "
        "write --only state:failed or --only student:failed"
    )
    for nobody in ("zoe", "student:zoe", "state:zoe"):
        with pytest.raises(UsageError, match="or the id of a student who handed in"):
            command.selected(nobody, [ada, failed])


def test_a_hidden_seed_is_taken_up_again_after_another_one_unless_it_was_published(
    graded: tuple[Path, Path, str], grade_here: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    _, out, _ = graded
    mine = tmp_path / "out"
    shutil.copytree(out, mine)
    store = BatchStore(mine)
    store.write_batch(replace(read_batch(mine), seed="5"))
    again = ("batch", "--out", str(mine), "--resume", "--seed", "hidden", "-q")
    _, printed, said = grade_here(*again)
    # The results of the hidden seed are still there.
    assert printed.startswith("0 graded in "), said
    assert read_batch(mine).seed == "hidden"
    assert dispatch(["batch", "--out", str(mine), "--publish"]) == 0
    seed = json.loads((mine / "secret.json").read_text())["seed"]
    for own in (seed, "5"):
        store.write_batch(replace(read_batch(mine), seed=own))
        code, _, said = grade_here(*again)
        assert (code, said) == (
            2,
            f"grade: a hidden seed must not be known, got {seed}, which is published in this folder; "
            "leave --seed out, or name another --out\n",
        )


def test_a_run_that_is_killed_goes_on_where_it_was(
    grade_here: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    texts = {f"student_{place}": f"{STUB}# {place}\n" for place in range(3)}
    source, out = lay(tmp_path / "in", texts), tmp_path / "out"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GRADE_ROOT": str(ROOT)}
    journal = out / "journal.jsonl"
    with subprocess.Popen(
        [sys.executable, "-m", "grader", *arguments(source, out)], env=environment, stderr=subprocess.DEVNULL
    ) as running:
        deadline = time.monotonic() + 300
        while not (journal.is_file() and journal.read_bytes().count(b"\n") >= 1) and time.monotonic() < deadline:
            time.sleep(0.02)
        running.send_signal(signal.SIGKILL)
    had = len(list(BatchStore(out).journal()))
    assert 1 <= had < 3
    with journal.open("ab") as file:
        file.write(b'{"time": "2026')
    code, _, said = grade_here("batch", "--out", str(out), "--resume", "--workers", "1")
    assert code == 3, said
    assert set(verdicts(out).values()) == {"not_implemented"}
    # What was being kept at that moment may be graded twice or stand in no line; nothing else is.
    assert len(verdicts(out)) == 3
    assert 2 <= len(list(BatchStore(out).journal())) <= 4


# -- refused before anything runs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--resume", "--fresh"], "at most one of --resume and --fresh must be given"),
        (["--resume"], "--resume must find an earlier run, got none in "),
        (["--workers", "0"], "--workers must be at least 1, got 0"),
        (["--workers", "1", "--scheduler", "tcp://x"], "at most one of --workers and --scheduler must be given"),
        (["--limit-minutes", "0"], "--limit-minutes must be above 0, got 0"),
        (["--exercise", "ex_51"], "the exercise must be one of "),
        (["--part", "gelu"], "a part must be one of "),
        (["--seed", "many"], "a seed must be a number such as 17 or 0x5f, got 'many'"),
        (["--only", "zoe"], "--only must be failed, changed, or the id of a student who handed in, got 'zoe'"),
        (["--roster", "gone.csv"], "a table must be readable, got gone.csv: No such file or directory"),
        (["--publish"], "a folder that `grade batch` wrote must hold batch.json, got "),
        (["--scheduler", "nowhere"], "a scheduler must answer at nowhere, got: "),
    ],
)
def test_a_bad_command_line_is_refused_in_one_line(
    more: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_workers, "_CONNECT_S", 0.1)
    source = lay(tmp_path / "in", {"ada": SOLUTION})
    code = dispatch(["batch", str(source), "--out", str(tmp_path / "out"), "-q", *more])
    assert code == (4 if "--scheduler" in more and "--workers" not in more else 2)
    error = capsys.readouterr().err
    assert error.startswith(f"grade: {said}")
    assert error.count("\n") == 1


@pytest.mark.parametrize("out", ["in", "in/out", "in/../in/ada/out"])
def test_a_folder_of_submissions_takes_no_results(
    out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = lay(tmp_path / "in", {"ada": SOLUTION})
    for more in ([], ["--dry-run"]):
        assert dispatch(["batch", "in", "--out", out, *more]) == 2
        rule = "--out must lie outside the folder of submissions"
        assert capsys.readouterr().err == f"grade: {rule}, got {out} in {source}; write --out {source}-graded\n"
    assert [path.name for path in source.iterdir()] == ["ada"]


@pytest.mark.parametrize("more", [[], ["--dry-run"], ["--publish"]])
@pytest.mark.parametrize("out", ["file", "file/below/it"])
def test_a_file_takes_no_results(
    out: str, more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lay(tmp_path / "in", {"ada": SOLUTION})
    (tmp_path / "file").write_text("mine")
    assert dispatch(["batch", "in", "--out", out, *more]) == 2
    rule = "--out must be a folder, new or of an earlier run"
    assert capsys.readouterr().err == f"grade: {rule}, got the file {tmp_path}/file; name another --out\n"
    assert (tmp_path / "file").read_text() == "mine"


def test_results_may_lie_beside_a_class_and_its_archive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lay(tmp_path, {"in/ada": SOLUTION}))
    shutil.make_archive("class", "zip", "in")
    for source in ("in", "class.zip"):
        assert dispatch(["batch", source, "--out", "in-graded", "--dry-run"]) == 0, capsys.readouterr().err


@pytest.mark.usefixtures("without_cutlass")
def test_parts_that_cannot_be_judged_are_named_before_anything_is_graded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in ("ex_15_triton_basics", "ex_17_cutlass_gemm"):
        (tmp_path / "in" / "ada").mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / "ada" / f"{number}.py").write_text("x = 1\n")

    def told(**more: Any) -> str:
        asked = BatchOptions(str(tmp_path / "in"), "out", **more)
        command._announce(*command.requested(asked, None), asked)
        return capsys.readouterr().err

    said = "  blocked_gemm and gemm of ex_17 cannot be judged here: cutlass is not installed: pip install "
    assert said in told()
    assert said.replace("blocked_gemm and ", "") in told(exercises=("ex_17",), parts=("gemm",))
    assert "cannot be judged" not in told(exercises=("ex_15",))
    # What a cluster's workers have is not to be seen from here.
    assert "cannot be judged" not in told(scheduler="tcp://a:1")


def test_a_student_s_gradings_share_kernels_with_nobody_else_s(tmp_path: Path) -> None:
    asked = BatchOptions(str(lay(tmp_path / "in", {"ada": SOLUTION, "bob": WRONG})), str(tmp_path / "out"), cpu=True)
    whole, entries, _ = command.requested(asked, None)
    terms = result_key.terms(entries.values(), gpu=False)
    tasks = Ledger(BatchStore(tmp_path / "out"), whole, entries, terms, None, lambda: "").tasks()

    assert {task.owner: task.text for task in tasks} == {"ada": SOLUTION, "bob": WRONG}


def test_an_empty_folder_is_no_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    assert dispatch(["batch", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 2
    assert "somebody must have handed in an exercise (ex_15, " in capsys.readouterr().err


def test_a_machine_that_cannot_confine_strangers_code_is_refused_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = BatchOptions(None, "out", cpu=True)
    every = result_key.terms(discover(ROOT), gpu=False)

    open_to_all = {"tcp://a": replace(every, layers=("process group", "own user", "seccomp"))}
    monkeypatch.setattr(dask_workers, "terms_by_worker", lambda client, cpu: open_to_all)
    with pytest.raises(MissingEnvironment) as refused:
        command._terms_of(None, asked)
    assert FILES in str(refused.value)
    assert "--allow-unconfined" in str(refused.value)
    trusting = BatchOptions(None, "out", cpu=True, allow_unconfined=True)
    assert command._terms_of(None, trusting) == every


def test_workers_that_differ_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = BatchOptions(None, "out", cpu=True, allow_unconfined=True)
    every = result_key.terms(discover(ROOT), gpu=False)

    other = replace(every, environment='{"gpu": "H200"}')
    mixed = {"tcp://a": every, "tcp://b": other}
    monkeypatch.setattr(dask_workers, "terms_by_worker", lambda client, cpu: mixed)
    with pytest.raises(MissingEnvironment, match=r"all workers must be alike, got .*H200.* at tcp://b and tcp://a"):
        command._terms_of(None, asked)
