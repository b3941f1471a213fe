"""Find data races of one launch: two programs touch one address, one of them stores, and nothing orders them.

A GPU may run the programs in any order, so the one order in which the interpreter ran them shows every race among the
accesses that happened. Two accesses are ordered if the same program made both, or by atomics: an atomic releases the
earlier operations of its program, and acquires what earlier atomics on the same address released. It may do only one of
both. A program that does not read the result of its atomic acquires nothing. A program that waits for a flag, by
volatile loads, acquires from the program that set it: by an atomic, or by a store behind a barrier. Without the barrier
another thread of that program may not have stored yet.

Here, the accesses of one program count as ordered; grader.interpreter.accesses.exchanges looks at its threads.

Two programs that store equal values to one address are no race: overlapping tiles do that. Pure: reads operations only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from heapq import heappop, heappush
from itertools import pairwise
from operator import itemgetter
from typing import Literal

import numpy as np
import numpy.typing as npt

from grader.interpreter.accesses.lanes import Places

Kind = Literal["load", "store", "atomic"]
Order = Literal["plain", "orders", "acquires", "releases", "waits"]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_RANK: dict[Kind, int] = {"load": 0, "atomic": 1, "store": 2}
_STORE = 2
_OF_ATOMICS = frozenset[Order]({"orders", "acquires", "releases"})
# How many later accesses at its address each access is compared with.
_NEIGHBOURS = 64
# If operations span more units than this, only the touched ones are numbered.
_MOST_NUMBERS = 1 << 24


@dataclass(slots=True)
class Heed:
    """A flag: the program read the result of its atomic."""

    looked: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """One step of one program: `width` bytes at each of some addresses.

    where: a line and its file. order: for an atomic, "orders" if it releases earlier operations and acquires those of
    others, "releases" or "acquires" if it does only one; "waits" for a volatile load, which waits for another program's
    store and is no race itself. clipped: through a block pointer or a descriptor, which have masks of their
    own. heed: of an atomic whose result may go unread. update: what an atomic does, such as ADD. whole: of whole
    numbers. spill: a descriptor's store beyond the end of a row, to the end of a unit of 16 bytes.
    """

    kind: Kind
    width: int
    program: int
    where: tuple[int, str]
    order: Order = "plain"
    clipped: bool = False
    heed: Heed | None = None
    update: str = ""
    whole: bool = False
    spill: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An access that happened, at `offsets` bytes from `start`, in the tensor of that name.

    time: a counter through the launch. values: the values that a store stored. programs: the program of each lane, in
    ascending order, where several programs made the access in lockstep. places: the lanes of its block; None where
    they do not matter.
    """

    access: Access
    time: int
    start: int
    offsets: npt.NDArray[np.unsignedinteger]
    argument: str
    values: npt.NDArray[np.generic] | None = None
    programs: npt.NDArray[np.int32] | None = None
    places: Places | None = None

    def of_each_program(self) -> list[Operation]:
        """Return the operations of single programs that this one consists of."""
        if self.programs is None:
            return [self]
        starts = np.flatnonzero(np.diff(self.programs, prepend=-1)).tolist()
        return [
            Operation(
                replace(self.access, program=int(self.programs[start])),
                self.time,
                self.start,
                self.offsets[start:end],
                self.argument,
                None if self.values is None else self.values[start:end],
            )
            for start, end in pairwise([*starts, self.offsets.size])
        ]


@dataclass(frozen=True)
class Race:
    """Two unordered operations, the first address at which they meet, and the number of elements at which they meet.

    updates: both programs load from that address and store to it.
    """

    first: Operation
    second: Operation
    address: int
    elements: int
    updates: bool = False


@dataclass(frozen=True, slots=True)
class _RaceEvent:
    """An operation that releases or acquires.

    own: its program's event before it. before: the latest events at its addresses. until: the time up to which it
    releases its program's operations.
    """

    operation: Operation
    own: int | None
    before: tuple[int, ...]
    until: int

    @property
    def heeded(self) -> bool:
        """Return whether its program acquires from the earlier events at its addresses."""
        access = self.operation.access
        return access.order != "releases" and (access.heed is None or access.heed.looked)


