"""docs/first-hour.md, followed step by step: a newcomer in `grade watch` sees what the page shows."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from grader.cli.main import app, dispatch
from grader.cli.watch import watch
from grader.exercise import plan
from grader.exercise.catalogue import resolve
from tests.fences import fences

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "first-hour.md"
# Fences by what stands behind their language: "first=kernel", "screen=untouched".
FENCES = {" ".join(fence.labels): fence.body for fence in fences(PAGE) if fence.labels}
# For a machine that has much else to do: no test is about time.
PATIENCE_S = 60
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Newcomer:
    """Somebody at a terminal of 100 columns in which `grade watch` runs."""

    def __init__(self, file: Path) -> None:
        self.ours, self.theirs = pty.openpty()
        self.file = file
        self._sent = ""

    def press(self, key: str) -> None:
        os.write(self.ours, key.encode())

    def save(self, text: str) -> None:
        self.file.write_text(text, encoding="utf-8")

    def until(self, *words: str) -> str:
        """Return what the terminal shows when all the words are there, with nothing before the last clearing."""
        deadline = time.monotonic() + PATIENCE_S
        while not all(word in self._shown() for word in words):
            assert time.monotonic() < deadline, f"waited for {words}, got {self._shown()}"
            if select.select([self.ours], [], [], 0.1)[0]:
                self._sent += os.read(self.ours, 65536).decode("utf-8", "replace")
        return ESCAPES.sub("", self._shown())

    def _shown(self) -> str:
        return self._sent.rpartition("\x1b[2J")[2].replace("\r", "")

    def close(self) -> None:
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture
def course(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the exercises; the working directory is in it, and the terminal has 100 columns and no colour."""
    for name, value in {"COLUMNS": "100", "LINES": "50", "NO_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    return tree


@contextmanager
def at_a_terminal(file: Path) -> Iterator[Newcomer]:
    """Let this process read and write at a terminal, in front of which somebody sits."""
    newcomer, before = Newcomer(file), signal.getsignal(signal.SIGHUP)
    try:
        with (
            pytest.MonkeyPatch.context() as patch,
            os.fdopen(os.dup(newcomer.theirs), "r", encoding="utf-8") as typed,
            os.fdopen(os.dup(newcomer.theirs), "w", encoding="utf-8") as shown,
        ):
            patch.setattr(sys, "stdin", typed)
            patch.setattr(sys, "stdout", shown)
            yield newcomer
    finally:
        signal.signal(signal.SIGHUP, before)
        newcomer.close()


@pytest.fixture
def few_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grade by a few cases a check: the page does not tell how many there are."""
    draw = plan.draw

    def brief(*args: object, **named: object) -> plan.Plan:
        whole = draw(*args, **named)  # type: ignore[arg-type]
        first = whole.checks[0].part
        checks = (replace(one, cases=one.cases[: 4 if one.part is first else 1]) for one in whole.checks)
        return replace(whole, checks=tuple(checks))

    monkeypatch.setattr(plan, "draw", brief)


def with_kernel(text: str, kernel: str) -> str:
    """The file with this kernel in the place of what stands between the heading of part 1 and its function."""
    before, rest = text.split("# Part 1\n", 1)
    return f"{before}# Part 1\n\n{kernel}\n\ndef vector_add(" + rest.split("def vector_add(", 1)[1]


def with_launch(text: str, body: str) -> str:
    """The file with this body in the place of the line that raises."""
    return re.sub(r"^    raise NotImplementedError\(\"vector_add.*\n", lambda _: body, text, flags=re.MULTILINE)


def shows(screen: str, output: str) -> None:
    """See that the screen holds the lines of an output, in order; where the page leaves some out it has dots."""
    place = 0
    for line in output.splitlines():
        for piece in filter(None, (part.strip() for part in line.split("…"))):
            assert piece in screen[place:], f"{piece!r} is not on the screen:\n{screen}"
            place = screen.index(piece, place) + len(piece)


def follow(newcomer: Newcomer, solution: str) -> None:
    """Do what the page says, and see what it shows."""
    shows(newcomer.until("0 of 75 points", "q quit"), FENCES["screen=untouched"])
    newcomer.press("h")
    newcomer.until("Hint 1 of 3 for vector_add")
    text = with_kernel(newcomer.file.read_text(encoding="utf-8"), FENCES["first=kernel"])
    text = with_launch(text, FENCES["first=body"])
    newcomer.save(text)
    shows(newcomer.until("4 of 75 points", "q quit"), FENCES["screen=fails"])
    newcomer.press("p")
    shows(newcomer.until("Inputs: ", "q quit"), FENCES["screen=case"])
    newcomer.save(with_kernel(text, FENCES["then=kernel"]))
    shows(newcomer.until("15 of 75 points", "q quit"), FENCES["screen=passes"])
    newcomer.save(solution)
    shows(newcomer.until("75 of 75 points", "n next"), FENCES["screen=done"])
    # The page does not leave the loop; `q` does in tests/watch/test_terminal.py.
    os.kill(os.getpid(), signal.SIGTERM)
    newcomer.until("\x1b[?25h")


@pytest.mark.usefixtures("lent", "few_cases")
def test_the_loop_shows_what_the_page_shows(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry, file = resolve(course, "ex_15")
    with at_a_terminal(file) as newcomer, ThreadPoolExecutor(1) as hands:

        def follow_or_end() -> None:
            try:
                follow(newcomer, entry.source("solution.py"))
            except BaseException:
                os.kill(os.getpid(), signal.SIGTERM)
                raise

        followed = hands.submit(follow_or_end)
        code = watch("ex_15", cpu=True, serve=False, quiet=True)
        followed.result()
    assert code == 128 + signal.SIGTERM
    capsys.readouterr()
    for command in ("hint", "list"):
        assert dispatch(FENCES[f"output={command}"].splitlines()[0].split()[2:]) == 0
        shows(capsys.readouterr().out, FENCES[f"output={command}"].partition("\n")[2])
    assert dispatch(["solution", "ex_15"]) == 0
    text = capsys.readouterr().out
    assert "yours" in text
    assert text.endswith(f"\n{entry.solution}\n")


@pytest.mark.usefixtures("lent", "course")
def test_the_doctor_says_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["doctor"]) == 0
    # What is isolated, and whether there is a GPU, differs from machine to machine.
    shows(capsys.readouterr().out, FENCES["output=doctor"].partition("        isolation")[0])


@pytest.mark.parametrize("name", re.findall(r"`?grade ([a-z]+)", PAGE.read_text(encoding="utf-8")))
def test_every_command_of_the_page_exists(name: str) -> None:
    known = {command.name for command in app.registered_commands}
    assert name in known or name == "ex"
