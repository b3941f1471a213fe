"""Note the kernels that a call launches, where the call really runs in the submission's own process.

Serves calls that are not recorded and replayed. Gives observations; never changes a call's result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from grader.calls import launches
from grader.calls.filling import Filling
from grader.protocol.observations import LaunchInfo

_MOST_LAUNCHES = 256


class LaunchObserver:
    """Notes the launches of the calls of one process. Call `install` once, before the submission is loaded."""

    def __init__(self) -> None:
        # Of the latest call.
        self._launches: list[LaunchInfo] = []
        self._is_on = False
        self._trials = 0

    def install(self) -> None:
        """Note every Triton launch from now on."""
        from triton.compiler.compiler import CompiledKernel
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.interpreter import InterpretedFunction
        from triton.runtime.jit import JITFunction

        for kind in (JITFunction, InterpretedFunction):
            kind.run = self._around_run(kind.run)
        Autotuner._bench = self._around_trial(Autotuner._bench)
        CompiledKernel.__getitem__ = self._around_compiled(CompiledKernel.__getitem__)

    @contextmanager
    def observe(self) -> Iterator[list[LaunchInfo]]:
        """Yield the launches of the block, which are complete at its end."""
        self._launches, self._trials, self._is_on = [], 0, True
        try:
            with Filling():
                yield self._launches
        finally:
            self._is_on = False

    def note_foreign(self, name: str) -> None:
        """Note one launch of a kernel that is not Triton's."""
        self._note(LaunchInfo(name, (), {}))

    def noted(self) -> int:
        """Return the number of launches of this call so far."""
        return len(self._launches)

    def forget_from(self, count: int) -> None:
        """Forget the launches beyond the first `count`: they failed, and an autotuner tried another configuration."""
        del self._launches[count:]

    def _around_run(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def launch(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            if not self._is_on or warmup:
                return run(kernel, *args, grid=grid, warmup=warmup, **kwargs)
            self._note(LaunchInfo(launches.name_of(kernel), (), {}))
            # The interpreter must see on which device the memory really is.
            with torch._C.DisableTorchFunction():
                return run(kernel, *args, grid=grid, warmup=warmup, **kwargs)

        return launch

    def _around_trial(self, bench: Callable[..., Any]) -> Callable[..., Any]:
        def trial(autotuner: Any, *args: Any, **kwargs: Any) -> Any:
            # An autotuner's trials are not the learner's launches.
            self._trials += 1
            try:
                return bench(autotuner, *args, **kwargs)
            finally:
                self._trials -= 1

        return trial

    def _around_compiled(self, getitem: Callable[..., Any]) -> Callable[..., Any]:
        def with_grid(kernel: Any, grid: Any) -> Any:
            if self._is_on:
                self._note(LaunchInfo(launches.name_of(kernel), (), {}))
            return getitem(kernel, grid)

        return with_grid

    def _note(self, launch: LaunchInfo) -> None:
        if not self._trials and len(self._launches) < _MOST_LAUNCHES:
            self._launches.append(launch)
