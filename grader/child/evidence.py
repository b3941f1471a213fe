"""What ran during a call: kernels launched, ATen operators that computed, values that left the tensors for Python.

Evidence, not proof: it is gathered in the submission's own process. What makes it hard to fake is `skip`, which turns
every launch into nothing; the parent then looks at what the answer still knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from grader.protocol.messages import Launch

# Operators that allocate, fill, copy or cast; with views they are the ones that do no part of the work.
_SUPPORTING = frozenset(
    {
        *("arange", "empty", "empty_like", "empty_strided", "full", "full_like", "ones", "ones_like", "scalar_tensor"),
        *("zeros", "zeros_like", "new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros", "resize_"),
        *("clone", "contiguous", "copy_", "detach", "fill", "fill_", "lift", "lift_fresh", "set_", "zero_"),
        *("_to_copy", "_unsafe_view", "_reshape_alias"),
    }
)
# Ways for values to leave a tensor without an ATen operator.
_ESCAPES = frozenset({"numpy", "tolist", "__array__", "__dlpack__"})
_MOST_LAUNCHES = 256


@dataclass
class Seen:
    """What one call did."""

    launches: list[Launch] = field(default_factory=list)
    operators: dict[str, None] = field(default_factory=dict)


class _Functions(TorchFunctionMode):
    def __init__(self, probe: Probe) -> None:
        super().__init__()
        self._probe = probe

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _ESCAPES and not self._probe.launching:
            self._probe.seen.operators.setdefault(f"Tensor.{name}")
        return func(*args, **(kwargs or {}))


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Saying yes would import torch's compiler at the first operator: 1.4 s for every child.
        return False

    def __init__(self, probe: Probe) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._probe = probe

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self._probe.launching:
            name = func._schema.name.replace("::", ".")
            if _computes(func, name, args, kwargs or {}):
                self._probe.seen.operators.setdefault(name)
        return func(*args, **(kwargs or {}))


def _computes(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    namespace, _, short = name.partition(".")
    if namespace != "aten":
        return True
    if short == "_to_copy" and args and kwargs.get("device") not in (None, args[0].device):
        return True
    return not (func.is_view or short in _SUPPORTING)


class Probe:
    """Watches the launches and operators of this process; installed once, before the submission is loaded."""

    def __init__(self) -> None:
        self.seen = Seen()
        self.launching = 0
        self._skip = False
        self._latest: Launch | None = None

    def install(self) -> None:
        """Route every Triton launch of this process through this probe."""
        from triton.runtime.autotuner import Autotuner, Heuristics
        from triton.runtime.interpreter import InterpretedFunction
        from triton.runtime.jit import JITFunction

        for outer in (Autotuner, Heuristics):
            outer.run = self._around(outer.run, inner=False)
        for inner in (JITFunction, InterpretedFunction):
            inner.run = self._around(inner.run, inner=True)

    @contextmanager
    def watch(self, *, skip: bool) -> Iterator[Seen]:
        """Collect what happens inside; with `skip`, launches do nothing."""
        self.seen, self._skip, self.launching = Seen(), skip, 0
        try:
            with _Functions(self), _Operators(self):
                yield self.seen
        finally:
            self._skip, self.launching = False, 0

    def _around(self, run: Callable[..., Any], *, inner: bool) -> Callable[..., Any]:
        def launch(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("warmup"):
                return run(kernel, *args, **kwargs)
            self.launching += 1
            try:
                if inner:
                    self._latest = _describe(kernel, args, kwargs)
                if inner and self._skip:
                    return None
                return run(kernel, *args, **kwargs)
            finally:
                self.launching -= 1
                # Only the outermost launch counts: an autotuner's trials are not the learner's launches.
                if not self.launching and self._latest and len(self.seen.launches) < _MOST_LAUNCHES:
                    self.seen.launches.append(self._latest)
                    self._latest = None

        return launch


def _describe(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Launch:
    names = list(getattr(kernel, "arg_names", ()))
    bound = {**dict(zip(names, args, strict=False)), **kwargs}
    grid = bound.pop("grid", ())
    if callable(grid):
        grid = grid(bound)
    sizes = tuple(int(size) for size in (grid if isinstance(grid, tuple | list) else (grid,)))
    hints = getattr(getattr(kernel, "fn", None), "__annotations__", {})
    constants = {
        name: value
        for name, value in bound.items()
        if isinstance(value, int) and not isinstance(value, bool) and "constexpr" in str(hints.get(name, ""))
    }
    return Launch(str(getattr(kernel, "__name__", "kernel"))[:80], sizes, constants)


def interpret_autotuned_kernels() -> None:
    """Let @triton.autotune work in the interpreter: nothing is timed, every configuration ties, the first is taken."""
    from triton.runtime.autotuner import Autotuner

    def no_timing(_: Any) -> Callable[..., list[float]]:
        return lambda kernel_call, quantiles=None: [0.0, 0.0, 0.0]

    Autotuner.do_bench = property(no_timing)


def fill_uninitialised_memory() -> None:
    """Let torch.empty and its kin return NaN, so that an element the submission never wrote is seen."""
    # The public switch imports torch's compiler, which costs more than everything else a child does.
    torch._C._set_deterministic_algorithms(True, warn_only=True)
