"""Serve the grader under Nsight Compute, which counts the kernels of one call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch

from grader.child.tool_worker import ToolWorker, attend
from grader.protocol.requests import Call
from grader.replay.replayer import Replayer


def main(number: int) -> None:
    """Serve the grader that listens in the working directory."""
    attend(number, CounterWorker, partial(Replayer, guarded=False, draws_on_device=True, around=counters), {})


def counters() -> AbstractContextManager[object]:
    """Return a context in which Nsight Compute counts the launched kernels."""
    return torch.cuda.profiler.profile() if torch.cuda.is_initialized() else nullcontext()  # type: ignore[no-untyped-call]


class CounterWorker(ToolWorker):
    """A worker that runs each call twice: the second is counted, when everything is compiled and tuned."""

    def _arguments_of(self, call: Call, device: torch.device) -> list[object]:
        return list(self._build(call.recipe, device))

    def _run(self, function: Callable[[], object]) -> None:
        with self._tuning.by_timing():
            super()._run(function)
            with counters():
                super()._run(function)
