"""Autotuned kernels: a call takes the first configuration that works, unless it is timed.

To tune means to compile and time every configuration, for every new key. Only a timed call is worth that. What an
autotuner passes over is passed over here as well: configurations that do not compile, that fail a `tl.static_assert`,
or that need more of something than the device has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

_INVALID = [float("inf")] * 3
_EQUAL = [0.0] * 3


class Tuning:
    """How the autotuners of this process choose. `tunes`: as Triton does, by timing; off at first.

    passed_over: called when a configuration failed and another one is tried.
    """

    def __init__(self, passed_over: Callable[[], None] = lambda: None) -> None:
        self.tunes = False
        self._passed_over = passed_over
        # Of each autotuner, the keys whose configuration was not found by timing; and what failed in the call at hand.
        self._untimed: WeakKeyDictionary[Any, set[Any]] = WeakKeyDictionary()
        self._failed: list[Any] = []

    @contextmanager
    def by_timing(self) -> Iterator[None]:
        """While the block runs, autotuners tune."""
        before, self.tunes = self.tunes, True
        try:
            yield
        finally:
            self.tunes = before

    def install(self) -> None:
        """Take the place of what chooses; before anything looks at it, and before the submission is loaded."""
        from triton.runtime.autotuner import Autotuner

        Autotuner.run = self._around_run(Autotuner.run)
        Autotuner._bench = self._around_bench(Autotuner._bench)
        Autotuner.do_bench = property(self._benchmark(Autotuner.__dict__["do_bench"].func))

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
        outer, self._failed = self._failed, []
        # Nothing that was not timed is kept on the disk for a run that times.
        keeps, tuner.cache_results = tuner.cache_results, False
        known = set(tuner.cache)
        try:
            while True:
                try:
                    result = run(tuner, *args, **kwargs)
                except Exception as refused:
                    fresh = set(tuner.cache) - known
                    tried = [tuner.cache.pop(key) for key in fresh]
                    # Once all have failed, the first one's turn comes again.
                    again = any(config is failed for config in tried for failed in self._failed)
                    if not tried or again or not _is_passed_over(refused):
                        raise
                    self._failed += tried
                    self._passed_over()
                else:
                    untimed |= set(tuner.cache) - known
                    return result
        finally:
            self._failed, tuner.cache_results = outer, keeps

    def _around_bench(self, bench: Callable[..., Any]) -> Callable[..., Any]:
        def valued(tuner: Any, *args: Any, config: Any, **kwargs: Any) -> Any:
            if any(config is failed for failed in self._failed):
                return _INVALID
            return bench(tuner, *args, config=config, **kwargs)

        return valued

    def _benchmark(self, benchmark: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def of(tuner: Any) -> Any:
            # All alike: the first that is left wins.
            return benchmark(tuner) if self.tunes else lambda kernel_call, quantiles=None: _EQUAL

        return of


def _is_passed_over(refused: BaseException) -> bool:
    """Return whether an autotuner goes on after this exception of a configuration."""
    from triton.compiler.errors import CompileTimeAssertionFailure
    from triton.runtime.errors import OutOfResources, PTXASError

    skipped = (OutOfResources, CompileTimeAssertionFailure, PTXASError)
    # The interpreter wraps what a kernel raises.
    return isinstance(refused, skipped) or isinstance(refused.__cause__, skipped)
