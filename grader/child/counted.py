"""Runs the submission under Nsight Compute, which counts while one call runs: the second, when all is compiled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch

from grader.child.traced import Traced, attend
from grader.protocol.messages import Call, Raised, Returned


def main(number: int) -> None:
    """Serve the grader that listens in the working directory."""
    attend(number, Counted, {})


class Counted(Traced):
    """A worker that says when counting is to begin and to end."""

    def call(self, call: Call, memory_fd: int) -> Returned | Raised:  # noqa: ARG002  nothing is copied
        """Run one function twice, the second time with the counters on; its outputs are nobody's business."""
        function: Callable[..., object] = getattr(self._submission, call.recipe.part)
        try:
            arguments = self._build(call.recipe, self._device)
            with self._tuning.by_timing():
                function(*arguments)
                self._synchronise()
            counting = torch.cuda.profiler.profile() if self._device.type == "cuda" else nullcontext()
            with self._tuning.by_timing(), self._watching.watch(timed=True) as seen, counting:
                function(*arguments)
                self._synchronise()
        except BaseException as raised:
            return self._raising.told(raised)
        return Returned("returned", (), (), (), tuple(seen.launches), ())
