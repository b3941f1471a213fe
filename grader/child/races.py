"""Races between the programs of one launch: two of them touch one address, one of them stores, and nothing orders them.

A GPU may run the programs in any order, so the one order in which the interpreter ran them shows every race among the
accesses that happened. What orders two accesses: the same program made both, or atomics. An atomic hands on what its
program did before it to whoever does an atomic on the same address later, and so on.

Two programs that store equal values to one address are left alone: tiles that overlap do that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

Kind = Literal["load", "store", "atomic"]
Order = Literal["plain", "orders", "volatile"]
Ints = npt.NDArray[np.int64]

_RANK: dict[Kind, int] = {"load": 0, "atomic": 1, "store": 2}
_LOAD, _ATOMIC, _STORE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Access:
    """What one program does in one step: `width` bytes at each of some addresses.

    where: a line and the file that it is in. order: "orders" for an atomic that hands on what was done before it,
    "volatile" for a load that waits for what another program will store.
    """

    kind: Kind
    width: int
    program: int
    where: tuple[int, str]
    order: Order = "plain"


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An access that happened, at `offsets` bytes from `start`, in the tensor of that name.

    `time` counts through the launch; `values` are what a store stored.
    """

    access: Access
    time: int
    start: int
    offsets: npt.NDArray[np.uint64]
    argument: str
    values: npt.NDArray[np.generic] | None = None


@dataclass(frozen=True)
class Race:
    """Two operations that nothing orders, the first address at which they meet, and how many there are."""

    first: Operation
    second: Operation
    address: int
    addresses: int


@dataclass
class Sync:
    """The atomics of a launch, and who hands on to whom."""

    _events: list[Operation] = field(default_factory=list)
    _before: list[tuple[int, ...]] = field(default_factory=list)
    _of_program: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)
    _latest: dict[int, int] = field(default_factory=dict)
    _known: dict[int, dict[int, int]] = field(default_factory=dict)

    def note(self, operation: Operation) -> None:
        """An atomic that orders: it takes over from the latest ones at its addresses, and from its own program."""
        event = len(self._events)
        addresses = np.unique(operation.offsets + np.uint64(operation.start)).tolist()
        times, events = self._of_program.setdefault(operation.access.program, ([], []))
        before = {self._latest[address] for address in addresses if address in self._latest}
        if events:
            before.add(events[-1])
        self._events.append(operation)
        self._before.append(tuple(before))
        self._latest.update(dict.fromkeys(addresses, event))
        times.append(operation.time)
        events.append(event)

    def orders(self, first: Operation, second: Operation) -> bool:
        """Whether `first`, the earlier one here, comes before `second` in every legal order."""
        if first.access.program == second.access.program:
            return True
        times, events = self._of_program.get(second.access.program, ([], []))
        place = bisect_right(times, second.time) - 1
        if place < 0:
            return False
        return self._heard(events[place]).get(first.access.program, -1) >= first.time

    def _heard(self, event: int) -> dict[int, int]:
        """Up to which time each program's operations come before this event."""
        if event not in self._known:
            heard: dict[int, int] = {}
            waiting, seen = [event], {event}
            while waiting:
                one = waiting.pop()
                operation = self._events[one]
                heard[operation.access.program] = max(heard.get(operation.access.program, -1), operation.time)
                waiting += [other for other in self._before[one] if other not in seen]
                seen.update(self._before[one])
            self._known[event] = heard
        return self._known[event]


def find_races(operations: Sequence[Operation], sync: Sync, most: int) -> Iterator[Race]:
    """Up to `most` races among the operations of one region, one for each pair of lines."""
    if (
        most <= 0
        or all(one.access.kind == "load" for one in operations)
        or len({one.access.program for one in operations}) < 2
    ):
        return
    told: set[tuple[int, int]] = set()
    for first, second, addresses in _meetings(operations):
        a, b = operations[first], operations[second]
        lines = a.access.where[0], b.access.where[0]
        if lines in told or sync.orders(a, b):
            continue
        differing = _differing(a, b, addresses)
        if not differing.size:
            continue
        told.add(lines)
        yield Race(a, b, int(differing[0]), int(differing.size))
        if len(told) >= most:
            return


