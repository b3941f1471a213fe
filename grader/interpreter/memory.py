"""Hook the interpreter: show every load, store, atomic and tl.dot to the guard before it happens.

All accesses end in four methods of InterpreterBuilder: unmasked ones, block pointers, tensor descriptors, gather and
scatter are lowered onto them. The upper bits of a pointer hold the number of the tensor that it came from.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from grader.interpreter.accesses.guard import Addresses, Guard, Lanes, address_of
from grader.interpreter.accesses.races import Access, Heed, Kind, Operation, Order
from grader.interpreter.accesses.sums import AtomicSums
from grader.interpreter.arithmetic.instructions import InstructionCounter
from grader.interpreter.arithmetic.unspecified import undefined
from grader.interpreter.gather import LANE_ORDER
from grader.interpreter.groups import Alone, programs_at_once, remember_bytes, update_in_order
from grader.interpreter.places import running_line
from grader.interpreter.programs.backwards import BackwardsKernel
from grader.interpreter.programs.dependence import hear_of_waits
from grader.interpreter.programs.leading_axis import reduce_within_programs
from grader.interpreter.programs.lockstep import LockstepKernel
from grader.interpreter.programs.patience import PATIENCE
from grader.interpreter.versions import no_cache_policy, rereads
from grader.protocol.footprint import Footprint
from grader.protocol.observations import GuardFinding, Pause, Traffic, Waste
from grader.protocol.requests import Interrupted

# The bytes that a tensor memory accelerator stores at once.
_UNIT_BYTES = 16
# More lines of accesses than any real kernel has.
_MOST_LINES = 256
# By Triton's names; the default, ACQUIRE_RELEASE, does both.
_ORDERS: dict[str, Order] = {"RELAXED": "plain", "ACQUIRE": "acquires", "RELEASE": "releases"}


@dataclass(frozen=True)
class _Log:
    """Join what a launch has recorded so far: accesses and sums go back together."""

    guard: Guard
    sums: AtomicSums
    waits: dict[int, int]

    def mark(self) -> tuple[tuple[int, ...], tuple[int, int]]:
        """Return the present state."""
        return self.guard.mark(), self.sums.mark()

    def go_back(self, mark: tuple[tuple[int, ...], tuple[int, int]]) -> None:
        """Forget all that came after a state."""
        self.guard.go_back(mark[0])
        self.sums.go_back(mark[1])
        # If a program made no access since its wait, the wait makes no difference.
        for program in [program for program, time in self.waits.items() if time >= mark[0][0]]:
            del self.waits[program]

    def settle(self, mark: tuple[tuple[int, ...], tuple[int, int]]) -> None:
        """Keep all that came after a state."""
        self.guard.settle(mark[0])

    @property
    def widest(self) -> int:
        """Return the most lanes of one access so far."""
        return self.guard.widest


class MemoryWatch:
    """Watches the interpreter of this process. Call `install` once.

    traffic, strayed: of the latest launch. Findings collect until `take`.
    """

    def __init__(self) -> None:
        self._guard: Guard | None = None
        self._builder: Any = None
        self._pointers: dict[int, np.uint64] = {}
        self._alive: list[Any] = []
        self._findings: list[GuardFinding] = []
        self._sums = AtomicSums()
        self._instructions = InstructionCounter(self._count)
        # The most lanes of an access, by kernel and constants; None where each program runs by itself.
        self._known: dict[Any, int] | None = None
        self.strayed = False
        self.traffic: Traffic | None = None
        self._latest: Guard | None = None
        # By program of the latest launch that waited for the previous launch: the number of operations before the wait.
        self.waits: dict[int, int] = {}
        self._backwards: Generator | None = None
        self._interrupted: Interrupted = "none"
        self._usual: Sequence[Pause] = ()
        self._meets = False
        # Whether a kernel read fractions in memory as whole numbers.
        self.reads_bits = False
        # Lines of stores whose lanes clash.
        self._clashes: dict[int, None] = {}
        # By line, atomics and volatile loads.
        self._pauses: dict[int, Pause] = {}

    def waste(self) -> Waste | None:
        """Count what the latest launch moves for nothing, on demand: few launches are judged by it."""
        return self._latest.waste() if self._latest else None

    def footprint(self) -> Footprint | None:
        """Count the footprint of the latest launch, on demand: most launches are reported without it."""
        return self._latest.footprint() if self._latest else None

    def operations(self) -> Sequence[Operation] | None:
        """Return the operations of the latest launch; None where there were too many to keep."""
        return self._latest.operations if self._latest else []

    def run_in_lockstep(self) -> None:
        """Run many programs of a launch at once. Call it after `install` and after the language is patched once."""
        reduce_within_programs()
        self._known = {}

    def take(self) -> tuple[GuardFinding, ...]:
        """Return the findings since the last call, each line of code once for each kind."""
        found = {(one.kind, one.line, one.other_line): one for one in reversed(self._findings)}
        self._findings.clear()
        return tuple(reversed(found.values()))

    def take_unordered(self) -> tuple[int, ...]:
        """Return the lines of atomic additions whose sums depend on the order, since the last call."""
        return self._sums.take()

    def take_meets(self) -> bool:
        """Return whether programs of a launch met since the last call, in conflicting ways."""
        found, self._meets = self._meets, False
        return found

    def begin(self) -> None:
        """Start over with a call: nothing met, paused, clashed or read as bits."""
        self._meets = self.reads_bits = False
        self._pauses.clear()
        self._clashes.clear()

    def take_clashes(self) -> tuple[int, ...]:
        """Return the lines where lanes of one store store different values to one address, since the last call."""
        found = tuple(sorted(self._clashes))
        self._clashes.clear()
        return found[:_MOST_LINES]

    def take_pauses(self) -> tuple[Pause, ...]:
        """Return the lines behind which programs of a launch may pause, since the last call: those of most first."""
        found = sorted(self._pauses.values(), key=lambda one: (-one.programs, one.line))
        self._pauses.clear()
        return tuple(found[:_MOST_LINES])

    def run_backwards(
        self, chance: Generator | None, usual: Sequence[Pause] = (), interrupted: Interrupted = "none"
    ) -> None:
        """Run the programs of each launch in the opposite order from now on; None: in their own.

        chance: decides which program runs while another one waits. usual: the lines that programs pass without waiting.
        interrupted: how many programs that do not wait are interrupted.
        """
        self._backwards, self._usual, self._interrupted = chance, usual, interrupted

    def count_instructions(self, on: bool) -> None:
        """Count what kernels compute element by element from now on, or no longer: it takes a tenth more time."""
        self._instructions.switch(on)

    def install(self) -> None:
        """Install the hooks. Call it after every other patch."""
        from triton.runtime import interpreter
        from triton.runtime.interpreter import GridExecutor, ReduceScanOpInterface
        from triton.runtime.interpreter import InterpreterBuilder as Builder

        GridExecutor.__call__ = self._around_launch(GridExecutor.__call__)
        GridExecutor._init_args_hst = self._around_arguments(GridExecutor._init_args_hst)
        interpreter._implicit_cvt = self._around_conversion(interpreter._implicit_cvt)
        Builder.create_dot = self._around_dot(Builder.create_dot)
        ReduceScanOpInterface.apply = self._around_reductions(ReduceScanOpInterface.apply)
        self._builder = interpreter.interpreter_builder
        self._around_accesses(Builder)
        Builder.create_barrier = self._around_barrier(Builder.create_barrier)
        hear_of_waits(self._note_wait)
        _take_off_tags(Builder)
        _store_whole_units(Builder)

    # -- launches ------------------------------------------------------------------------------------------------------

    def _around_launch(self, launch: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(executor: Any, *args: Any, **kwargs: Any) -> Any:
            outer, self._guard = self._guard, Guard(str(getattr(executor.fn, "__name__", "kernel"))[:80])
            guard = self._guard
            PATIENCE.begin_launch(guard.writers)
            self.traffic, self._latest, self.strayed = None, None, False
            self.waits = {}
            if self._backwards is not None:
                executor.fn = BackwardsKernel(
                    executor.fn, self._builder, self._backwards, self._usual, self._interrupted
                )
            elif self._known is not None:
                executor.fn = LockstepKernel(
                    executor.fn, self._builder, _Log(guard, self._sums, self.waits), self._known
                )
            try:
                return launch(executor, *args, **kwargs)
            finally:
                self.traffic, self._latest = guard.finish(), guard
                self._sums.finish_launch()
                self._findings += guard.findings
                self._meets = self._meets or guard.meets
                self._clashes |= guard.clashes
                self.reads_bits = self.reads_bits or guard.reads_bits
                for one in guard.pauses():
                    known = self._pauses.get(one.line, one)
                    most, programs = max(one.most, known.most), max(one.programs, known.programs)
                    self._pauses[one.line] = Pause(one.line, most, programs)
                self.strayed = guard.strayed
                self._guard = outer
                self._pointers.clear()
                self._alive.clear()

        return guarded

    def _around_arguments(self, to_host: Callable[..., Any]) -> Callable[..., Any]:
        def admitted(executor: Any, args_dev: Any, kwargs: Any) -> Any:
            args, named = to_host(executor, args_dev, kwargs)
            for name, value in [*zip(executor.arg_names, args, strict=False), *named.items()]:
                self._admit(name, value)
            return args, named

        return admitted

    def _admit(self, name: str, value: Any) -> None:
        """Register every tensor of an argument, in tuples and descriptors too."""
        if self._guard is None:
            return
        if isinstance(value, tuple):
            for place, one in enumerate(value):
                self._admit(f"{name}[{place}]", one)
        elif hasattr(value, "base") and not hasattr(value, "data_ptr"):
            self._admit(name, value.base)
        elif hasattr(value, "data_ptr"):
            tensor = getattr(value, "base", value) if not isinstance(value, torch.Tensor) else value
            if isinstance(tensor, torch.Tensor):
                self._pointers[id(value)] = self._guard.admit(name, tensor)
                # Keep the object: an id is unique only while its object lives.
                self._alive.append(value)

    def _around_conversion(self, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def with_tag(arg: Any) -> Any:
            made = convert(arg)
            pointer = self._pointers.get(id(arg))
            if pointer is not None and hasattr(arg, "data_ptr"):
                made.handle.data = np.array([pointer], dtype=np.uint64)
            return made

        return with_tag

    # -- accesses ------------------------------------------------------------------------------------------------------

    def _around_accesses(self, builder: Any) -> None:
        from triton.language import int1
        from triton.runtime.interpreter import TensorHandle

        load, store, cas = builder.create_masked_load, builder.create_masked_store, builder.create_atomic_cas
        rmw, sums = _in_lane_order(builder.create_atomic_rmw), self._sums

        class AtomicResult(TensorHandle):  # type: ignore[misc]
            """The result of an atomic, which notes whether the program reads it."""

            def __init__(self, data: Any, dtype: Any, heed: Heed | None = None) -> None:
                self._heed, self._data = heed or Heed(), data
                super().__init__(data, dtype)
                self._heed.looked = False

            @property
            def data(self) -> Any:
                self._heed.looked = True
                return self._data

            @data.setter
            def data(self, data: Any) -> None:
                self._data = data

        def lanes_of(mask: Any) -> Lanes:
            # Block pointers and descriptors pass a bare array.
            return np.asarray(mask if isinstance(mask, np.ndarray) else mask.data, dtype=bool)

        def look(
            kind: Kind, ptrs: Any, mask: Any, *moved: Any, values: Any = None, **how: Any
        ) -> tuple[Any, Lanes | None]:
            """Show an access to the guard. how: other fields of Access."""
            pointer, width = _moved(ptrs, moved)
            clipped, whole = isinstance(mask, np.ndarray), pointer.element_ty.is_int()
            access = partial(Access, kind, width=width, clipped=clipped, whole=whole, **how)
            plain, allowed = self._look(access, ptrs, lanes_of(mask), values)
            return TensorHandle(plain, pointer), allowed

        def create_masked_load(self: Any, ptrs: Any, mask: Any, other: Any, *how: Any, **named: Any) -> Any:
            given = () if other is None else (other,)
            order: Order = "waits" if rereads(how, named) else "plain"
            plain, allowed = look("load", ptrs, mask, *given, order=order)
            if allowed is None:
                return load(self, plain, mask, other, *how, **named)
            outside = lanes_of(mask) & ~allowed
            got = load(self, plain, TensorHandle(allowed, int1), other, *how, **named)
            got.data = got.data.copy()
            got.data[outside] = undefined(got.data.dtype)
            return got

        def create_masked_store(
            self: Any, ptrs: Any, value: Any, mask: Any, *how: Any, spill: bool = False, **named: Any
        ) -> Any:
            plain, allowed = look("store", ptrs, mask, value, values=value.data, spill=spill)
            lit = mask if allowed is None else TensorHandle(allowed, int1)
            remember_bytes(plain.data, lanes_of(mask), value.data.dtype)
            return store(self, plain, value, lit, *how, **named)

        def create_atomic_rmw(self: Any, rmwOp: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:  # noqa: N803
            heed = Heed()
            (kind, order), update = _kind_and_order(sem, scope), getattr(rmwOp, "name", "")
            # In an exchange, the last lane wins.
            stored = val.data if update == "XCHG" else None
            plain, allowed = look(kind, ptr, mask, val, order=order, values=stored, heed=heed, update=update)
            lit = mask if allowed is None else TensorHandle(allowed, int1)
            update_in_order(plain.data, lanes_of(lit))
            remember_bytes(plain.data, lanes_of(lit), val.data.dtype)
            found = rmw(self, rmwOp, plain, val, lit, sem, scope)
            if rmwOp.name == "FADD":
                chosen = lanes_of(lit)
                sums.note(running_line()[0], plain.data[chosen], found.data[chosen], val.data[chosen])
            return AtomicResult(found.data, found.dtype, heed)

        def create_atomic_cas(self: Any, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
            every = TensorHandle(np.ones(ptr.data.shape, dtype=bool), int1)
            kind, order = _kind_and_order(sem, scope)
            plain, allowed = look(kind, ptr, every, cmp, val, order=order, update="CAS")
            if allowed is not None:
                # It takes no mask; without a legal address, its result is unknown.
                return TensorHandle(np.zeros_like(cmp.data), cmp.dtype.scalar)
            return cas(self, plain, cmp, val, sem, scope)

        builder.create_masked_load = create_masked_load
        builder.create_masked_store = create_masked_store
        builder.create_atomic_rmw = create_atomic_rmw
        builder.create_atomic_cas = create_atomic_cas

    def _look(
        self, access: Callable[..., Access], ptrs: Any, active: Lanes, values: Any
    ) -> tuple[Addresses, Lanes | None]:
        pointers = np.asarray(ptrs.data)
        if pointers.dtype != np.uint64:
            raise TypeError(f"an address is a number of 64 bits without a sign, not {pointers.dtype}")
        if active.shape != pointers.shape:
            active = np.broadcast_to(active, pointers.shape)
        guard = self._guard
        if guard is None:
            return pointers, None
        guard.grid = self._builder.grid_dim
        programs = programs_at_once()
        if programs is not None:
            made = access(program=int(programs[0]), where=running_line())
            addresses = guard.access_in_lockstep(made, programs, pointers, active, values)
            if addresses is None:
                raise Alone
            return addresses, None
        return guard.access(access(program=self._program(), where=running_line()), pointers, active, values)

    def _around_barrier(self, barrier: Callable[..., Any]) -> Callable[..., Any]:
        def noted(builder: Any) -> Any:
            if self._guard is not None:
                programs = programs_at_once()
                self._guard.pass_barrier([self._program()] if programs is None else programs.tolist())
            return barrier(builder)

        return noted

    def _around_reductions(self, apply: Callable[..., Any]) -> Callable[..., Any]:
        def noted(reduction: Any, values: Any) -> Any:
            self._share()
            return apply(reduction, values)

        return noted

    def _share(self) -> None:
        """Note that the threads of the programs that run share values, and so wait for one another."""
        if self._guard is not None:
            programs = programs_at_once()
            self._guard.share(self._program() if programs is None else programs)

    def _note_wait(self) -> None:
        """Note that the programs that run wait for the launches before."""
        if self._guard is not None:
            programs, time = programs_at_once(), len(self._guard.operations or ())
            for program in [self._program()] if programs is None else programs.tolist():
                self.waits.setdefault(program, time)

    def _program(self) -> int:
        """Return the number of the program that runs, in the interpreter's order."""
        (x, y, z), grid = self._builder.grid_idx, self._builder.grid_dim
        return int((x * grid[1] + y) * grid[2] + z)

    def _around_dot(self, dot: Callable[..., Any]) -> Callable[..., Any]:
        def counted(builder: Any, a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
            if self._guard is not None:
                programs = programs_at_once()
                shape, count = (a.data.shape, 1) if programs is None else (a.data.shape[1:], len(programs))
                self._guard.dot(2 * count * prod(shape) * b.data.shape[-1], count)
                self._share()
            return dot(builder, a, b, *args, **kwargs)

        return counted

    def _count(self, elements: int, special: bool) -> None:
        if self._guard is not None:
            self._guard.compute(elements, special=special)


def _in_lane_order(rmw: Callable[..., Any]) -> Callable[..., Any]:
    """Return the atomics of the builder, whose exchanges take lanes in the order of LANE_ORDER."""
    from triton.runtime.interpreter import TensorHandle

    def ordered(self: Any, operation: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        lanes = LANE_ORDER.of(ptr.data.size) if getattr(operation, "name", "") == "XCHG" else None
        if lanes is None:
            return rmw(self, operation, ptr, val, mask, sem, scope)
        moved = (TensorHandle(one.data.reshape(-1)[lanes], one.dtype) for one in (ptr, val, mask))
        found = rmw(self, operation, *moved, sem, scope)
        found.data = found.data[np.argsort(lanes)].reshape(ptr.data.shape)
        return found

    return ordered


def _take_off_tags(builder: Any) -> None:
    """Let a pointer that is converted to a number give only the address: no kernel can detect the guard."""
    from triton.runtime.interpreter import TensorHandle

    convert = builder.create_ptr_to_int

    def create_ptr_to_int(self: Any, src: Any, dst_type: Any) -> Any:
        return convert(self, TensorHandle(address_of(src.data), src.dtype), dst_type)

    builder.create_ptr_to_int = create_ptr_to_int


def _store_whole_units(builder: Any) -> None:
    """Let a descriptor's store write whole units of 16 bytes, as an H200 does: a row of 5 float32 gets 8 lanes."""
    from triton.runtime.interpreter import TensorHandle

    store, no_policy = builder.create_descriptor_store, no_cache_policy()

    def create_descriptor_store(self: Any, desc: Any, value: Any, indices: Any) -> None:
        store(self, desc, value, indices)
        *outer, last = desc.shape
        beyond = -last.data % (_UNIT_BYTES // _moved(desc.base, ())[1])
        if beyond.any():
            longer = copy.copy(desc)
            longer.shape = [*outer, TensorHandle(last.data + beyond, last.dtype)]
            (ptrs, wide), (_, exact) = (one.materialize_pointers(indices) for one in (longer, desc))
            self.create_masked_store(ptrs, value, wide & ~exact, **no_policy, spill=True)

    builder.create_descriptor_store = create_descriptor_store


def _moved(ptrs: Any, values: tuple[Any, ...]) -> tuple[Any, int]:
    """Return the type of an access's pointers, and the bytes that each pointer moves, by NumPy's width.

    values: the values that are stored, compared or put into masked lanes. Raises TypeError for anything but a pointer
    to one of Triton's own types: a made-up type may claim any width.
    """
    pointer = _one_of(ptrs.dtype)
    element = pointer.element_ty if type(pointer) is _types().pointer_type else None
    width = _width(element)
    if not width:
        raise TypeError(
            f"memory is reached through pointers to numbers, not through {_told(pointer)}: load an address as tl.int64 "
            "and make a pointer of it with .to(tl.pointer_type(…))"
        )
    for value in values:
        kind = np.asarray(value.data).dtype
        if kind.itemsize != width or kind.kind not in "biuf" or _width(_one_of(value.dtype)) != width:
            raise TypeError(
                f"an access to {_told(element)} moves {width} bytes at a time, not {_told(value.dtype)} held as {kind}"
            )
    return pointer, width


def _one_of(kind: Any) -> Any:
    """Return the element type of a block type; any other type unchanged."""
    return kind.element_ty if type(kind) is _types().block_type else kind


def _width(element: Any) -> int:
    """Return the bytes that the interpreter moves for one of Triton's own types, 0 for any other."""
    if type(element) is not _types().dtype:
        return 0
    bits = element.primitive_bitwidth
    return _width_of(element.name, bits) if type(bits) is int else 0


@cache
def _width_of(name: str, bits: int) -> int:
    """Return the bytes of a type of that name, 0 where it claims another number of bits."""
    from triton.runtime.interpreter import _get_np_dtype

    width = np.dtype(_get_np_dtype(_types().dtype(name))).itemsize
    return width if max(1, bits // 8) == width else 0


@cache
def _types() -> Any:
    """Return the module of Triton's types: an import in every access costs more than the access's other checks."""
    from triton.language import core

    return core


def _told(kind: Any) -> str:
    return str(kind)[:80] if isinstance(kind, _types().dtype) else f"a {type(kind).__name__}"


def _kind_and_order(semantics: Any, scope: Any) -> tuple[Kind, Order]:
    """Return how other programs see an atomic, and how it orders other accesses.

    An atomic in the scope of one program is a plain store to the others, and orders none of them.
    """
    if getattr(scope, "name", "") == "CTA":
        return "store", "plain"
    return "atomic", _ORDERS.get(getattr(semantics, "name", ""), "orders")
