"""Stand in front of Triton's launches, autotuners and timers: a recorded call launches, tunes and times nothing.

Takes launches; gives steps to a Log, and stand-ins for compiled kernels to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from torch import Tensor

from grader.calls import launches
from grader.recorder.handles import Handle

# Arguments of a launch that are neither parameters nor options of the kernel.
_UNRECORDED_OPTIONS = frozenset({"warmup", "grid"})
_MOST_CONFIGURATIONS = 64


class Log(Protocol):
    """The log of a recorded call."""

    @property
    def is_on(self) -> bool:
        """Return whether a call is being recorded in this process."""

    def launch(
        self, kernel: Any, grid: tuple[int, ...], args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any]
    ) -> None:
        """Record one launch."""

    def choose(
        self,
        attempts: list[Callable[[], Any]],
        renewal: tuple[list[Tensor], list[Tensor]] | None,
        kept: list[Callable[[], Any]],
    ) -> Any:
        """Record every attempt as an alternative, and return the result of the first.

        renewal: the tensors that the autotuner clears before a trial, and those that it puts back after it. kept:
        further attempts of an autotuner that has chosen before; those that raise are not recorded.
        """

    def note_unrecordable(self, what: str) -> None:
        """Record that something happened which the trace cannot express."""


class Trials:
    """A flag: a call is being timed. Its launches only serve to choose a configuration, and are not recorded."""

    def __init__(self) -> None:
        self.running = False

    @contextmanager
    def pause_recording(self) -> Iterator[None]:
        """Record no launches while the block runs."""
        before, self.running = self.running, True
        try:
            yield
        finally:
            self.running = before


def install(log: Log, *, on_gpu: bool) -> None:
    """Replace Triton's launches, autotuners and timers. Call it before the submission is loaded."""
    import triton.testing
    from triton.compiler.compiler import CompiledKernel
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    trials = Trials()
    for kind in (JITFunction, InterpretedFunction):
        kind.run = _named(kind, _around_run(log, trials, kind.run, on_gpu=on_gpu))
        kind.__call__ = _around_call(log, kind.__call__)
    Autotuner.run = _named(Autotuner, _around_tuning(log, trials, Pruned(), Autotuner.run))
    for name in ("do_bench", "do_bench_cudagraph"):
        setattr(triton.testing, name, _around_timing(log, trials, getattr(triton.testing, name)))
    CompiledKernel.__getitem__ = _around_compiled(log, CompiledKernel.__getitem__)


def _named(owner: type, run: Callable[..., Any]) -> Callable[..., Any]:
    """Name a stand-in as Triton's own: Python's errors show it, as where two autotuners set the same argument."""
    run.__module__, run.__qualname__ = owner.__module__, f"{owner.__name__}.run"
    return run


