"""Limits of memory and disk space hold while nobody waits for an answer, too."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grader.exercise.model import Limits
from grader.protocol.answers import Loaded
from grader.protocol.requests import Call, Recipe, Start
from grader.sandbox.outcome import OutOfMemory, OutOfSpace
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session
from grader.sandbox.watchdog import Watchdog

LIMITS = Limits(load_s=30.0, call_s=30.0, memory_bytes=96 << 20, scratch_bytes=32 << 20)
CALL = Call(Recipe("add", {}, 0), (), (), ())
# Three processes, none of which is beyond the limit, that begin once the file has been loaded.
EATING = """
import os, time
if os.fork() == 0:
    time.sleep(0.3)
    for _ in range(2):
        os.fork()
    kept = os.urandom(1 << 20) * 48
    time.sleep(600)
"""
WRITING = """
import threading, time
def fill():
    time.sleep(0.3)
    with open("large", "wb") as file:
        for _ in range(96):
            file.write(bytes(1 << 20))
        file.flush()
        time.sleep(600)
threading.Thread(target=fill, daemon=True).start()
"""


@contextmanager
def idle(server: ForkServer, text: str) -> Iterator[Session]:
    """A session whose file has been loaded, and which is asked nothing until its process is gone."""
    with Session(ProcessSpec(server, Start("ex.py", text, "", ()), LIMITS)) as session:
        assert isinstance(session.load(), Loaded)
        deadline = time.monotonic() + 60
        while is_running(session.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield session


def is_running(pid: int | None) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in (b"Z", b"X")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: the submission's processes need a user of their own")
def test_processes_that_fill_the_memory_between_calls_are_killed(server: ForkServer) -> None:
    with idle(server, EATING) as session:
        assert not is_running(session.pid)
        answer = session.call(CALL)
        assert isinstance(answer, OutOfMemory)
        assert answer.limit_bytes == LIMITS.memory_bytes


def test_files_that_fill_the_disk_between_calls_are_removed(server: ForkServer) -> None:
    with idle(server, WRITING) as session:
        folder = Path(f"/proc/{session.pid}/cwd")
        assert not is_running(session.pid), folder
        assert session.call(CALL) == OutOfSpace(LIMITS.scratch_bytes)


def test_the_next_question_gets_a_fresh_process(server: ForkServer) -> None:
    with idle(server, WRITING) as session:
        killed = session.pid
        assert isinstance(session.call(CALL), OutOfSpace)
        assert isinstance(session.load(), Loaded)
        assert session.pid != killed


def test_a_process_within_its_limits_is_left_alone() -> None:
    looks: list[None] = []
    watchdog = Watchdog(lambda: looks.append(None), lambda: [os.getpid()])
    while len(looks) < 2:
        time.sleep(0.01)
    watchdog.end()
    assert watchdog.exceeded is None


def test_a_watchdog_that_was_ended_looks_no_more() -> None:
    looks: list[None] = []
    watchdog = Watchdog(lambda: looks.append(None), list)
    watchdog.end()
    assert looks == []
    assert not watchdog._thread.is_alive()
