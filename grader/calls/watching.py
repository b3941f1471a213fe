"""Watch a call that really runs: the kernels that it launches, and the operators of torch that compute beside them.

Serves calls that are not recorded and replayed: parts in the CuTe DSL, timed calls, and calls whose values are shown
although their points are lost. Gives observations; never changes a call's result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from grader.calls import launches
from grader.calls.modes import Functions, Operators
from grader.calls.see_through import see_through
from grader.protocol.messages import LaunchInfo

_MOST_LAUNCHES = 256
# Ways to read the frames of the clock. Submissions need none of them, but libraries do.
_REACHING = frozenset(
    {"gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._getframe", "sys._current_frames"}
)
_FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})


@dataclass
class CallObservation:
    """The launches and operators of one call."""

    launches: list[LaunchInfo] = field(default_factory=list)
    operators: dict[str, None] = field(default_factory=dict)


class Watching:
    """Watches the calls of one process. Call `install` once, before the submission is loaded.

    seen: the observation of the latest call.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._reached: dict[str, None] = {}
        self._listens = True
        self.seen = CallObservation()
        self.running = 0
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
        see_through(self._modes)
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: Any) -> None:
        """Note that a line of the submission looks into frames or at all objects."""
        reaches = event in _REACHING or (event == "object.__getattr__" and args[1] in _FRAMES)
        if not reaches or not self._listens:
            return
        # Reading the frame raises such an event itself.
        self._listens = False
        try:
            if sys._getframe(1).f_code.co_filename == self._path:
                self._reached[str(args[1]) if event == "object.__getattr__" else event] = None
        finally:
            self._listens = True

    @contextmanager
    def _modes(self) -> Iterator[None]:
        with Operators(self):
            yield

    @contextmanager
    def watch(self, *, timed: bool = False) -> Iterator[CallObservation]:
        """Yield the observation of the block; a timed call goes without the observers that take time."""
        self.seen, self.running, self._trials, self._is_on = CallObservation(), 0, 0, True
        self.seen.operators.update(self._reached)
        try:
            with nullcontext() if timed else Functions(self), Operators(self):
                yield self.seen
        finally:
            self._is_on = False
            self.seen.operators.update(self._reached)

    @property
    def is_on(self) -> bool:
        """Return whether a call is being watched."""
        return self._is_on

    def record_deed(self, name: str, tensors: Sequence[torch.Tensor] = ()) -> None:  # noqa: ARG002
        """Note an operator that computed; reads by a kernel's own launch are no work."""
        # A tensor that is on the CPU anyway is not read by Tensor.cpu.
        if not (self.running and name.startswith("Tensor.")) and name != "Tensor.cpu":
            self.seen.operators.setdefault(name)

    def run_operator(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Run an operator that allocates, fills, copies or casts."""
        return run_with_filling(func, args, kwargs)

    @contextmanager
    def around(self, name: str) -> Iterator[None]:
        """Note one launch of a kernel that is not Triton's, which runs in the block."""
        self._note(LaunchInfo(name, (), {}))
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    def noted(self) -> int:
        """Return the number of launches of this call so far."""
        return len(self.seen.launches)

    def forget_from(self, count: int) -> None:
        """Forget the launches beyond the first `count`: they failed, and an autotuner tried another configuration."""
        del self.seen.launches[count:]

    def _around_run(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def launch(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            if not self._is_on or warmup:
                return run(kernel, *args, grid=grid, warmup=warmup, **kwargs)
            self._note(LaunchInfo(launches.name_of(kernel), (), {}))
            if len(sys._current_frames()) > 1:
                self.seen.operators.setdefault("a second Python thread")
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
        if not self._trials and len(self.seen.launches) < _MOST_LAUNCHES:
            self.seen.launches.append(launch)


def fill_uninitialised_memory(*, on: bool) -> None:
    """Let torch.empty and its relatives return NaN, so that an element that the submission never wrote shows."""
    # The public switch imports torch's compiler, which costs more than everything else that a child does.
    torch._C._set_deterministic_algorithms(on, warn_only=True)


def run_with_filling(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run an operator; fill the memory that it allocates, unless torch has no NaN for the dtype, as of 4 bits."""
    try:
        return func(*args, **kwargs)
    except NotImplementedError:
        if not torch.are_deterministic_algorithms_enabled():
            raise
        fill_uninitialised_memory(on=False)
        try:
            return func(*args, **kwargs)
        finally:
            fill_uninitialised_memory(on=True)