class _Hearing:
    """Finds what comes before an event in every legal order: from the latest to the earliest, as far as is asked.

    Of a lock that thousands of programs take in turn, each asks for the one before it alone.
    """

    def __init__(self, events: Sequence[_RaceEvent], event: int) -> None:
        self._events = events
        self._waiting = [(-events[event].operation.time, event, False)]
        self._seen = {(event, False)}
        # By program, the time up to which its operations come before; and the times of flags.
        self._heard: dict[int, int] = {}
        self._flags: set[int] = set()

    def includes(self, first: Operation) -> bool:
        """Return whether an operation comes before the event."""
        # Events before another one are earlier.
        while self._waiting and -self._waiting[0][0] >= first.time:
            self._take_in(*heappop(self._waiting)[1:])
        return self._heard.get(first.access.program, -1) >= first.time or first.time in self._flags

    def _take_in(self, place: int, passes_on: bool) -> None:
        """Take in an event, and queue those before it.

        passes_on: an atomic passes on the events at its address, whether or not its own program reads the result.
        """
        one = self._events[place]
        program = one.operation.access.program
        self._heard[program] = max(self._heard.get(program, -1), one.until)
        if one.until < one.operation.time:
            self._flags.add(one.operation.time)
        found = [(one.own, False)] if one.own is not None else []
        found += [(other, True) for other in one.before if passes_on or one.heeded]
        for entry in found:
            if entry not in self._seen:
                self._seen.add(entry)
                heappush(self._waiting, (-self._events[entry[0]].operation.time, *entry))


@dataclass
class Sync:
    """The synchronisation of a launch: its atomics, and the order that they create."""

    _events: list[_RaceEvent] = field(default_factory=list)
    _of_program: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)
    _latest: dict[int, int] = field(default_factory=dict)
    _set: dict[int, Operation] = field(default_factory=dict)
    _known: dict[int, _Hearing] = field(default_factory=dict)
    # Each program's barriers: the time, and the program's latest event.
    _barriers: dict[int, list[tuple[int, int | None]]] = field(default_factory=dict)

    def note(self, operation: Operation) -> None:
        """Note an operation; an atomic that orders acquires from the latest ones at its addresses."""
        if operation.access.order in _OF_ATOMICS:
            addresses = _addresses(operation)
            event = self._take_over(operation, [self._latest[one] for one in addresses if one in self._latest])
            if operation.access.order != "acquires":
                self._latest.update(dict.fromkeys(addresses, event))
        elif operation.access.kind == "store" and operation.offsets.size == 1:
            # One element: it may be a flag.
            self._set[_addresses(operation)[0]] = operation

    def wait(self, operation: Operation) -> None:
        """Note a volatile load: it acquires from the atomics and plain stores that set these addresses."""
        addresses = _addresses(operation)
        before = [self._latest[one] for one in addresses if one in self._latest]
        setters = {id(found): found for one in addresses if (found := self._set.get(one))}
        before += [self._setting(one) for one in setters.values()]
        self._take_over(operation, before)

    def pass_barrier(self, program: int, time: int) -> None:
        """Note a barrier of a program, behind its operations before a time."""
        _, events = self._of_program.get(program, ([], []))
        self._barriers.setdefault(program, []).append((time, events[-1] if events else None))

    def go_back(self, time: int) -> None:
        """Forget the barriers behind operations of this time and later ones."""
        for barriers in self._barriers.values():
            del barriers[bisect_right(barriers, time, key=itemgetter(0)) :]

    def orders(self, first: Operation, second: Operation) -> bool:
        """Return whether `first`, the earlier operation here, comes before `second` in every legal order."""
        if first.access.program == second.access.program:
            return True
        latest = self._latest_of(second.access.program, second.time)
        if latest is None:
            return False
        if latest not in self._known:
            self._known[latest] = _Hearing(self._events, latest)
        return self._known[latest].includes(first)

    def _take_over(self, operation: Operation, before: Sequence[int]) -> int:
        """Add an event of the operation's program, and return its number."""
        times, events = self._of_program.setdefault(operation.access.program, ([], []))
        event = self._event(operation, events[-1] if events else None, before)
        times.append(operation.time)
        events.append(event)
        return event

    def _setting(self, flag: Operation) -> int:
        """Add the event of a store that sets a flag: it releases its program's operations before its latest barrier."""
        barriers = self._barriers.get(flag.access.program, [])
        place = bisect_right(barriers, flag.time, key=itemgetter(0))
        time, own = barriers[place - 1] if place else (0, None)
        return self._event(flag, own, (), time - 1)

    def _event(self, operation: Operation, own: int | None, before: Sequence[int], until: int | None = None) -> int:
        until = operation.time if until is None else until
        self._events.append(_RaceEvent(operation, own, tuple(dict.fromkeys(before)), until))
        return len(self._events) - 1

    def _latest_of(self, program: int, time: int) -> int | None:
        """Return the program's latest event up to a time, or None."""
        times, events = self._of_program.get(program, ([], []))
        place = bisect_right(times, time)
        return events[place - 1] if place else None


