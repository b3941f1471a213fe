"""Hold the group of programs that runs in lockstep, and find the values that its programs agree on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grader.interpreter.gather import read

Array = NDArray[Any]
Numbers = NDArray[np.int64]


class Alone(BaseException):
    """Programs cannot run in lockstep. No kernel can catch it: it is no Exception."""


class Parted(BaseException):
    """Programs disagree about a value that the kernel's control flow reads. values: one for each program."""

    def __init__(self, values: Array) -> None:
        super().__init__()
        self.values = values


@dataclass(frozen=True, eq=False)
class Updates:
    """Hold what one atomic of a group updates: addresses [L], and the program of each, in ascending order."""

    addresses: Array
    programs: Numbers

    @cached_property
    def by_address(self) -> tuple[Array, Numbers, Numbers]:
        """Return every address once, in ascending order, and the first and the last program that updates it."""
        order = np.argsort(self.addresses, kind="stable")
        addresses, programs = self.addresses[order], self.programs[order]
        edges = addresses[1:] != addresses[:-1]
        first, last = np.append(True, edges), np.append(edges, True)
        return addresses[first], programs[first], programs[last]

    def come_before(self, others: Updates) -> bool:
        """Return whether every address gets these updates first if one program runs after another."""
        addresses, _, last = self.by_address
        wanted, first, _ = others.by_address
        place = np.minimum(np.searchsorted(addresses, wanted), addresses.size - 1)
        met = addresses[place] == wanted
        return not (last[place] > first)[met].any()


@dataclass
class Group:
    """The programs that run now.

    undo: addresses and their values before each store or atomic; updates: of each atomic; oldest first. Both hold what
    all parts of the group have done so far.
    """

    programs: Numbers
    undo: list[tuple[Array, Array]]
    updates: list[Updates]


_RUNNING: list[Group] = []


@contextmanager
def running(group: Group) -> Iterator[None]:
    """Let a group be the one that runs."""
    _RUNNING.append(group)
    try:
        yield
    finally:
        _RUNNING.clear()


def programs_at_once() -> Numbers | None:
    """Return the numbers of the programs that run in lockstep, [P], or None where one program runs."""
    return _RUNNING[-1].programs if _RUNNING else None


def elements(data: Array) -> int:
    """Return the number of elements that a value has in each program."""
    return data.size // len(data) if _RUNNING and data.ndim > 1 else data.size


def agreed(data: Array) -> Any:
    """Return the number that a scalar has in every program; raises Parted if they disagree."""
    if data.size > 1:
        values = data.reshape(-1)
        if (values != values[0]).any():
            raise Parted(values)
        return values[0].item()
    return data.item()


def counters_of_programs(bounds: Sequence[Any]) -> tuple[int, Iterator[Numbers]] | None:
    """Return the number of turns of a loop and its counters, [P] each; None if all running programs have the same.

    bounds: stop; start and stop; or start, stop and step: ints and scalars of the language. Programs whose loops have
    different lengths part.
    """
    if not _RUNNING:
        return None
    arrays = [one.handle.data.reshape(-1) if hasattr(one, "handle") else np.array([one]) for one in bounds]
    if not 0 < len(arrays) < 4 or all((one == one[0]).all() for one in arrays):
        return None
    start, stop, step = (np.zeros(1, np.int64), arrays[0], 1) if len(arrays) == 1 else (*arrays, 1)[:3]
    start, stop, step = np.broadcast_arrays(*(np.asarray(one, np.int64) for one in (start, stop, step)))
    if (step < 1).any():
        raise Alone
    lengths = np.maximum(0, -((start - stop) // step))
    if (lengths != lengths[0]).any():
        raise Parted(lengths)
    turns = int(lengths[0])
    return turns, (start + turn * step for turn in range(turns))


def go_alone() -> None:
    """Let each program of a group run by itself; does nothing where one program runs."""
    if _RUNNING:
        raise Alone


def firsts(data: Array) -> Array:
    """Return the first element of a value in each program."""
    return data.reshape(len(data), -1)[:, 0] if _RUNNING and data.ndim > 1 else data.reshape(-1)[:1]


def remember_bytes(addresses: Array, active: Array, dtype: np.dtype[Any]) -> None:
    """Remember the values at the active addresses before a store or atomic, where programs run in lockstep."""
    if _RUNNING:
        chosen = addresses[active]
        _RUNNING[-1].undo.append((chosen, read(chosen, dtype)))


def update_in_order(addresses: Array, active: Array) -> None:
    """Let a group's atomic go on only if each address gets all updates in the order of the programs.

    addresses, active: [P, …]. Otherwise sums would have other bits than those of one program after another.
    """
    if not _RUNNING or not active.any():
        return
    group = _RUNNING[-1]
    owners = np.broadcast_to(group.programs.reshape(-1, *[1] * (addresses.ndim - 1)), addresses.shape)
    updates = Updates(addresses[active], owners[active])
    if not all(one.come_before(updates) for one in group.updates):
        raise Alone
    group.updates.append(updates)
