"""Run many programs of a launch at once: each operation of a kernel computes for all of them, along a leading axis.

NumPy then takes one step where the interpreter takes P. The results are those of one program after another:

- Programs that take different branches part: memory and guard go back to the start of the group, and each part of it
  starts again by itself.
- Programs that wait for each other (compare and swap, volatile loads), print, raise, or leave their tensors run one
  after another, from the last state that is sure. So errors and findings are always those of single programs.
- Atomics update each address in the order of the programs, so that sums and results have the same bits. Where they
  would not, the programs run one after another.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import Any, Protocol

import numpy as np

from grader.interpreter.gather import write
from grader.interpreter.groups import Alone, Group, Numbers, Parted, running
from grader.interpreter.programs.leading_axis import builder_of_groups

# The most elements of one value, and the most programs, that run at once: more leave the processor's caches.
_MOST_ELEMENTS = 1 << 16
_MOST_PROGRAMS = 1024
# How many programs show how large a kernel's values are.
_FIRST_PROGRAMS = 4
# How often the programs of one group may part before they run one after another.
_MOST_PARTINGS = 8
_MOST_KERNELS = 256


class AccessLog(Protocol):
    """A record of accesses that can go back."""

    def mark(self) -> object:
        """Return the present state."""

    def go_back(self, mark: Any) -> None:
        """Forget all that came after a state."""

    def settle(self, mark: Any) -> None:
        """Keep all that came after a state: it will not be forgotten."""

    @property
    def widest(self) -> int:
        """Return the most lanes of one access so far."""


class LockstepKernel:
    """Stands for a kernel while its programs run: the interpreter calls it once for each program of the grid.

    The first few programs show how large the kernel's values are, and so how many may run at once.
    known: the most lanes of an access, by kernel; 0 for a kernel whose programs run one after another.
    """

    def __init__(self, kernel: Callable[..., Any], builder: Any, accesses: AccessLog, known: dict[Any, int]) -> None:
        self.__name__ = kernel.__name__
        self.__signature__ = inspect.signature(kernel)
        self._kernel, self._builder, self._accesses, self._known = kernel, builder, accesses, known
        self._done = 0
        self._together = True
        self._partings = 0

    def __call__(self, **arguments: Any) -> None:
        """Run the builder's present program, unless it ran with an earlier one; those after it may run with it."""
        grid = self._builder.grid_dim
        program = int(np.ravel_multi_index(self._builder.grid_idx, grid))
        if program < self._done:
            return
        count = self._count(program, prod(grid), arguments) if self._together else 1
        if count > 1 and self._try_together(np.arange(program, program + count), arguments):
            self._done = program + count
            return
        self._done = program + 1
        self._kernel(**arguments)

    def _count(self, program: int, total: int, arguments: dict[str, Any]) -> int:
        """Return how many programs, from this one, run at once."""
        if total - program < 2:
            return 1
        key = self._key(arguments)
        widest = self._known.get(key)
        if widest is None:
            if not program:
                return min(total, _FIRST_PROGRAMS)
            if len(self._known) >= _MOST_KERNELS:
                self._known.clear()
            widest = self._known[key] = self._accesses.widest
        return max(1, min(total - program, _MOST_PROGRAMS, _MOST_ELEMENTS // widest)) if widest else 1

    def _key(self, arguments: dict[str, Any]) -> Any:
        """Return the kernel with its constants, which determine the size of its blocks."""
        return self._kernel, *(one for one in arguments.values() if type(one) in (int, bool))

    def _try_together(self, programs: Numbers, arguments: dict[str, Any]) -> bool:
        """Run these programs, and return True; or leave no trace of them, and run every further one by itself."""
        before = self._accesses.mark()
        whole = Group(programs, [], [])
        self._partings = 0
        try:
            self._run(whole, arguments)
        except (Alone, Exception):
            self._go_back(before, whole, 0, 0)
            self._together = False
            self._known[self._key(arguments)] = 0
        else:
            self._accesses.settle(before)
        return self._together

    def _run(self, group: Group, arguments: dict[str, Any]) -> None:
        """Run a group in lockstep. Raises Alone, or what the kernel raises."""
        before, undone, updates = self._accesses.mark(), len(group.undo), len(group.updates)
        try:
            with _lockstep(self._builder, group):
                self._kernel(**arguments)
        except Parted as parted:
            self._go_back(before, group, undone, updates)
            self._partings += 1
            _, part_of = np.unique(parted.values, return_inverse=True)
            if self._partings > _MOST_PARTINGS:
                part_of = np.arange(len(group.programs))
            for part in range(part_of.max() + 1):
                self._run(replace(group, programs=group.programs[part_of == part]), arguments)

    def _go_back(self, mark: object, group: Group, undone: int, updates: int) -> None:
        """Leave the accesses of a group only up to a mark, its stores and atomics up to those counts."""
        self._accesses.go_back(mark)
        for addresses, values in reversed(group.undo[undone:]):
            write(addresses, values)
        del group.undo[undone:], group.updates[updates:]


@contextmanager
def _lockstep(builder: Any, group: Group) -> Iterator[None]:
    """Let the language compute for a group of programs."""
    from triton.runtime.interpreter import interpreter_semantic

    together = builder_of_groups()
    together.grid_dim, together.grid_idx = builder.grid_dim, builder.grid_idx
    interpreter_semantic.builder = together
    try:
        with running(group):
            yield
    finally:
        interpreter_semantic.builder = builder
