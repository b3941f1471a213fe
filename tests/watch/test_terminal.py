"""`grade watch` as a whole process: behind a terminal, and behind none."""

from __future__ import annotations

import ctypes
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.exercise.catalogue import resolve

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "reference" / "ex_15_triton_basics"
# For a machine that has much else to do: no test is about time.
PATIENCE_S = 120

HANGING = "\n\ndef vector_add(x, y):\n    while True:\n        pass\n"


class Terminal:
    """The command on a pseudo-terminal, and the output that it sent there."""

    def __init__(self, tree: Path, *arguments: str, **environment: str) -> None:
        self.ours, self.theirs = pty.openpty()
        self.sent = ""
        self._mark = 0
        scratch = tree / "scratch"
        scratch.mkdir()
        given = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "TMPDIR": str(scratch), **environment}
        self.scratch = scratch
        self.process = subprocess.Popen(
            ["env", "--default-signal=INT", sys.executable, "-m", "grader", "watch", *arguments],
            cwd=tree,
            env=given,
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            start_new_session=True,
        )

    def until(self, *words: str) -> str:
        """Return the output since the last call, as soon as it holds one of the words."""
        deadline = time.monotonic() + PATIENCE_S
        while not any(word in self.sent[self._mark :] for word in words):
            assert time.monotonic() < deadline, f"waited for {words}, got {self.sent[self._mark :]!r}"
            if select.select([self.ours], [], [], 0.1)[0]:
                self.sent += os.read(self.ours, 65536).decode("utf-8", "replace")
        new = self.sent[self._mark :]
        end = min(new.index(word) + len(word) for word in words if word in new)
        self._mark += end
        return new[:end]

    def press(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def is_cooked(self) -> bool:
        modes = int(termios.tcgetattr(self.theirs)[3])
        return bool(modes & termios.ICANON and modes & termios.ECHO)

    def wait(self) -> int:
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a copy of one exercise."""
    for folder in ("exercises", "reference"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "exercises" / f"{FOLDER.name}.py", tmp_path / "exercises")
    ignored = shutil.ignore_patterns("__pycache__", "wrong", "honest")
    shutil.copytree(FOLDER, tmp_path / "reference" / FOLDER.name, ignore=ignored)
    return tmp_path


@pytest.fixture
def mine(tree: Path) -> Path:
    return tree / "exercises" / f"{FOLDER.name}.py"


@pytest.fixture
def terminal(tree: Path) -> Iterator[Terminal]:
    terminal = Terminal(tree, "15", "--cpu")
    yield terminal
    terminal.close()


def test_the_loop_from_the_first_save_to_the_last_key(terminal: Terminal, mine: Path, tree: Path) -> None:
    assert "Checking" in terminal.until("quit")
    terminal.until("run again")
    assert not terminal.is_cooked()
    # A save while an endless kernel is judged cancels that run. Keys pressed meanwhile are ignored.
    mine.write_text(mine.read_text() + HANGING)
    terminal.until("Checking")
    terminal.press("hlx")
    mine.write_text(resolve(ROOT, "ex_15")[0].mistake("vector_add_last_element").text)
    said = terminal.until("attempt 1")
    assert "timed out" not in said
    terminal.until("quit")
    terminal.press("h")
    terminal.until("Hint 1 of 3 for vector_add")
    terminal.press("p")
    terminal.until("Around the worst element")
    terminal.press("x")
    terminal.until("A backup is kept")
    terminal.press("y")
    terminal.until(".bak")
    terminal.until("run again")
    assert mine.read_text() == (FOLDER / "stub.py").read_text()
    terminal.press("q")
    assert terminal.wait() == 0
    assert terminal.is_cooked()
    terminal.until("\x1b[?25h")
    # Hypothesis keeps a folder of its own there; of the submissions nothing is left.
    assert [path.name for path in terminal.scratch.iterdir() if not path.name.startswith("grade-hypothesis")] == []
    assert len((tree / "scorecards" / "ex_15.attempts").read_text().splitlines()) == 1


def ends_by(terminal: Terminal, number: signal.Signals) -> None:
    """See that a signal ends the command, restores the terminal and leaves nothing."""
    terminal.process.send_signal(number)
    assert terminal.wait() == 128 + number
    assert terminal.is_cooked()
    assert [path.name for path in terminal.scratch.iterdir() if not path.name.startswith("grade-hypothesis")] == []


def test_another_file_is_watched_without_replacing_the_standing_record_until_a_signal_ends_it(
    tree: Path, mine: Path
) -> None:
    cards, other = tree / "scorecards", tree / "other" / mine.name
    other.parent.mkdir()
    shutil.copy(mine, other)
    terminal = Terminal(tree, str(other), "--cpu")
    try:
        terminal.until("run again")
        other.write_text(mine.read_text() + HANGING)
        terminal.until("Checking")
        ends_by(terminal, signal.SIGINT)
    finally:
        terminal.close()
    assert sorted(path.name for path in cards.iterdir()) == [f"ex_15-{mine.stem}.html", f"ex_15-{mine.stem}.json"]


def signal_another_thread(pid: int, number: signal.Signals) -> None:
    """As a signal looks to a loop that is just about to wait: its wait is not interrupted."""
    # By then it waits for good; if it does not, the test is only an easier one.
    time.sleep(1)
    others = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir() if int(task.name) != pid]
    assert ctypes.CDLL(None).tgkill(pid, min(others), number) == 0


def test_without_a_terminal_it_says_so_and_prints_plainly(tree: Path, mine: Path) -> None:
    command = [sys.executable, "-m", "grader", "watch", "15", "--cpu"]
    given = {**os.environ, "PYTHONPATH": str(ROOT), "FORCE_COLOR": "", "TERM": "xterm"}
    with subprocess.Popen(
        command, cwd=tree, env=given, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = b""
        while b"0 of 1 done" not in said:
            said += process.stdout.readline()
        signal_another_thread(process.pid, signal.SIGHUP)
        try:
            rest, progress = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGHUP
    assert b"\x1b" not in said + rest + progress
    assert b"No terminal here: no keys" in progress
    assert b"Checking" in progress
    assert b"0 of 75 points" in said
    assert b"quit" not in said
