"""Which process replays next: one that runs, and only where all of those stay busy one that has to be started."""

from __future__ import annotations

from typing import Any

from grader.sandbox.side_by_side import Idle, SideBySide


class Process:
    def __init__(self, *, runs: bool) -> None:
        self.pid = 1 if runs else None
        self.replayed: list[Any] = []

    def replay(self, wanted: Any, most_s: float) -> Any:
        self.pid = 1
        self.replayed.append(wanted)
        return wanted


def test_one_that_runs_is_given_before_one_that_does_not() -> None:
    asleep, awake = Process(runs=False), Process(runs=True)
    idle = Idle([asleep, awake], patience_s=60.0)
    assert idle.take() is awake
    idle.give_back(awake)
    assert idle.take() is awake


def test_one_more_is_started_where_all_that_run_stay_busy() -> None:
    first, second, third = processes = [Process(runs=False) for _ in range(3)]
    idle = Idle(processes, patience_s=0.0)
    assert [idle.take(), idle.take(), idle.take()] == [first, second, third]


def test_quick_replays_are_all_made_by_the_process_that_runs() -> None:
    processes = [Process(runs=True), Process(runs=False), Process(runs=False)]
    together = SideBySide(processes, prepare=lambda: None)
    wanted: list[Any] = [object() for _ in range(20)]
    for place, one in enumerate(wanted):
        together.begin(place, lambda one=one: one)  # type: ignore[misc]
    assert [together.outcome(place) for place in range(20)] == wanted
    together.close()
    assert processes[0].replayed == wanted
    assert processes[1].pid is None