def _lanes(operations: Sequence[Operation]) -> tuple[Ints, Ints]:
    """The address of every lane, and whose it is; of every byte, where the operations do not agree on a width."""
    width = min(one.access.width for one in operations)
    if any(one.access.width != width or (one.start - operations[0].start) % width for one in operations):
        width = 1
    addresses, owners = [], []
    for place, one in enumerate(operations):
        base = one.offsets.astype(np.int64) + one.start
        spread = (
            base if one.access.width == width else (base[:, None] + np.arange(0, one.access.width, width)).reshape(-1)
        )
        addresses.append(spread)
        owners.append(np.full(spread.size, place, dtype=np.int64))
    return np.concatenate(addresses), np.concatenate(owners)


def _meetings(operations: Sequence[Operation]) -> Iterator[tuple[int, int, Ints]]:
    """Pairs of operations of different programs that meet at an address, one of them storing, with those addresses.

    At every address each access is paired with the last store before it, and each load and atomic with the next store:
    what else meets there is ordered through these, or races with one of them.
    """
    addresses, owners = _lanes(operations)
    order = np.argsort(addresses, kind="stable")
    addresses, owners = addresses[order], owners[order]
    ranks = np.array([_RANK[one.access.kind] for one in operations])[owners]
    programs = np.array([one.access.program for one in operations])[owners]
    places = np.arange(addresses.size)
    starts = np.concatenate(([True], addresses[1:] != addresses[:-1]))
    first_here = np.maximum.accumulate(np.where(starts, places, 0))
    pairs = []
    # A store meets every other kind; an atomic meets loads as well.
    for writer in (_STORE, _ATOMIC):
        wrote = ranks == writer
        last = np.maximum.accumulate(np.where(wrote, places, -1))
        earlier = np.concatenate(([-1], last[:-1]))
        later = np.minimum.accumulate(np.where(wrote, places, addresses.size)[::-1])[::-1]
        following = np.concatenate((later[1:], [addresses.size]))
        meets = ranks != writer if writer == _ATOMIC else np.ones_like(wrote)
        before = meets & (earlier >= first_here)
        pairs.append((earlier[before], places[before]))
        ends = np.append(np.flatnonzero(starts)[1:], addresses.size)
        last_here = ends[np.cumsum(starts) - 1]
        after = meets & ~wrote & (following < last_here)
        pairs.append((places[after], following[after]))
    left, right = (np.concatenate(side) for side in zip(*pairs, strict=True))
    apart = programs[left] != programs[right]
    left, right = left[apart], right[apart]
    if not left.size:
        return
    keys = owners[left] * len(operations) + owners[right]
    by_pair = np.argsort(keys, kind="stable")
    keys, met = keys[by_pair], addresses[left][by_pair]
    cuts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1], [True])))
    for begin, end in pairwise(cuts):
        first, second = divmod(int(keys[begin]), len(operations))
        yield first, second, np.unique(met[begin:end])


def _differing(a: Operation, b: Operation, addresses: Ints) -> Ints:
    """The addresses at which it matters who comes first: not where both store the same."""
    if (
        a.access.kind != "store"
        or b.access.kind != "store"
        or a.values is None
        or b.values is None
        or a.access.width != b.access.width
    ):
        return addresses
    stored = [_stored(one, addresses) for one in (a, b)]
    if stored[0] is None or stored[1] is None:
        return addresses
    found: Ints = addresses[(stored[0] != stored[1]).any(axis=1)]
    return found


def _stored(one: Operation, addresses: Ints) -> npt.NDArray[np.uint8] | None:
    """The bytes that a store leaves at each address, [N, width]; None where lanes and addresses do not line up."""
    values = np.ascontiguousarray(one.values)
    if values.dtype.itemsize != one.access.width:
        return None
    lanes = one.offsets.astype(np.int64) + one.start
    order = np.argsort(lanes, kind="stable")
    # Of several lanes at one address the last one is what stays.
    place = np.searchsorted(lanes[order], addresses, side="right") - 1
    if bool((lanes[order][place] != addresses).any()):
        return None
    found: npt.NDArray[np.uint8] = values.view(np.uint8).reshape(-1, one.access.width)[order[place]]
    return found
