"""Every command in README.md, CONTRIBUTING.md and docs/ is one that there is, and is executed or says why it is not.

The labels of a fence, behind its language: docs/links.py takes them off for the site, and GitHub shows none.

    output=NAME     executed, and its output compared: test_quoted_outputs.py and test_first_hour.py
    test=FILE       executed in that file; where it is this one, the fence itself is read: its `grade` commands are run
    gpu, platform   needs a GPU; needs a network, Docker, a cluster or another project's checkout
    long            a measurement that takes minutes
    synopsis        the form of a command, with brackets
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import typer

from grader.cli.main import app, dispatch
from grader.errors import GradeError
from grader.exercise import plan
from grader.exercise.catalogue import discover, resolve
from grader.exercise.model import Exercise
from grader.grading import Job
from grader.sandbox.server import ForkServer
from tests.conftest import lend
from tests.fences import FENCE, Fence, fences, plain
from tests.records import classes

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
HERE = Path(__file__).relative_to(ROOT).as_posix()
# Pages whose outputs a test compares: it names them, or is about the page.
QUOTING = ("tests/docs/test_quoted_outputs.py", "tests/docs/test_first_hour.py")
WORDS = ("gpu", "platform", "long", "synopsis")

FENCES = tuple(fence for page in PAGES for fence in fences(page) if fence.commands)
# Those that the commands run here name: `grade all` takes seconds for the others.
EXERCISES = ("ex_15", "ex_16", "ex_17")
RUN_HERE = tuple(fence for fence in FENCES if HERE in fence.tests)


@cache
def invented() -> frozenset[str]:
    """Return the exercises that a page shows how to write."""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    return frozenset(re.findall(r"file=exercises/(ex_\d+)_", text))


@cache
def command_line() -> Any:
    """Return the parser of the command line. Typer's own type of it keeps back what its methods return."""
    return typer.main.get_command(app)


def fault(words: tuple[str, ...]) -> str:
    """Return what is wrong with the words of a command: '' if the command line takes them."""
    group = command_line()
    try:
        context = group.make_context("grade", list(words))
        name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        given = command.make_context(name, rest, parent=context).params
        exercise = given.get("exercise")
        entry = resolve(ROOT, exercise)[0] if exercise and exercise not in invented() else None
    except GradeError as error:
        return str(error)
    # Help and the version end the parser. Typer brings its own click, so its errors are known by their methods.
    except Exception as error:
        return error.format_message() if hasattr(error, "format_message") else ""
    parts = {part.name for part in entry.exercise.parts} if entry else set()
    part = given.get("part") or ()
    if entry and (unknown := {*([part] if isinstance(part, str) else part)} - parts):
        return f"--part must be one of {sorted(parts)}, got {sorted(unknown)}"
    gone = [word for word in words if word.startswith(("reference/", "tests/")) and not (ROOT / word).exists()]
    return f"a file of this repository must exist, got {gone}" if gone else ""


@pytest.mark.parametrize("fence", [one for one in FENCES if "synopsis" not in one.labels], ids=lambda one: one.where)
def test_the_command_line_takes_every_command(fence: Fence) -> None:
    assert [(words, said) for words in fence.grades if (said := fault(words))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_command_line_takes_every_command_within_a_line(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    pieces = [" ".join(found.split()) for found in re.findall(r"`(grade [^`]+)`", text)]
    whole = [tuple(shlex.split(plain(piece))[1:]) for piece in pieces if not re.search(r"[…\[{]", piece)]
    found = [(words, said) for words in whole if (said := fault(words))]
    # Within a sentence a command may stand without what it is applied to.
    assert [(words, said) for words, said in found if not said.startswith("Missing argument")] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("lsit",), "did you mean list?"),
        (("ex_99",), "ex_99"),
        (("ex_15", "--prat", "vector_add"), "--prat"),
        (("ex_15", "--part", "matmul"), "--part must be one of"),
        (("ex_15", "--submission", "reference/gone.py"), "a file of this repository must exist"),
    ],
)
def test_what_there_is_not_is_found(words: tuple[str, ...], said: str) -> None:
    assert said in fault(words)


@pytest.mark.parametrize("fence", FENCES, ids=lambda one: one.where)
def test_every_fence_with_commands_says_how_they_are_executed(fence: Fence) -> None:
    kinds = {label.partition("=")[0] if "=" in label else label for label in fence.labels}
    assert kinds, "a fence with commands must have a label"
    assert kinds <= {"output", "test", *WORDS}
    if "output" in kinds:
        assert any(f'"{fence.page.stem}"' in _text(name) or f"{fence.page.stem}.md" in _text(name) for name in QUOTING)


