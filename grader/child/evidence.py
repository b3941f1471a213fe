"""What ran during a call: kernels launched, ATen operators that computed, values that left the tensors for Python.

Gathered in the submission's own process, so it is evidence and no proof. What it explains is decided elsewhere: by the
values, and in sealed calls by values that only the kernels could see.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from types import CodeType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from grader.child import bystanders, launches, onlookers, unaltered
from grader.child.allocations import Storages, storages_of
from grader.child.bands import Bands
from grader.child.bystanders import Bystanders
from grader.child.interpreter import kind_of_kernels
from grader.child.interpreter.memory import MemoryWatch
from grader.child.kernel_code import Examined, examine
from grader.child.sealing import Sealing, undisturbed
from grader.child.tuning import is_passed_over
from grader.protocol.messages import Finding, Launch

_ALLOCATING = frozenset(
    {
        *("empty", "empty_like", "empty_strided", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"),
        *("new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros", "empty_permuted"),
    }
)
# Namespaces of torch's own operators, but for those that are judged one by one or compute nothing. The submission's,
# which come later, consist of others, which are seen.
_ELSEWHERE = {name.partition("::")[0] for name in torch._C._dispatch_get_all_op_names()} - {
    *("aten", "profiler", "debugprims")
}
# Operators that allocate, fill, copy or cast; with views they are the ones that do no part of the work.
_SUPPORTING = _ALLOCATING | frozenset(
    {
        *("arange", "scalar_tensor", "resize_", "clone", "contiguous", "copy_", "detach", "fill", "fill_", "lift"),
        *("lift_fresh", "set_", "zero_", "_to_copy", "_unsafe_view", "_reshape_alias"),
        *("squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_", "swapdims_", "as_strided_", "detach_"),
        *("cat", "stack", "constant_pad_nd", "repeat", "is_same_size", "is_pinned", "record_stream"),
        *("promote_types", "result_type", "can_cast"),
    }
)
# Ways for values to leave a tensor without an ATen operator.
_ESCAPES = frozenset({"numpy", "tolist", "__array__", "__dlpack__"})
_MOST_LAUNCHES = 256
_MOST_REPLACED = 4


@dataclass
class Seen:
    """What one call did."""

    launches: list[Launch] = field(default_factory=list)
    operators: dict[str, None] = field(default_factory=dict)
    allocated_bytes: int = 0


class _Functions(TorchFunctionMode):
    def __init__(self, probe: Probe) -> None:
        super().__init__()
        self._probe = probe

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _ESCAPES and not self._probe.running:
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
        given = kwargs or {}
        namespace, _, name = func._schema.name.partition("::")
        # Lifting is how a tensor that Python filled comes into being; torch calls it a view.
        lifted = name.startswith("lift")
        if namespace in _ELSEWHERE:
            self._probe.seen.operators.setdefault(f"{namespace}.{name}")
        if namespace != "aten" or (func.is_view and not lifted):
            return func(*args, **given)
        if self._probe.running:
            if _computes(name, args, given):
                self._probe.seen.operators.setdefault(f"aten.{name}")
            return func(*args, **given)
        known = frozenset[int]() if lifted else storages_of(_tensors((args, tuple(given.values()))))
        if _computes(name, args, given):
            self._probe.seen.operators.setdefault(f"aten.{name}")
            result = func(*args, **given)
        else:
            result = self._probe.supporting(name, func, args, given)
        self._probe.allocated(result, known)
        return result


def _computes(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    if name == "_to_copy" and args and kwargs.get("device") not in (None, args[0].device):
        return True
    return name not in _SUPPORTING


class Probe:
    """Watches the launches and operators of this process; installed once, before the submission is loaded."""

    def __init__(self, device: torch.device, *, interpreted: bool) -> None:
        self.seen = Seen()
        self.running = 0
        self.timed = False
        self.sealing = Sealing()
        self._bands = Bands(device)
        self._memory = MemoryWatch() if interpreted else None
        self._storages = Storages()
        self._trials = 0
        self._bystanders: Bystanders | None = None
        self._kernels: dict[int, tuple[Any, Examined]] = {}
        self._reached: dict[str, None] = {}
        # On a GPU, the driver and the compiler have threads of their own.
        self._threads = onlookers.native_threads() if interpreted else 0
        self._unaltered: unaltered.Unaltered | None = None
        self._found_early: list[str] = []

    def install(self) -> None:
        """Route every Triton launch of this process through this probe."""
        from triton.compiler.compiler import CompiledKernel
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.jit import ConstexprFunction, JITFunction

        for kind in (JITFunction, kind_of_kernels()):
            kind.run = self._around_run(kind.run)
        if self._memory:
            self._memory.install()
            ConstexprFunction.__call__ = self._around_constants(ConstexprFunction.__call__)
        Autotuner._bench = self._around_trial(Autotuner._bench)
        CompiledKernel.__getitem__ = self._around_compiled(CompiledKernel.__getitem__)
        self._bystanders = Bystanders()
        sys.addaudithook(self._hear)
        # On a GPU triton makes types and functions of its own when its driver starts, which is at the first launch.
        self._unaltered = unaltered.as_it_is(_SUPPORTING) if self._memory else None

    @contextmanager
    def watch(self, *, timed: bool = False) -> Iterator[Seen]:
        """Collect what happens inside. A timed call is watched with a light hand: launches and operators are noted, and
        nothing runs, on the device or beside it, that the submission did not ask for.
        """
        self.seen, self.running, self._trials, self.timed = Seen(), 0, 0, timed
        self._storages = Storages()
        self.seen.operators.update(dict.fromkeys((*self._reached, *self._found_early)))
        self._found_early = []
        with nullcontext() if timed else _Functions(self), _Operators(self):
            yield self.seen
        self.seen.allocated_bytes = self._storages.most_bytes

    def seal(self, decoys: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Seal the memory of what the next call gets. Our own copies pass by whatever torch has been made to call."""
        self._found_early = [f"{name}, which was replaced" for name in self._replaced(of_ours=False)]
        self.sealing.begin(decoys)

    def allocated(self, result: Any, known: frozenset[int]) -> None:
        """Count the memory that an operator took for its results, beside that which it was given."""
        if not self.timed:
            self._storages.add(_tensors(result), known)

    def noted(self) -> int:
        """Return how many launches of this call were noted so far."""
        return len(self.seen.launches)

    def forget_from(self, count: int) -> None:
        """Forget the launches beyond the first `count`: they failed, and an autotuner went on."""
        del self.seen.launches[count:]

    def findings(self) -> tuple[Finding, ...]:
        """What the guard saw since the last time."""
        return self._memory.take() if self._memory else ()

    def overrun(self) -> tuple[str, ...]:
        """Writes outside what the call allocated."""
        return self._bands.overrun()

    def supporting(self, name: str, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run an operator that allocates, fills, copies or casts; copies of sealed bytes are sealed as well."""
        if self.timed:
            return func(*args, **kwargs)
        if name in _ALLOCATING and kwargs.get("out") is None:
            fresh = func(*args, **kwargs)
            return self._bands.around(fresh) if isinstance(fresh, Tensor) else fresh
        tensors = _tensors((args, tuple(kwargs.values())))
        sealed = self.sealing.holds(tensors)
        with self._window(None, tensors) if sealed else nullcontext():
            if name == "resize_":
                self._bands.release(args[0])
            result = func(*args, **kwargs)
        if sealed:
            self.sealing.cover(_tensors(result))
        return result

    @contextmanager
    def around(self, name: str, operations: dict[str, int], tensors: Sequence[Tensor]) -> Iterator[None]:
        """Run a kernel of another kind than Triton's inside: a launch, which alone sees sealed memory."""
        self._note(Launch(name, (), operations))
        with nullcontext() if self.timed else self._window(None, tuple(tensors)):
            yield

    def _around_run(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def launch(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            # An object could say now this and now that.
            warmup = bool(warmup)
            if self.timed and not warmup:
                self._note(Launch(launches.name_of(kernel), (), {}))
                if len(sys._current_frames()) > 1:
                    self.seen.operators.setdefault("a second Python thread")
            if self.timed or warmup:
                return run(kernel, *args, grid=grid, warmup=warmup, **kwargs)
            bound = launches.bound(kernel, args, kwargs)
            # The grid is asked for once, here, where sealed memory is closed.
            sizes = launches.sizes(grid(bound) if callable(grid) else grid)
            seen = self._note(Launch(launches.name_of(kernel), sizes, launches.constants(kernel, bound)))
            hooks, kernel.pre_run_hooks = list(kernel.pre_run_hooks), []
            try:
                for hook in hooks:
                    hook(*args, **kwargs)
                with self._window(kernel, (args, tuple(kwargs.values()))):
                    return run(kernel, *args, grid=sizes, warmup=False, **kwargs)
            finally:
                kernel.pre_run_hooks = hooks
                if self._memory and self._memory.traffic and seen is not None:
                    told = self.seen.launches[seen]
                    moved = launches.together(told.traffic, self._memory.traffic)
                    self.seen.launches[seen] = replace(told, traffic=moved)

        return launch

    def _around_trial(self, bench: Callable[..., Any]) -> Callable[..., Any]:
        def trial(autotuner: Any, *args: Any, **kwargs: Any) -> Any:
            # An autotuner's trials are not the learner's launches; in the interpreter, they are no launches at all.
            self._trials += self._memory is None
            try:
                return bench(autotuner, *args, **kwargs)
            finally:
                self._trials -= self._memory is None

        return trial

    def _around_constants(self, call: Callable[..., Any]) -> Callable[..., Any]:
        from triton.language import tensor

        def compute(function: Any, *args: Any, **kwargs: Any) -> Any:
            # It is Python, for compile-time constants; a compiler gives it nothing else.
            if self.running and any(isinstance(one, tensor) for one in (*args, *kwargs.values())):
                self._intruded("a constexpr_function that got values of a kernel")
            return call(function, *args, **kwargs)

        return compute

    def _around_compiled(self, getitem: Callable[..., Any]) -> Callable[..., Any]:
        def with_grid(kernel: Any, grid: Any) -> Callable[..., Any]:
            runner: Callable[..., Any] = getitem(kernel, grid)
            if self.timed:
                self._note(Launch(launches.name_of(kernel), (), {}))
                return runner

            def launch(*args: Any, **kwargs: Any) -> Any:
                self._note(Launch(launches.name_of(kernel), launches.sizes(grid), {}))
                with self._window(None, (args, tuple(kwargs.values()))):
                    return runner(*args, **kwargs)

            return launch

        return with_grid

    def _note(self, launch: Launch) -> int | None:
        """Remember a launch; its place among those of the call, or None. The last place is that of all further ones."""
        if self._trials:
            return None
        if len(self.seen.launches) < _MOST_LAUNCHES:
            self.seen.launches.append(launch)
        return len(self.seen.launches) - 1

    @contextmanager
    def _window(self, kernel: Any, values: Any) -> Iterator[None]:
        """While a kernel runs, sealed memory is open: to the kernel, and to nothing that came along with it."""
        suspects = [*onlookers.among(values)]
        codes: tuple[CodeType, ...] = ()
        if self._memory and kernel is not None:
            by_place, by_name = values
            examined = self._examined(kernel, (*by_place, *by_name))
            suspects += [f"Python in the kernel: {name}" for name in examined.foreign]
            codes = examined.codes
        if not self.sealing.is_open:
            suspects += [*onlookers.beside(kernel, (_Functions, _Operators))]
            if self._threads and onlookers.more_threads_than(self._threads):
                suspects.append("a second thread")
        suspects += [f"{name}, which was replaced" for name in self._replaced(of_ours=self.sealing.is_open)]
        tensors = _tensors(values)
        self.running += 1
        try:
            if suspects:
                self.seen.operators.update(dict.fromkeys(suspects))
                yield
            else:
                yield from self._opened(tensors, (*codes, *onlookers.makers(values)), alone=kernel is not None)
        finally:
            self.running -= 1
            if self._memory and self._memory.strayed:
                self.seen.operators.setdefault("a store to an address that is in none of the kernel's tensors")

    def _replaced(self, *, of_ours: bool) -> list[str]:
        """What kernels run on and is no longer what it was."""
        # Ours are looked at in every call: a function in their place could keep, for later, what it is called with.
        found = self._unaltered.differences(of_ours=of_ours) if self._unaltered else iter(())
        return [*islice(found, _MOST_REPLACED)]

    def _examined(self, kernel: Any, values: Sequence[Any]) -> Examined:
        """What a kernel is made of; looked for at its first launch, and in sealed calls again: names can be rebound."""
        if not self.sealing.is_open or id(kernel) not in self._kernels:
            self._kernels[id(kernel)] = kernel, examine(kernel, values)
        return self._kernels[id(kernel)][1]

    def _opened(self, tensors: Sequence[Tensor], codes: Sequence[CodeType], *, alone: bool) -> Iterator[None]:
        """A window; in the interpreter, a kernel's is for the kernel `alone`, whose code is `codes`."""
        if self.sealing.is_open:
            yield
            return
        watched = (
            self._bystanders.excluded(codes, self._intruded) if self._bystanders and self._memory and alone else None
        )
        try:
            with undisturbed(), watched or nullcontext(), self.sealing.window(tensors):
                yield
        except BaseException as raised:
            if is_passed_over(raised) and self._has_loaded_nothing():
                raise
            # Its frames hold what the kernel had loaded.
            self.seen.operators.setdefault("an exception in a kernel")
            raise raised.with_traceback(None) from None

    def _has_loaded_nothing(self) -> bool:
        """Tell whether the latest launch can know nothing of its inputs: compilers refuse a kernel before it runs."""
        if self._memory is None:
            return True
        moved = self._memory.traffic
        return moved is not None and moved.complete and moved.loaded_bytes == moved.unique_loaded_bytes == 0

    def _intruded(self, name: str) -> None:
        """Something else has started to run while memory is open."""
        self.sealing.shut()
        self.seen.operators.setdefault(name)

    def _hear(self, event: str, args: Any) -> None:
        """There is no audit hook but this one: they can be neither listed nor taken away. Python does without one that
        is refused, silently.
        """
        if event == "sys.addaudithook":
            raise RuntimeError("an audit hook would see what runs beside a kernel")
        if event == "object.__setattr__" and args[1] == "__code__" and self._unaltered:
            self._unaltered.recode(args[0])
        if self._bystanders and (reached := self._bystanders.heard(event, args)):
            self._reached[reached] = None
            self.seen.operators.setdefault(reached)


def _tensors(values: Any) -> list[Tensor]:
    """Every tensor among the values, in tuples, lists and tensor descriptors too."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, tuple | list):
        return [tensor for value in values for tensor in _tensors(value)]
    if onlookers.is_triton(values) and isinstance(getattr(values, "base", None), Tensor):
        return [values.base]
    return []


def prepare(*, interpreted: bool) -> None:
    """Look once, in the fork server, at what every probe has to know."""
    bystanders.remember()
    if interpreted:
        unaltered.remember(_SUPPORTING)


def fill_uninitialised_memory(*, on: bool) -> None:
    """Let torch.empty and its kin return NaN, so that an element the submission never wrote is seen."""
    # The public switch imports torch's compiler, which costs more than everything else a child does.
    torch._C._set_deterministic_algorithms(on, warn_only=True)