def _addresses(operation: Operation) -> list[int]:
    """Return each address of an operation once."""
    found: list[int] = (np.unique(operation.offsets).astype(np.int64) + operation.start).tolist()
    return found


def find_races(operations: Sequence[Operation], sync: Sync, most: int) -> Iterator[Race]:
    """Yield up to `most` races among the operations of one region, one for each pair of lines."""
    in_lockstep = any(one.programs is not None for one in operations)
    if most <= 0 or all(one.access.kind == "load" for one in operations):
        return
    if not in_lockstep and len({one.access.program for one in operations}) < 2:
        return
    told: set[frozenset[tuple[int, str]]] = set()
    unit = unit_of(operations)
    if in_lockstep:
        if not _conflicts(operations, *numbering(operations, unit)).any():
            return
        each = [single for one in operations for single in one.of_each_program()]
        # As one program after another makes them.
        operations = sorted(each, key=lambda one: (one.access.program, one.time))
    for first, second, addresses in _meetings(operations, unit):
        a, b = operations[first], operations[second]
        lines = frozenset((a.access.where, b.access.where))
        if lines in told or sync.orders(a, b):
            continue
        apart = differing(a, b, addresses, unit)
        if not apart.size:
            continue
        told.add(lines)
        place, elements = int(apart[0]), int(np.unique((apart - b.start) // b.access.width).size)
        yield Race(a, b, place, elements, _both_update(operations, (a.access.program, b.access.program), place))
        if len(told) >= most:
            return


def do_programs_meet(operations: Sequence[Operation]) -> bool:
    """Return whether two programs touch one address in conflicting ways, in whatever order.

    Atomics conflict if programs read their results, and if the last one decides the value: exchanges, and
    updates of two kinds at one address.
    """
    if not operations or all(one.access.kind == "load" for one in operations):
        return False
    unit = unit_of(operations)
    if bool(_conflicts(operations, *numbering(operations, unit)).any()):
        return True
    atomics = [one for one in operations if one.access.kind == "atomic"]
    commute = len({one.access.update for one in atomics}) < 2 and all(one.access.update != "XCHG" for one in atomics)
    asked = [one for one in atomics if not commute or one.access.heed is None or one.access.heed.looked]
    as_stores = [replace(one, access=replace(one.access, kind="store")) for one in asked]
    return bool(as_stores) and bool(_conflicts(as_stores, *numbering(as_stores, unit)).any())


def _both_update(operations: Sequence[Operation], programs: tuple[int, int], address: int) -> bool:
    """Return whether each of these programs both loads from an address and stores to it."""
    missing = {(program, kind) for program in programs for kind in ("load", "store")}
    for one in operations:
        made = (one.access.program, one.access.kind)
        if made in missing:
            behind = address - one.start - one.offsets.astype(np.int64)
            if bool(((behind >= 0) & (behind < one.access.width)).any()):
                missing.discard(made)
                if not missing:
                    return True
    return False


def unit_of(operations: Sequence[Operation]) -> int:
    """Return the unit of comparison in bytes: the operations' common width, or 1 where widths differ."""
    width = operations[0].access.width
    alike = all(
        one.access.width == width
        and not (one.start - operations[0].start) % width
        # Widths are powers of two, so the lowest bits of all offsets suffice.
        and not int(np.bitwise_or.reduce(one.offsets)) % width
        for one in operations
    )
    return width if alike else 1


def spread(operation: Operation, unit: int) -> Ints:
    """Return the address of every unit that an operation touches, lane by lane."""
    base = operation.offsets.astype(np.int64) + operation.start
    if operation.access.width == unit:
        return base
    return (base[:, None] + np.arange(0, operation.access.width, unit)).reshape(-1)


def numbering(operations: Sequence[Operation], unit: int) -> tuple[Callable[[Operation], Ints], int]:
    """Return a function that numbers the units of an operation, and the count of numbers."""
    low = min(one.start for one in operations)
    high = max(one.start + int(one.offsets.max()) + one.access.width for one in operations)
    if (high - low) // unit <= _MOST_NUMBERS:
        # A shift divides by a power of two faster.
        shift = unit.bit_length() - 1
        return lambda one: (spread(one, unit) - low) >> shift, -(-(high - low) // unit)
    every = np.unique(np.concatenate([spread(one, unit) for one in operations]))
    return lambda one: np.searchsorted(every, spread(one, unit)), every.size


def without_idle_loads(operations: Sequence[Operation]) -> list[Operation]:
    """Return the operations of one region; loads keep only the lanes where something is stored.

    Each operation keeps its place, even without lanes.
    """
    made = [one for one in operations if one.offsets.size]
    if not made:
        return [*operations]
    unit = unit_of(made)
    numbers, count = numbering(made, unit)
    stored = np.zeros(count, dtype=bool)
    for one in made:
        if one.access.kind != "load":
            stored[numbers(one)] = True

    def thinned(one: Operation) -> Operation:
        if one.access.kind != "load" or not one.offsets.size:
            return one
        kept = np.asarray(stored[numbers(one)].reshape(one.offsets.size, -1).any(1))
        programs = None if one.programs is None else one.programs[kept]
        places = None if one.places is None else one.places.only(kept)
        return replace(one, offsets=one.offsets[kept], programs=programs, places=places)

    return [*map(thinned, operations)]


def without_repeated_stores(operations: Sequence[Operation]) -> list[Operation]:
    """Return the operations; of a program's stores to the same elements, only the first and the last keep lanes.

    The stores between are ordered with other programs if these two are. Each operation keeps its place.
    """
    alike: dict[bytes, list[int]] = {}
    for place, one in enumerate(operations):
        if one.access.kind == "store" and one.offsets.size:
            parts = (one.offsets, one.programs)
            told = b"".join(b"" if part is None else part.tobytes() for part in parts)
            about = f"{one.access.program} {one.start} {one.access.order}".encode()
            alike.setdefault(blake2b(about + told).digest(), []).append(place)
    repeated = {place for places in alike.values() for place in places[1:-1]}
    return [_without_lanes(one) if place in repeated else one for place, one in enumerate(operations)]


def _without_lanes(one: Operation) -> Operation:
    none = slice(0, 0)
    programs = None if one.programs is None else one.programs[none]
    return replace(one, offsets=one.offsets[none], programs=programs, values=None, places=None)


def touched_bytes(operations: Sequence[Operation]) -> int:
    """Return the number of bytes that these operations touch, each counted once."""
    if not operations:
        return 0
    unit = unit_of(operations)
    numbers, count = numbering(operations, unit)
    touched = np.zeros(count, dtype=bool)
    for one in operations:
        touched[numbers(one)] = True
    return int(touched.sum()) * unit


def _contested(operations: Sequence[Operation], unit: int) -> tuple[Ints, Ints]:
    """Return the addresses that two programs touch in conflicting ways, and the operation of each address.

    Two loads do not conflict, nor do two atomics.
    """
    numbers, count = numbering(operations, unit)
    contested = _conflicts(operations, numbers, count)
    addresses, owners = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for place, one in enumerate(operations if contested.any() else ()):
        found = spread(one, unit)[contested[numbers(one)]]
        addresses.append(found)
        owners.append(np.full(found.size, place, dtype=np.int64))
    return np.concatenate(addresses), np.concatenate(owners)


def _conflicts(operations: Sequence[Operation], numbers: Callable[[Operation], Ints], count: int) -> Flags:
    """Return a flag for each numbered unit: two programs touch it in conflicting ways."""
    latest = np.full(count, -1, dtype=np.int32)
    several, loaded, stored, updated = (np.zeros(count, dtype=bool) for _ in range(4))
    marks = {"load": loaded, "store": stored, "atomic": updated}
    for one in operations:
        at = numbers(one)
        programs = one.access.program if one.programs is None else np.repeat(one.programs, at.size // one.offsets.size)
        before = latest[at]
        several[at[(before >= 0) & (before != programs)]] = True
        latest[at] = programs
        several[at[latest[at] != programs]] = True
        marks[one.access.kind][at] = True
    conflicts: Flags = several & (stored | (updated & loaded))
    return conflicts


def _first_and_last(addresses: Ints, programs: Ints, ranks: Ints) -> Flags:
    """Return flags: of more than _NEIGHBOURS accesses at an address, the first and last of each kind and program.

    addresses: in order. The accesses between are ordered with other programs if these are, so many equal accesses hide
    no other one. If there are fewer, all are kept.
    """
    order = np.lexsort((ranks, programs, addresses))
    changes = np.zeros(addresses.size + 1, dtype=bool)
    changes[[0, -1]] = True
    for one in (addresses, programs, ranks):
        changes[1:-1] |= np.diff(one[order]) != 0
    starts = np.flatnonzero(np.diff(addresses, prepend=-1, append=-1))
    kept = np.repeat(np.diff(starts) <= _NEIGHBOURS, np.diff(starts))
    kept[order[changes[:-1] | changes[1:]]] = True
    return kept


def _meetings(operations: Sequence[Operation], unit: int) -> Iterator[tuple[int, int, Ints]]:
    """Yield pairs of conflicting operations of different programs, with the addresses at which they meet.

    Pairs with a load of another program's store come first: they explain most.
    """
    addresses, owners = _contested(operations, unit)
    order = np.argsort(addresses, kind="stable")
    addresses, owners = addresses[order], owners[order]
    ranks = np.array([_RANK[one.access.kind] for one in operations])[owners]
    programs = np.array([one.access.program for one in operations])[owners]
    kept = _first_and_last(addresses, programs, ranks)
    addresses, owners, ranks, programs = addresses[kept], owners[kept], ranks[kept], programs[kept]
    pairs = [np.zeros((2, 0), dtype=np.int64)]
    left = np.arange(addresses.size)
    for distance in range(1, _NEIGHBOURS + 1):
        left = left[left < addresses.size - distance]
        left = left[addresses[left] == addresses[left + distance]]
        if not left.size:
            break
        here, there = ranks[left], ranks[left + distance]
        # Two loads do not conflict, nor do two atomics.
        conflicts = ((here != there) | (here == _STORE)) & (programs[left] != programs[left + distance])
        pairs.append(np.stack((left[conflicts], left[conflicts] + distance)))
    first, second = np.concatenate(pairs, axis=1)
    if not first.size:
        return
    keys = owners[first] * len(operations) + owners[second]
    by_pair = np.argsort(keys, kind="stable")
    keys, met = keys[by_pair], addresses[first][by_pair]
    cuts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1], [True])))
    found = [(*divmod(int(keys[begin]), len(operations)), begin, end) for begin, end in pairwise(cuts)]
    for earlier, later, begin, end in sorted(found, key=lambda pair: operations[pair[1]].access.kind != "load"):
        yield earlier, later, np.unique(met[begin:end])


def differing(a: Operation, b: Operation, addresses: Ints, unit: int) -> Ints:
    """Return the addresses at which the order matters: all except those at which both store the same value."""
    stored = [_stored(one, addresses, unit) for one in (a, b)]
    if stored[0] is None or stored[1] is None:
        return addresses
    found: Ints = addresses[(stored[0] != stored[1]).any(axis=1)]
    return found


def _stored(one: Operation, addresses: Ints, unit: int) -> npt.NDArray[np.uint8] | None:
    """Return the bytes that a store leaves at each address, [N, unit]; None if they are not known."""
    width = one.access.width
    if one.access.kind != "store" or one.values is None or one.values.dtype.itemsize != width:
        return None
    lanes = one.offsets.astype(np.int64) + one.start
    order = np.argsort(lanes, kind="stable")
    # Of several lanes at one address, the last one wins.
    place = np.searchsorted(lanes[order], addresses, side="right") - 1
    inner = addresses - lanes[order][place]
    values = np.ascontiguousarray(one.values).view(np.uint8).reshape(-1, width)[order[place]]
    found: npt.NDArray[np.uint8] = np.take_along_axis(values, inner[:, None] + np.arange(unit), axis=1)
    return found