@pytest.mark.parametrize("fence", [one for one in FENCES if one.tests], ids=lambda one: one.where)
def test_a_test_that_a_fence_names_has_its_commands(fence: Fence) -> None:
    if HERE not in fence.tests:
        texts = "".join(_text(name) for name in fence.tests)
        # `grade ex_15` is short for `grade run ex_15`.
        names = {words[0] for words in fence.grades} | {
            word for words in fence.grades for word in words if word[0] == "-"
        }
        assert [name for name in sorted(names) if not re.search(rf"(?<![\w-]){name}(?![\w-])", texts)] == []


@cache
def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Course:
    """A folder with exercises, and the commands that were run there: several fences hold the same one."""

    folder: Path
    done: set[tuple[str, ...]]

    def run(self, words: tuple[str, ...]) -> int:
        """Run a command in the course as it was after the first grading; its exit code. Once is enough."""
        if words in self.done:
            return 0
        self.done.add(words)
        # A fence lists what one can do, not one thing after the other.
        shutil.rmtree(self.folder / "scorecards")
        shutil.copytree(self.folder / "as_graded", self.folder / "scorecards")
        # Absolute paths are those of a platform's image: here they lie in the course.
        here = [word.removeprefix("/") for word in words]
        # How a class is graded has tests of its own: here its tables and its submissions are read.
        return dispatch([*here, "--dry-run"] if here[0] == "batch" else here)


@pytest.fixture(scope="module")
def course(server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    """A course with all that the pages' commands read, in which a file was graded that fails. It is the working
    directory. One case of each part is drawn, no kernel is compiled for a record and no cause is searched for: how a
    file is judged has tests of its own.
    """
    folder = tmp_path_factory.mktemp("course")
    ignored = shutil.ignore_patterns("__pycache__", "wrong", "honest")
    for one in EXERCISES:
        found, stub = resolve(ROOT, one)
        shutil.copytree(found.folder, folder / "reference" / found.name, ignore=ignored)
        (folder / "exercises").mkdir(exist_ok=True)
        shutil.copy(stub, folder / "exercises")
    entry, _ = resolve(ROOT, "ex_15")
    mistake = entry.mistake("vector_add_last_element").text
    given = (f"exercises/{entry.name}.py", "ada.py", f"autograder/submission/{entry.name}.py")
    handed_in = [f"{place}/ada/{entry.name}.py" for place in ("class", "submissions")]
    tables = {
        "roster.csv": "id,name\nada,Ada L\nzoe,Zoe\n",
        "late.toml": "due = 2026-11-01T23:59:00+01:00\n",
        "autograder/submission_metadata.json": "{}",
    }
    for name, text in {**dict.fromkeys((*given, *handed_in), mistake), **tables}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("autograder/results", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    classes.out_dir(folder / "graded")
    draw, drawn = plan.draw, {}

    def brief(exercise: Exercise, *args: Any, **named: Any) -> plan.Plan:
        key = (exercise.title, args, *sorted(named.items()))
        whole = drawn[key] = drawn.get(key) or draw(exercise, *args, **named)
        first = {one.part.name: one for one in reversed(whole.checks)}
        return replace(whole, checks=tuple(replace(one, cases=one.cases[:1]) for one in reversed(first.values())))

    with pytest.MonkeyPatch.context() as patch:
        lend(server, patch)
        patch.setattr(plan, "draw", brief)
        patch.setattr("grader.grading.Job", partial(Job, compiled=False, diagnosed=False))
        patch.chdir(folder)
        patch.delenv("GRADE_ROOT", raising=False)
        assert dispatch(["ex_15", "-q", "--json", "record.json"]) == 1
        shutil.copytree("scorecards", "as_graded")
        yield Course(folder, set())


# A learner's file may fail, or not be written yet. A bad command is no answer, nor is a fault of the grader.
_ANSWERS = (0, 1, 3)


@pytest.mark.parametrize("fence", RUN_HERE, ids=lambda one: one.where)
def test_the_commands_of_a_fence_run(fence: Fence, course: Course, capsys: pytest.CaptureFixture[str]) -> None:
    for words in fence.grades:
        assert course.run(words) in _ANSWERS, (words, capsys.readouterr())


def test_the_pages_have_fences_of_every_kind() -> None:
    assert len(FENCES) > 60
    assert len(RUN_HERE) > 10
    assert {entry.id for entry in discover(ROOT)}.isdisjoint(invented())
