"""The process that goes ahead: it has been everywhere, holds the GPU as one among others, and is gone when it should.

What it did is told by the submission itself, in files of its scratch folder.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from grader.catalogue import Entry
from grader.errors import GradeError
from grader.model.cases import Value
from grader.model.exercise import Part, SpeedBand
from grader.protocol.messages import Start
from grader.sandbox.scratch import Scratch
from grader.sandbox.server import ForkServer
from grader.speed import scout as scouting
from grader.speed.lock import GpuLock
from grader.speed.scout import Scout
from tests.racing import band_of

TELLING = """
import os, time

def told(name, text):
    with open(name, "a") as file:
        file.write(f"{text}\\n")

told("pid", os.getpid())

def vector_add(x, y):
    told("called", x.numel())
    return x + y
"""
ENDLESS = f"{TELLING}    while True: pass\n".replace("    return x + y\n", "")
PATIENT = TELLING.replace("    return", "    while not os.path.exists('go'): time.sleep(0.001)\n    return")
SIZES: tuple[dict[str, Value], ...] = ({"N": 1}, {"N": 63}, {"N": 500, "dtype": "float16"})

Making = Callable[..., Scout]


@pytest.fixture
def scratch() -> Iterator[Scratch]:
    with Scratch() as one:
        yield one


@pytest.fixture
def gpu(tmp_path: Path) -> GpuLock:
    return GpuLock("GPU-7", tmp_path)


@pytest.fixture
def parts(ex_15: Entry) -> list[Part]:
    """One part, to be timed at three small sizes, beside all its other checks."""
    part = ex_15.exercise.part("vector_add")
    assert part is not None
    band = band_of(part, *SIZES)
    checks = (replace(one, rule=band) if isinstance(one.rule, SpeedBand) else one for one in part.checks)
    return [replace(part, checks=tuple(checks))]


@pytest.fixture
def making(server: ForkServer, ex_15: Entry, scratch: Scratch, gpu: GpuLock, monkeypatch: pytest.MonkeyPatch) -> Making:
    """A scout of a submission, whose calls are small and need not take long: making(text)."""
    monkeypatch.setattr(scouting, "_COVER_BYTES", 1 << 10)
    monkeypatch.setattr(scouting, "_CALL_S", 20.0)

    def make(text: str, server: ForkServer = server) -> Scout:
        start = Start("ex_15.py", text, ex_15.source("inputs.py"), ("vector_add",))
        return Scout(server, start, ex_15.exercise.limits, scratch, gpu)

    return make


def told(scratch: Scratch, name: str) -> list[int]:
    """The numbers that the submission wrote into a file, so far."""
    file = scratch.folder / name
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


def await_call(scratch: Scratch) -> int:
    """The scout's process, once it is in the middle of a call."""
    deadline = time.monotonic() + 20
    while not told(scratch, "called") and time.monotonic() < deadline:
        time.sleep(0.001)
    assert told(scratch, "called")
    return told(scratch, "pid")[-1]


def running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def free(folder: Path) -> bool:
    """Whether somebody could have the GPU alone at this moment."""
    descriptor = os.open(folder / "grade-gpu-GPU-7.room", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def test_it_runs_every_size_that_will_be_timed_once_in_one_process(
    making: Making, parts: list[Part], scratch: Scratch
) -> None:
    with making(TELLING) as scout:
        scout.send(parts)
        scout.recall()
        assert told(scratch, "called") == [1, 63, 500]
        (pid,) = told(scratch, "pid")
        assert not running(pid)
    assert scratch.folder.is_dir(), "it is not the scout's to remove"


def test_without_anything_to_time_it_starts_no_process(making: Making, parts: list[Part], scratch: Scratch) -> None:
    untimed = tuple(one for one in parts[0].checks if not isinstance(one.rule, SpeedBand))
    with making(TELLING) as scout:
        scout.send([replace(parts[0], checks=untimed)])
        scout.recall()
    assert told(scratch, "pid") == []


def test_one_that_was_never_sent_can_be_recalled(making: Making) -> None:
    with making(TELLING) as scout:
        scout.recall()


def test_a_recall_without_patience_ends_it_in_the_middle_of_an_endless_call(
    making: Making, parts: list[Part], scratch: Scratch
) -> None:
    with making(ENDLESS) as scout:
        scout.send(parts)
        pid = await_call(scratch)
        assert running(pid)
        scout.recall(patience_s=0.0)
        assert not running(pid)
    assert told(scratch, "called") == [1]
    assert told(scratch, "pid") == [pid]


def test_an_exception_in_the_block_ends_it_as_well(making: Making, parts: list[Part], scratch: Scratch) -> None:
    pids, threads = [], threading.active_count()

    def fail() -> None:
        with making(ENDLESS) as scout:
            scout.send(parts)
            pids.append(await_call(scratch))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [running(pid) for pid in pids] == [False]
    assert threading.active_count() <= threads


def test_during_its_calls_nobody_has_the_gpu_alone_and_afterwards_somebody_may(
    making: Making, parts: list[Part], scratch: Scratch, gpu: GpuLock, tmp_path: Path
) -> None:
    with making(PATIENT) as scout:
        scout.send(parts)
        await_call(scratch)
        assert not free(tmp_path)
        with gpu.shared():
            (scratch.folder / "go").touch()
        scout.recall()
        assert free(tmp_path)
    assert told(scratch, "called") == [1, 63, 500]


def test_recalled_while_somebody_has_the_gpu_alone_it_does_not_run_later(
    making: Making, parts: list[Part], scratch: Scratch, gpu: GpuLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scouting, "_END_S", 0.01)
    with making(TELLING) as scout:
        with gpu.alone():
            scout.send(parts)
            thread = scout._thread
            assert thread is not None
            scout.recall(patience_s=0.0)
            assert thread.is_alive()
        thread.join(20)
        assert not thread.is_alive()
    assert told(scratch, "pid") == []


@pytest.mark.parametrize(
    ("body", "called"),
    [
        ("    raise ValueError('no')\n", [1, 63, 500]),
        ("    os._exit(7)\n", [1]),
        ("    return 'nothing to time'\n", [1, 63, 500]),
    ],
    ids=["raises", "exits", "returns no tensor"],
)
def test_what_goes_wrong_in_a_call_is_silent(
    making: Making, parts: list[Part], scratch: Scratch, body: str, called: list[int]
) -> None:
    with making(TELLING.replace("    return x + y\n", body)) as scout:
        scout.send(parts)
        scout.recall()
    assert told(scratch, "called") == called


@pytest.mark.parametrize("text", ["1 +", "import os; os._exit(7)", "", "raise SystemExit"])
def test_a_file_that_does_not_load_is_silent(making: Making, parts: list[Part], text: str) -> None:
    with making(text) as scout:
        scout.send(parts)
        scout.recall()


@pytest.mark.filterwarnings("error")
def test_without_a_server_it_is_silent(making: Making, parts: list[Part]) -> None:
    def spawn(*_: object, **__: object) -> None:
        raise GradeError("the fork server must answer, but it ended")

    with making(TELLING, SimpleNamespace(mode="interpret", spawn=spawn)) as scout:
        scout.send(parts)
        scout.recall()
