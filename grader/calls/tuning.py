"""Make autotuned kernels take the first configuration that works, unless the call is timed.

Tuning compiles and times every configuration for every new key: only a timed call is worth that. Configurations that
an autotuner skips are skipped here as well: those that do not compile, that fail a `tl.static_assert`, or that need
more of a resource than the device has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakKeyDictionary

_INVALID = [float("inf")] * 3
_EQUAL = [0.0] * 3


class LaunchLog(Protocol):
    """A counter of the launches of a call."""

    def noted(self) -> int:
        """Return the number of launches so far."""

    def forget_from(self, count: int) -> None:
        """Forget the launches beyond the first `count`."""


@dataclass
class _TunerCall:
    """One call of an autotuner that does not tune: the configurations that it may choose, and those that failed."""

    pruned: list[Any] | None = None
    failed: list[Any] = field(default_factory=list)


class Tuning:
    """The rule by which the autotuners of this process choose.

    tunes: choose by timing, as Triton does; off at first. launches: the counter that forgets the launch of a
    configuration that failed, before another one is tried.
    """

    def __init__(self, launches: LaunchLog) -> None:
        self.tunes = False
        self._launches = launches
        # The keys of each autotuner whose configuration was not found by timing.
        self._untimed: WeakKeyDictionary[Any, set[Any]] = WeakKeyDictionary()
        # The current call of an autotuner that chooses without a clock; None in a recorded call.
        self._call: _TunerCall | None = None

    @contextmanager
    def by_timing(self) -> Iterator[None]:
        """Let autotuners tune while the block runs."""
        before, self.tunes = self.tunes, True
        try:
            yield
        finally:
            self.tunes = before

    def install(self) -> None:
        """Replace the methods by which autotuners choose. Call it first, before the submission is loaded."""
        from triton.runtime.autotuner import Autotuner

        Autotuner.run = self._around_run(Autotuner.run)
        Autotuner._bench = self._around_bench(Autotuner._bench)
        Autotuner.prune_configs = self._around_pruning(Autotuner.prune_configs)
        Autotuner.do_bench = property(self._benchmark(Autotuner.__dict__["do_bench"].func), _set_benchmark)

    def _around_run(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def chosen(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            untimed = self._untimed.setdefault(tuner, set())
            if self.tunes:
                for key in untimed:
                    tuner.cache.pop(key, None)
                untimed.clear()
                return run(tuner, *args, **kwargs)
            return self._first_that_works(run, untimed, tuner, args, kwargs)

        return chosen

    def _first_that_works(
        self, run: Callable[..., Any], untimed: set[Any], tuner: Any, args: Any, kwargs: dict[str, Any]
    ) -> Any:
        outer, self._call = self._call, _TunerCall()
        call = self._call
        # An untimed choice must not reach the disk cache, where a timed run would find it.
        keeps, tuner.cache_results = tuner.cache_results, False
        known, launched = set(tuner.cache), self._launches.noted()
        try:
            while True:
                try:
                    result = run(tuner, *args, **kwargs)
                except Exception as refused:
                    fresh = set(tuner.cache) - known
                    tried = [tuner.cache.pop(key) for key in fresh]
                    # Once all have failed, the first one is tried again.
                    if not tried or any(map(self._has_failed, tried)) or not is_passed_over(refused):
                        raise
                    call.failed += tried
                    self._launches.forget_from(launched)
                else:
                    untimed |= set(tuner.cache) - known
                    return result
        finally:
            self._call, tuner.cache_results = outer, keeps

    def _has_failed(self, config: Any) -> bool:
        return self._call is not None and any(config is failed for failed in self._call.failed)

    def _around_pruning(self, prune: Callable[..., Any]) -> Callable[..., Any]:
        def pruned(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            if self.tunes or self._call is None:
                return prune(tuner, *args, **kwargs)
            # Prune once a call: a pruner may make new configurations every time.
            if self._call.pruned is None:
                self._call.pruned = list(prune(tuner, *args, **kwargs))
            return self._call.pruned

        return pruned

    def _around_bench(self, bench: Callable[..., Any]) -> Callable[..., Any]:
        def valued(tuner: Any, *args: Any, config: Any, **kwargs: Any) -> Any:
            return _INVALID if self._has_failed(config) else bench(tuner, *args, config=config, **kwargs)

        return valued

    def _benchmark(self, benchmark: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def of(tuner: Any) -> Any:
            # Equal times: the first configuration that is left wins.
            return benchmark(tuner) if self.tunes else lambda kernel_call, quantiles=None: _EQUAL

        return of


def _set_benchmark(tuner: Any, benchmark: Any) -> None:
    tuner._do_bench = benchmark


def is_passed_over(refused: BaseException) -> bool:
    """Return whether an autotuner skips a configuration that raises this exception."""
    from triton.compiler.errors import CompileTimeAssertionFailure
    from triton.runtime.errors import InterpreterError, OutOfResources, PTXASError

    skipped = (OutOfResources, CompileTimeAssertionFailure, PTXASError)
    # The interpreter wraps the exceptions of a kernel.
    raised = refused.__cause__ if isinstance(refused, InterpreterError) else refused
    return isinstance(raised, skipped)
