"""The processes that gradings share: kept while they fit, replaced when they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import machine, processes
from grader.batch import work
from grader.errors import GradeError
from grader.exercise.catalogue import discover
from grader.processes import Processes

ENTRIES = discover(Path(__file__).resolve().parents[1])


class Pretended:
    """A fork server or a baseline process that only says what was done with it."""

    log: list[str]

    def __init__(self, made_for: object, parts: tuple[str, ...] = ()) -> None:
        self.mode = made_for
        self.name = str(getattr(made_for, "id", made_for))
        self.is_running = True
        self.log.append(f"start {self.name}")

    def beside(self, mode: str) -> None:
        self.log.append(f"beside {mode}")

    def stop(self) -> None:
        self.is_running = False

    def rest(self) -> bool:
        self.log.append(f"rest {self.name}")
        return self.is_running

    def close(self) -> None:
        self.log.append(f"end {self.name}")

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    Pretended.log = []
    monkeypatch.setattr(processes, "ForkServer", Pretended)
    monkeypatch.setattr(processes, "BaselineProcess", Pretended)
    monkeypatch.setattr(machine, "may_have_gpu", lambda: True)
    monkeypatch.setattr(machine, "has_gpu", lambda: True)
    return Pretended.log


def test_on_a_gpu_the_baseline_process_starts_before_torch_is_loaded_and_is_kept(log: list[str]) -> None:
    with Processes(cpu=False) as shared:
        first = shared.ready(ENTRIES[0])
        assert log == ["start gpu", "start ex_15", "beside interpret"]
        assert shared.ready(ENTRIES[0]) == first
        assert log.count("start ex_15") == log.count("rest ex_15") == 1
    assert log[-2:] == ["end ex_15", "end gpu"]


def test_another_exercise_gets_a_baseline_process_of_its_own_and_the_same_server(log: list[str]) -> None:
    with Processes(cpu=False) as shared:
        server, _ = shared.ready(ENTRIES[0])
        again, baseline_process = shared.ready(ENTRIES[1])
        assert again is server
        assert baseline_process is not None
        assert log[-3:] == ["end ex_15", "start ex_16", "beside interpret"]


def test_a_baseline_process_that_was_stopped_is_replaced(log: list[str]) -> None:
    with Processes(cpu=False) as shared:
        shared.ready(ENTRIES[0])
        shared.stop_baseline_process()
        shared.ready(ENTRIES[0])
        assert log.count("start ex_15") == 2


def test_a_gpu_that_torch_cannot_use_leaves_the_interpreter_alone(
    log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "has_gpu", lambda: False)
    with Processes(cpu=False) as shared:
        server, baseline_process = shared.ready(ENTRIES[0])
        assert (server.mode, baseline_process) == ("interpret", None)
        assert log[-3:] == ["end ex_15", "end gpu", "start interpret"]
        assert shared.mode == "interpret"


def test_without_a_gpu_nothing_but_the_interpreter_is_started(log: list[str]) -> None:
    with Processes(cpu=True) as shared:
        assert shared.ready(ENTRIES[0])[1] is None
    assert log == ["start interpret", "end interpret"]


def test_a_server_whose_kernel_was_wrong_is_ended(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes.selftest, "try_kernel", lambda server: "a kernel that is wrong")

    def require_right(tried: object, mode: str) -> None:
        raise GradeError(f"{mode}: {tried}")

    monkeypatch.setattr(processes.selftest, "require_right", require_right)
    with pytest.raises(GradeError, match="interpret: a kernel that is wrong"), Processes(cpu=True) as shared:
        shared.checked()
    assert log == ["start interpret", "end interpret"]


def test_a_worker_lends_its_baseline_process_to_one_grading_at_a_time(
    log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work.result_key, "environment", lambda gpu: {})
    state = work._WorkerState(cpu=False)
    with state._borrowed(ENTRIES[0]) as (server, baseline_process), state._borrowed(ENTRIES[1]) as (beside, none):
        assert baseline_process is not None
        assert none is None
        assert beside is server
    with state._borrowed(ENTRIES[0]) as (_, again):
        assert again is baseline_process
    assert [line for line in log if line.startswith(("start", "end"))] == ["start gpu", "start ex_15"]


def test_a_worker_that_cannot_begin_leaves_no_process(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(gpu: bool) -> dict[str, str]:
        raise OSError("no driver")

    monkeypatch.setattr(work.result_key, "environment", broken)
    with pytest.raises(OSError, match="no driver"):
        work._WorkerState(cpu=False)
    assert log == ["start gpu", "end gpu"]
