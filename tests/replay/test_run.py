"""What an autotuner skips counts as far as it did something."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from triton.runtime.errors import OutOfResources

from grader.protocol.observations import LaunchInfo, Traffic
from grader.protocol.trace import Choose, Free, Renewal, Trace, Window
from grader.replay.memory import Memory, Unreplayable
from grader.replay.run import Run, first_that_works


def launch(name: str, stored_bytes: int | None = 0) -> LaunchInfo:
    traffic = None if stored_bytes is None else Traffic(0, stored_bytes, 0, stored_bytes, 0)
    return LaunchInfo(name, (1,), {}, traffic)


@dataclass
class NotedRun:
    """A run that notes the launches of its steps; it refuses the launch called `refused`."""

    launched: list[LaunchInfo] = field(default_factory=list)

    def steps(self, steps: tuple[LaunchInfo, ...]) -> None:
        for one in steps:
            self.launched.append(one)
            if one.kernel == "refused":
                raise OutOfResources(2048, 1024, "threads")


def launched(*alternatives: tuple[LaunchInfo, ...]) -> tuple[int, list[str]]:
    """Return the alternative that was taken, and the launches that count."""
    run: Any = NotedRun([launch("earlier")])
    steps: Any = alternatives
    place = first_that_works(Choose(steps, 1), run)
    return place, [one.kernel for one in run.launched]


@pytest.mark.parametrize("stored_bytes", [0, None])
def test_a_refused_launch_does_not_count(stored_bytes: int | None) -> None:
    refused = launch("refused", stored_bytes)
    assert launched((refused,), (refused,), (launch("works"),)) == (2, ["earlier", "works"])


def test_launches_before_the_refused_one_count() -> None:
    assert launched((launch("hook"), launch("refused")), (launch("works"),)) == (1, ["earlier", "hook", "works"])


def test_a_refused_launch_that_stored_something_before_counts() -> None:
    assert launched((launch("refused", 4),), (launch("works"),)) == (1, ["earlier", "refused", "works"])


@pytest.mark.parametrize("renewal", [Renewal((), (0,)), Renewal((0,), ())])
def test_an_autotuner_renews_no_memory_that_its_trial_freed(renewal: Renewal) -> None:
    """The recorder sees no such trial; a forged trace may tell of one."""
    memory = Memory(torch.device("cpu"))
    memory.adopt(1, torch.arange(4))
    place: Any = SimpleNamespace(memory=memory, device=torch.device("cpu"))
    trace = Trace({}, (Window(1, "int64", 0, (4,), (1,)),), (), (), ())
    with pytest.raises(Unreplayable, match="must lie in a known storage"):
        Run(place, trace).rehearse(Choose(((Free((1,)),),), 1, renewal), 0)
