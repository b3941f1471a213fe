"""A lack of memory counts against a submission only where the submission took the memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from grader import machine
from grader.errors import GradeError
from grader.exercise.cases import FAR_APART, Case
from grader.exercise.plan import PlannedCheck
from grader.grading.fitness import crowded_out, crowded_out_baseline, takes_much_memory
from grader.judge.failure import Failure
from grader.record.causes import Cause
from grader.record.statuses import Status
from grader.sandbox.pair import Pair


@dataclass
class Processes:
    """Stands for the submission's processes, which hold all memory until they end."""

    ended: list[bool] = field(default_factory=list)

    def end(self) -> None:
        self.ended.append(True)


def reason(status: Status, *, taken: bool, on_gpu: bool, monkeypatch: pytest.MonkeyPatch) -> str:
    processes = Processes()
    monkeypatch.setattr(machine, "memory_is_taken", lambda: taken or not processes.ended)
    return crowded_out(Failure(status, Cause(status, "", "", "")), cast("Pair", processes), on_gpu=on_gpu)


def test_memory_that_lacks_while_others_hold_most_of_it_says_nothing_of_the_submission(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "others use most of the GPU's memory" in reason("oom", taken=True, on_gpu=True, monkeypatch=monkeypatch)


@pytest.mark.parametrize(
    ("status", "taken", "on_gpu"), [("oom", False, True), ("oom", True, False), ("fail", True, True)]
)
def test_what_the_submissions_processes_held_themselves_and_every_other_failure_counts(
    status: Status, taken: bool, on_gpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not reason(status, taken=taken, on_gpu=on_gpu, monkeypatch=monkeypatch)


@pytest.mark.parametrize(("layout", "much"), [(FAR_APART, True), ("contiguous", False)])
def test_only_tensors_whose_slices_lie_far_apart_need_the_gpu_alone(layout: str, *, much: bool) -> None:
    cases = [SimpleNamespace(case=Case({"N": 3, "layout": one})) for one in ("contiguous", layout)]
    assert takes_much_memory(cast("PlannedCheck", SimpleNamespace(cases=cases))) == much


@pytest.mark.parametrize(
    ("said", "taken", "is_crowded"),
    [("CUDA out of memory.", True, True), ("CUDA out of memory.", False, False), ("an illegal address", True, False)],
)
def test_so_it_is_with_a_baseline_for_which_memory_lacks(
    said: str, taken: bool, is_crowded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "memory_is_taken", lambda: taken)
    assert bool(crowded_out_baseline(GradeError(said))) == is_crowded
