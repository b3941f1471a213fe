"""A grader that is killed can end nothing any more: whatever it had started must end all the same."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.sandbox import scratch as scratches

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
BUBBLES = [pytest.param(True, marks=pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap")), False]
# Two processes that go on for ever, in sessions of their own.
SUBMISSION = """
import os, time
if os.fork() == 0:
    os.setsid()
    # The first writes first.
    while not os.path.exists("pids") or not os.path.getsize("pids"):
        time.sleep(0.001)
with open("pids", "a") as file:
    file.write(f"{os.getpid()}\\n")
while True:
    time.sleep(0.01)
"""
GRADER = f"""
import threading
from grader.exercise.model import Limits
from grader.protocol.requests import Start
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.scratch import Scratch
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session

servers = []
# The thread that starts the server is not there any more when the server is used.
starting = threading.Thread(target=lambda: servers.append(ForkServer("interpret")))
starting.start()
starting.join()
spec = ProcessSpec(servers[0], Start("ex.py", {SUBMISSION!r}, "", ()), Limits())
with Scratch() as scratch, Session(spec, scratch) as session:
    print(scratch.folder, flush=True)
    session.load()
"""
Running = Callable[[bool], tuple[subprocess.Popen[str], Path]]


@pytest.fixture
def running() -> Iterator[Running]:
    """A grader in the middle of a submission that does not end: running(bubble) gives its process and the folder."""
    started: list[tuple[subprocess.Popen[str], Path]] = []

    def start(bubble: bool) -> tuple[subprocess.Popen[str], Path]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **({} if bubble else {"PATH": "/nowhere"})}
        grader = subprocess.Popen([sys.executable, "-c", GRADER], env=environment, stdout=subprocess.PIPE, text=True)
        assert grader.stdout is not None
        folder = Path(grader.stdout.readline().strip())
        started.append((grader, folder))
        assert within(60, lambda: len(pids(folder)) == 2)
        return grader, folder

    yield start
    for grader, folder in started:
        left = pids(folder)
        grader.kill()
        grader.communicate()
        for pid in left:
            if lives(pid):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def pids(folder: Path) -> list[int]:
    """The submission's processes, as they say."""
    file = folder / "pids"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


def server_of(pid: int) -> int:
    """The parent of a submission's first process: the fork server."""
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


@pytest.mark.parametrize("bubble", BUBBLES)
def test_every_process_of_a_submission_ends_when_its_grader_is_killed(running: Running, bubble: bool) -> None:
    grader, folder = running(bubble)
    left = pids(folder)
    grader.kill()
    assert within(20, lambda: not any(map(lives, left)))


@pytest.mark.parametrize("bubble", BUBBLES)
def test_a_submission_ends_with_its_fork_server(running: Running, bubble: bool) -> None:
    grader, folder = running(bubble)
    first = pids(folder)[0]
    grader.send_signal(signal.SIGSTOP)
    os.kill(server_of(first), signal.SIGKILL)
    assert within(20, lambda: not lives(first))


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: only then a submission has a user of its own")
def test_what_is_still_running_is_ended_before_its_folder_is_removed(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    grader, folder = running(False)
    left = pids(folder)
    server = server_of(left[0])
    os.kill(server, signal.SIGSTOP)
    grader.kill()
    os.kill(server, signal.SIGKILL)
    grader.wait()
    monkeypatch.setattr(scratches, "_ABANDONED_S", 0.0)
    monkeypatch.setattr(tempfile, "tempdir", str(folder.parent))
    assert within(20, lambda: bool(scratches.sweep()) or not folder.exists())
    assert not folder.exists()
    assert not any(map(lives, left))
