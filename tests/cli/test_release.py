"""The student bundle: it grades, it is the same every time, and no answer is in it."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from grader.cli.main import dispatch
from grader.exercise.catalogue import discover
from grader.release import bundle

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = discover(ROOT)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "course"
    assert dispatch(["release", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def secret() -> dict[Path, str]:
    """Return whole texts, as they are graded, by where each lies."""
    files = [path for entry in ENTRIES for path in (entry.solution, *entry.fast, *entry.honest, *entry.bases)]
    planted = {one.path: one.text for entry in ENTRIES for one in entry.wrong}
    return {path: path.read_text(encoding="utf-8") for path in files} | planted


def bodies(text: str) -> Iterator[str]:
    """Every function's body without its docstring, as code that no comment and no line break changes.

    A body of one statement is left out: planted mistakes that call the library say what the oracle says.
    """
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            yield from body_of(textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno])))


@cache
def body_of(function: str) -> tuple[str, ...]:
    """Return the body, or nothing. A planted mistake has most functions of its base."""
    (node,) = ast.parse(function).body
    assert isinstance(node, ast.FunctionDef)
    first = node.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    body = node.body[1:] if documented else node.body
    return ("\n".join(ast.unparse(statement) for statement in body),) if len(body) > 1 else ()


def test_no_file_of_an_answer_is_in_it(released: Path, secret: dict[Path, str]) -> None:
    hashes = {hashlib.sha256(path.read_bytes()).hexdigest() for path in secret}
    held = [path for path in released.rglob("*") if path.is_file()]
    assert len(hashes) > 100
    assert [path for path in held if hashlib.sha256(path.read_bytes()).hexdigest() in hashes] == []
    answers = ("solution.py", "fast", "wrong", "honest", "tests", "measure.py")
    # The command `grade solution` has a file of that name, and no answer in it.
    beside_commands = [path for path in released.rglob("*") if path.parent.name != "commands"]
    assert [path for path in beside_commands if path.name in answers] == []


def test_no_function_body_of_an_answer_is_in_it(released: Path, secret: dict[Path, str]) -> None:
    homes = {body: path for path, text in secret.items() for body in bodies(text)}
    held = [
        (str(path.relative_to(released)), str(homes[body]))
        for path in released.rglob("*.py")
        for body in bodies(path.read_text(encoding="utf-8"))
        if body in homes
    ]
    assert len(homes) > 300
    assert held == []


def test_no_long_line_of_an_answer_is_in_it(released: Path, secret: dict[Path, str]) -> None:
    """Comments and docstrings too; lines that a stub has as well are no secret, nor are short idioms."""
    handed_out = "\n".join(entry.source("stub.py") for entry in ENTRIES)
    lines = {line.strip() for text in secret.values() for line in text.splitlines()}
    telling = {line for line in lines if len(line) >= 60 and line not in handed_out and "----" not in line}
    held = {
        line.strip()
        for path in released.rglob("*")
        if path.is_file()
        for line in path.read_text(encoding="utf-8").splitlines()
    }
    assert len(telling) > 500
    assert telling & held == set()


def test_it_has_the_same_bytes_every_time(released: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        assert dispatch(["release", str(tmp_path / "again")]) == 0
    finally:
        os.umask(before)

    def state(folder: Path) -> dict[str, tuple[bytes, int]]:
        files = [path for path in folder.rglob("*") if path.is_file()]
        return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode) for path in files}

    assert state(released) == state(tmp_path / "again")


def test_its_list_names_every_file_with_its_hash(released: Path) -> None:
    listed = json.loads((released / "release.json").read_text())["files"]
    held = {str(path.relative_to(released)) for path in released.rglob("*") if path.is_file()}
    assert set(listed) == held - {"release.json"}
    assert all(hashlib.sha256((released / name).read_bytes()).hexdigest() == said for name, said in listed.items())


def test_what_somebody_tried_in_exercises_is_not_handed_out(tmp_path: Path) -> None:
    held = bundle.files(ENTRIES, ROOT / "grader", "1")
    for entry in ENTRIES:
        assert held[f"exercises/{entry.name}.py"] == entry.pristine_stub.read_bytes()


def test_the_answers_that_a_wheel_carries_are_not_handed_out(tmp_path: Path) -> None:
    package = tmp_path / "grader"
    answers = package / "course" / "reference" / ENTRIES[0].name
    answers.mkdir(parents=True)
    for name in ("pyproject.toml", "constraints.txt"):
        (package / "course" / name).write_text(name)
    (answers / "solution.py").write_text("the answer")
    (package / "judge.py").write_text("")
    held = bundle.files(ENTRIES[:1], package, "1")
    assert b"the answer" not in held.values()
    assert held["pyproject.toml"] == b"pyproject.toml"
    assert [name for name in held if name.startswith("grader/")] == ["grader/judge.py"]


def test_an_exercise_is_the_same_one_there(released: Path) -> None:
    """Its hash is in every record: a student's own grading and the instructor's are of the same exercise."""
    assert {entry.name: entry.sha256() for entry in discover(released)} == {
        entry.name: entry.sha256() for entry in ENTRIES
    }


def grade(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "GRADE_ROOT")}
    command = [sys.executable, "-m", "grader", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)


def test_it_lists_and_grades_one_part_and_untouched_stubs_in_a_clean_folder(tmp_path: Path) -> None:
    first, other = ENTRIES[0], ENTRIES[-1]
    folder = tmp_path / "course"
    assert dispatch(["release", str(folder), "--exercises", f"{first.number},{other.number}"]) == 0
    listed = grade(folder, "list", "--json")
    assert [(one["id"], one["state"]) for one in json.loads(listed.stdout)] == [
        (first.id, "not started"),
        (other.id, "not started"),
    ]
    answered, *others = first.exercise.parts
    left_out = "".join(f"\n\ndef {part.name}(*_):\n    raise NotImplementedError\n" for part in others)
    mine = folder / "exercises" / f"{first.name}.py"
    mine.write_text(first.solution.read_text(encoding="utf-8") + left_out, encoding="utf-8")
    graded = grade(folder, "all", "--cpu", "-q", "--json", "-")
    assert graded.returncode == 3, graded.stderr
    found = {one["id"]: one["record"] for one in json.loads(graded.stdout)["exercises"]}
    assert found[other.id]["verdict"] == "not_implemented"
    statuses: dict[str, set[str]] = {part.name: set() for part in first.exercise.parts}
    for one in found[first.id]["checks"]:
        if one["status"] != "skipped_environment":
            statuses[one["part"]].add(one["status"])
    assert statuses == {answered.name: {"pass"}, **{part.name: {"not_implemented"} for part in others}}
    assert (folder / "scorecards" / f"{first.id}.html").is_file()


def test_the_author_s_gate_says_what_it_misses_there(released: Path) -> None:
    checked = grade(released, "check", ENTRIES[0].id)
    assert checked.returncode == 2
    said = f"grade: an exercise must have its solution to be checked, got none for {ENTRIES[0].id}\n"
    assert checked.stderr == said


def test_only_the_wanted_exercises_are_in_it(tmp_path: Path) -> None:
    wanted = ENTRIES[-1]
    assert dispatch(["release", str(tmp_path / "one"), "--exercises", f"{wanted.number},{wanted.id}"]) == 0
    assert [entry.name for entry in discover(tmp_path / "one")] == [wanted.name]
    assert not [entry.id for entry in ENTRIES[:-1] if entry.id in (tmp_path / "one" / "README.md").read_text()]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["."], "grade: a bundle's folder must be new or empty, got .\n"),
        (["new", "--exercises", "ex_99"], "grade: the exercise must be one of "),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_line(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "something").touch()
    monkeypatch.chdir(tmp_path)
    assert dispatch(["release", *arguments]) == 2
    assert capsys.readouterr().err.startswith(said)
    assert os.listdir(tmp_path) == ["something"]
