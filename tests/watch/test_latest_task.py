"""Runs on a thread: the newest wins, and what is called off leaves no process and no folder behind."""

from __future__ import annotations

import os
import queue
import socket
import threading
from pathlib import Path

import pytest

from grader.exercise.catalogue import Entry
from grader.exercise.plan import default_seed, draw
from grader.grading import Job, grade
from grader.record import CheckResult
from grader.sandbox.cancellation import CancellableServer, Cancelled, CancelToken
from grader.sandbox.server import ForkServer, Spawned
from grader.watch.latest_task import LatestTask

PATIENCE_S = 30


def patiently(consent: CancelToken) -> None:
    """An errand that ends when it is called off, and not before."""
    for _ in range(100 * PATIENCE_S):
        consent.check()
        threading.Event().wait(0.01)
    raise AssertionError("it was not called off")


def test_the_newest_errand_runs_and_the_one_before_is_called_off() -> None:
    done: queue.SimpleQueue[str] = queue.SimpleQueue()
    with LatestTask(lambda fault: done.put(str(fault))) as lane:
        lane.start(patiently)
        lane.start(lambda consent: done.put("second"))
        assert done.get(timeout=PATIENCE_S) == "second"
    assert done.empty()


def test_an_errand_that_breaks_is_told_and_the_lane_goes_on() -> None:
    told: queue.SimpleQueue[str] = queue.SimpleQueue()

    def broken(consent: CancelToken) -> None:
        raise ValueError("no plan")

    with LatestTask(lambda fault: told.put(str(fault))) as lane:
        lane.start(broken)
        assert told.get(timeout=PATIENCE_S) == "no plan"
        lane.start(lambda consent: told.put("next"))
        assert told.get(timeout=PATIENCE_S) == "next"


def test_what_breaks_because_it_was_called_off_is_not_told() -> None:
    told: queue.SimpleQueue[str] = queue.SimpleQueue()

    def broken(consent: CancelToken) -> None:
        with pytest.raises(Cancelled):
            patiently(consent)
        raise ValueError("it ended in the middle")

    with LatestTask(lambda fault: told.put(str(fault))) as lane:
        lane.start(broken)
        lane.start(lambda consent: told.put("next"))
        assert told.get(timeout=PATIENCE_S) == "next"
    assert told.empty()


def test_whoever_waits_for_something_on_no_leash_is_helped_out() -> None:
    begun, freed, done = threading.Event(), threading.Event(), threading.Event()

    def stuck(consent: CancelToken) -> None:
        begun.set()
        assert freed.wait(PATIENCE_S)
        done.set()

    with LatestTask(lambda fault: None, freed.set) as lane:
        lane.start(stuck)
        assert begun.wait(PATIENCE_S)
        lane.call_off()
        assert done.wait(PATIENCE_S)


ENDLESS = "def vector_add(x, y):\n    while True:\n        pass\n"


def test_a_grading_that_is_called_off_ends_at_once_and_leaves_nothing(
    server: ForkServer, ex_15: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    plan = draw(ex_15.exercise, default_seed(ex_15.id), gpu=False, parts=frozenset({"vector_add"}))
    job = Job(ex_15, "/learner/ex_15.py", ENDLESS, plan, "grade ex_15", "", shrink=False)
    consent = CancelToken()
    leash = CancellableServer(server, consent)
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
        consent.check()

    def run() -> None:
        try:
            grade(job, leash, heard)
        except BaseException as end:
            ended.append(end)

    thread = threading.Thread(target=run)
    thread.start()
    assert asked.wait(PATIENCE_S)
    consent.withdraw()
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

        def spawn(self, *given: object, **more: object) -> Spawned:
            assert loaded.wait(PATIENCE_S)
            return Spawned(4711, ours, read_end)

        def reap(self, pid: int, uid: int) -> int:
            assert (pid, uid) == (4711, 7)
            reaped.set()
            return 0

    consent = CancelToken()
    threading.Timer(0.1, consent.withdraw).start()
    with pytest.raises(Cancelled):
        CancellableServer(Loading(), consent).spawn("/scratch", 7, {})  # type: ignore[arg-type]
    assert not reaped.is_set()
    loaded.set()
    assert reaped.wait(PATIENCE_S)
    assert ours.fileno() == -1
    theirs.close()
    os.close(write_end)


def test_the_server_serves_the_next_grading_as_if_nothing_had_been(server: ForkServer, ex_15: Entry) -> None:
    consent = CancelToken()
    leash = CancellableServer(server, consent)
    consent.withdraw()
    plan = draw(ex_15.exercise, default_seed(ex_15.id), gpu=False, parts=frozenset({"vector_add"}))
    job = Job(ex_15, "/learner/ex_15.py", "def vector_add(x, y): ...\n", plan, "grade ex_15", "", compiled=False)
    with pytest.raises(Cancelled):
        grade(job, leash)
    with pytest.raises(Cancelled):
        leash.beside("compile")
    assert grade(job, CancellableServer(server, CancelToken())).checks[0].status == "fail"
