"""Runs on a thread: the newest wins, and a cancelled task leaves no process and no folder behind."""

from __future__ import annotations

import os
import queue
import socket
import threading
from pathlib import Path

import pytest

from grader.exercise.catalogue import Entry
from grader.exercise.plan import default_seed
from grader.grading import Job, grade
from grader.protocol.requests import Spawn
from grader.record.checks import CheckResult
from grader.sandbox.cancellation import CancellableServer, Cancelled, CancelToken
from grader.sandbox.server import ForkServer, Spawned
from grader.watch.latest_task import LatestTask
from tests.conftest import plan_of

PATIENCE_S = 30


def patiently(token: CancelToken) -> None:
    """A task that ends only when it is cancelled."""
    for _ in range(100 * PATIENCE_S):
        token.check()
        threading.Event().wait(0.01)
    raise AssertionError("it was not cancelled")


def test_the_newest_task_runs_and_the_one_before_is_cancelled() -> None:
    done: queue.SimpleQueue[str] = queue.SimpleQueue()
    with LatestTask(lambda fault: done.put(str(fault))) as task:
        task.start(patiently)
        task.start(lambda token: done.put("second"))
        assert done.get(timeout=PATIENCE_S) == "second"
    assert done.empty()


def test_a_broken_task_is_told_and_the_next_one_runs() -> None:
    told: queue.SimpleQueue[str] = queue.SimpleQueue()

    def broken(token: CancelToken) -> None:
        raise ValueError("no plan")

    with LatestTask(lambda fault: told.put(str(fault))) as task:
        task.start(broken)
        assert told.get(timeout=PATIENCE_S) == "no plan"
        task.start(lambda token: told.put("next"))
        assert told.get(timeout=PATIENCE_S) == "next"


def test_an_error_after_a_cancellation_is_not_told() -> None:
    told: queue.SimpleQueue[str] = queue.SimpleQueue()

    def broken(token: CancelToken) -> None:
        with pytest.raises(Cancelled):
            patiently(token)
        raise ValueError("it ended in the middle")

    with LatestTask(lambda fault: told.put(str(fault))) as task:
        task.start(broken)
        task.start(lambda token: told.put("next"))
        assert told.get(timeout=PATIENCE_S) == "next"
    assert told.empty()


def test_a_cancelled_task_that_does_not_end_is_reported_as_stuck() -> None:
    begun, freed, done = threading.Event(), threading.Event(), threading.Event()

    def stuck(token: CancelToken) -> None:
        begun.set()
        assert freed.wait(PATIENCE_S)
        done.set()

    with LatestTask(lambda fault: None, freed.set) as task:
        task.start(stuck)
        assert begun.wait(PATIENCE_S)
        task.cancel()
        assert done.wait(PATIENCE_S)


ENDLESS = "def vector_add(x, y):\n    while True:\n        pass\n"


def test_a_cancelled_grading_ends_at_once_and_leaves_nothing(
    server: ForkServer, ex_15: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    plan = plan_of(ex_15, default_seed(ex_15.id), gpu=False, parts=frozenset({"vector_add"}))
    job = Job(ex_15, "/learner/ex_15.py", ENDLESS, plan, "grade ex_15", "", shrink=False)
    token = CancelToken()
    cancellable = CancellableServer(server, token)
    spawned: list[int] = []
    asked = threading.Event()
    spawn = server.spawn

    def spying(*given: object, **more: object) -> object:
        child = spawn(*given, **more)  # type: ignore[arg-type]
        spawned.append(child.pid)
        asked.set()
        return child

    monkeypatch.setattr(server, "spawn", spying)
    ended: list[BaseException] = []

    def heard(result: CheckResult) -> None:
        token.check()

    def run() -> None:
        try:
            grade(job, cancellable, heard)
        except BaseException as end:
            ended.append(end)

    thread = threading.Thread(target=run)
    thread.start()
    assert asked.wait(PATIENCE_S)
    token.withdraw()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert [type(end) for end in ended] == [Cancelled]
    assert list(tmp_path.iterdir()) == []
    assert not any(Path(f"/proc/{pid}").exists() for pid in spawned)


def test_whoever_waits_for_a_server_that_still_loads_can_leave_and_the_child_ends_as_it_comes() -> None:
    ours, theirs = socket.socketpair()
    read_end, write_end = os.pipe()
    loaded, reaped = threading.Event(), threading.Event()

    class Loading:
        mode = "interpret"

        def spawn(self, request: Spawn) -> Spawned:
            assert loaded.wait(PATIENCE_S)
            return Spawned(4711, ours, read_end)

        def reap(self, pid: int, uid: int) -> int:
            assert (pid, uid) == (4711, 7)
            reaped.set()
            return 0

    token = CancelToken()
    threading.Timer(0.1, token.withdraw).start()
    with pytest.raises(Cancelled):
        CancellableServer(Loading(), token).spawn(Spawn("spawn", "/scratch", 7, {}))  # type: ignore[arg-type]
    assert not reaped.is_set()
    loaded.set()
    assert reaped.wait(PATIENCE_S)
    assert ours.fileno() == -1
    theirs.close()
    os.close(write_end)


def test_the_server_serves_the_next_grading_as_if_nothing_had_been(server: ForkServer, ex_15: Entry) -> None:
    token = CancelToken()
    cancellable = CancellableServer(server, token)
    token.withdraw()
    plan = plan_of(ex_15, default_seed(ex_15.id), gpu=False, parts=frozenset({"vector_add"}))
    job = Job(ex_15, "/learner/ex_15.py", "def vector_add(x, y): ...\n", plan, "grade ex_15", "", compiled=False)
    with pytest.raises(Cancelled):
        grade(job, cancellable)
    with pytest.raises(Cancelled):
        cancellable.beside("compile")
    assert grade(job, CancellableServer(server, CancelToken())).checks[0].status == "fail"