def _around_run(log: Log, trials: Trials, run: Callable[..., Any], *, on_gpu: bool) -> Callable[..., Any]:
    def launch(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if not log.is_on:
            return run(kernel, *args, grid=grid, warmup=warmup, **kwargs)
        # Test once: an object could change its truth value between tests.
        warmup = bool(warmup)
        names = tuple(kernel.arg_names)
        by_name = {name: value for name, value in kwargs.items() if name in names}
        options = {
            name: value for name, value in kwargs.items() if name not in names and name not in _UNRECORDED_OPTIONS
        }
        bound = launches.bound(kernel, args, by_name)

        def relaunch(given: tuple[Any, ...], chosen: dict[str, Any], new_grid: Any) -> Any:
            return launch(kernel, *given, grid=new_grid, warmup=False, **chosen)

        compiled = run(kernel, *args, grid=grid, warmup=True, **kwargs) if warmup and on_gpu else None
        handle = Handle(kernel.fn.__name__, names, bound, options, relaunch, compiled).with_constants(
            launches.constant_names(kernel)
        )
        if warmup:
            return handle
        for hook in list(kernel.pre_run_hooks):
            hook(*args, **kwargs)
        if unknown := launches.unknown_options(kernel, options):
            known = ", ".join((*names, *sorted(launches.OPTIONS)))
            raise TypeError(f"{kernel.fn.__name__} has no parameter {unknown[0]}, only {known}")
        if len(args) > len(names):
            raise TypeError(f"{kernel.fn.__name__} takes {len(names)} arguments, got {len(args)}")
        missing = [name for name in names if name not in bound]
        if missing:
            raise TypeError(f"{kernel.fn.__name__} must get all of its arguments, got none for {', '.join(missing)}")
        if grid is None:
            raise TypeError("a launch must have a grid, as in kernel[(programs,)](…), got None")
        given = grid(bound) if callable(grid) else grid
        if isinstance(given, int):
            raise TypeError(f"a grid must be a tuple, as in {kernel.fn.__name__}[(programs,)](…), got {given}")
        programs = launches.sizes(given)
        if not trials.running:
            log.launch(kernel, programs, args, by_name, options | launches.language_defaults(options))
        return handle

    return launch


def _around_call(log: Log, call: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse a kernel that Python calls as a function: no kernel runs while a call is recorded."""

    def refuse(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        if not log.is_on:
            return call(kernel, *args, **kwargs)
        name = kernel.fn.__name__
        if str(kernel.fn.__module__).partition(".")[0] == "triton":
            raise RuntimeError(f"{name} of Triton's language was called outside a kernel")
        raise RuntimeError(f"{name} is a kernel, and was called without a grid")

    return refuse


class Pruned:
    """The configurations that each autotuner had left for a key: an autotuner prunes once per key."""

    def __init__(self) -> None:
        self._first: WeakKeyDictionary[Any, dict[Any, list[Any]]] = WeakKeyDictionary()

    def others(self, tuner: Any, given: dict[str, Any], configs: list[Any]) -> list[Any]:
        """Return those that pruning left in the first call with this key, and not in this one."""
        named = {name: value for name, value in given.items() if name in tuner.arg_names}
        dtypes = [str(value.dtype) for value in named.values() if hasattr(value, "dtype")]
        key = *(_plain(named[name]) for name in tuner.keys if name in named), *dtypes
        first = self._first.setdefault(tuner, {}).setdefault(key, configs)
        here = [str(one) for one in configs]
        return [one for one in first if str(one) not in here]


def _around_tuning(log: Log, trials: Trials, pruned: Pruned, run: Callable[..., Any]) -> Callable[..., Any]:
    def run_tuner(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        if not log.is_on:
            return run(tuner, *args, **kwargs)
        if kwargs.get("warmup"):
            return tuner.fn.run(*args, **kwargs, **tuner.configs[0].all_kwargs())
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        configs = tuner.configs
        if len(configs) > 1:
            configs = list(tuner.prune_configs(kwargs))[:_MOST_CONFIGURATIONS]
        if not configs:
            raise ValueError(f"a pruner must leave a configuration, got none of {len(tuner.configs)}")
        nargs = tuner.nargs

        def attempt(config: Any) -> Callable[[], Any]:
            def run_one() -> Any:
                tuner.nargs, tuner.best_config = nargs, config
                chosen = config.all_kwargs()
                if config.pre_hook is not None:
                    config.pre_hook({**nargs, **kwargs, **chosen})
                return tuner.fn.run(*args, **kwargs, **chosen)

            return run_one

        attempts = [attempt(config) for config in configs]
        kept = [attempt(config) for config in pruned.others(tuner, {**nargs, **kwargs}, configs)]
        renewal = _renewal_of(tuner, {**nargs, **kwargs})
        result = attempts[0]() if trials.running else log.choose(attempts, renewal, kept)
        tuner.best_config, tuner.nargs = configs[0], None
        return result

    return run_tuner


def _plain(value: Any) -> object:
    return value if isinstance(value, bool | int | float | str | None) else id(value)


def _renewal_of(tuner: Any, given: dict[str, Any]) -> tuple[list[Tensor], list[Tensor]] | None:
    """Return the tensors that an autotuner clears, and puts back; None where hooks of the submission do it."""
    if tuner.user_defined_pre_hook or tuner.user_defined_post_hook:
        return None
    cleared, restored = (
        [given[name] for name in names if isinstance(given.get(name), Tensor)]
        for names in (tuner.reset_to_zero, tuner.restore_value)
    )
    return cleared, restored


def _around_timing(log: Log, trials: Trials, timing: Callable[..., Any]) -> Callable[..., Any]:
    """Return a stand-in for triton.testing.do_bench, by which other tuners than Triton's choose."""

    def run_benchmark(call: Callable[[], object], *args: Any, **options: Any) -> Any:
        if not log.is_on:
            return timing(call, *args, **options)
        with trials.pause_recording():
            return launches.benchmark_once(call, **options)

    return run_benchmark


def _around_compiled(log: Log, getitem: Callable[..., Any]) -> Callable[..., Any]:
    def with_grid(kernel: Any, grid: Any) -> Any:
        if not log.is_on:
            return getitem(kernel, grid)
        # Compiled by hand before the call: its function is not known.
        return lambda *_, **__: log.note_unrecordable("a launch of a kernel that was compiled earlier")

    return with_grid
