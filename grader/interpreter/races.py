"""Races between the programs of one launch: two of them touch one address, one of them stores, and nothing orders them.

A GPU may run the programs in any order, so the one order in which the interpreter ran them shows every race among the
accesses that happened. What orders two accesses: the same program made both, or atomics. An atomic hands on what its
program did before it to whoever does an atomic on the same address later, and so on; but a program that does not look
at what its atomic found knows nothing of the others. Whoever waits for a flag, by volatile loads, takes over from the
program that set it.

Two programs that store equal values to one address are left alone: tiles that overlap do that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

Kind = Literal["load", "store", "atomic"]
Order = Literal["plain", "orders", "waits"]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_RANK: dict[Kind, int] = {"load": 0, "atomic": 1, "store": 2}
_STORE = 2
# Each access is compared with so many later ones at its address.
_NEIGHBOURS = 64
# Where operations lie further apart, what they touch is numbered instead of what lies between.
_MOST_NUMBERS = 1 << 24


@dataclass(slots=True)
class Heed:
    """Whether a program looked at what its atomic found there."""

    looked: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """What one program does in one step: `width` bytes at each of some addresses.

    where: a line and the file that it is in. order: "orders" for an atomic that hands on what was done before it,
    "waits" for a volatile load, which looks for what another program will store and is no race itself. clipped: through
    a block pointer or a descriptor, which make a mask of their own. heed: of an atomic that may go unheeded.
    """

    kind: Kind
    width: int
    program: int
    where: tuple[int, str]
    order: Order = "plain"
    clipped: bool = False
    heed: Heed | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An access that happened, at `offsets` bytes from `start`, in the tensor of that name.

    `time` counts through the launch; `values` are what a store stored.
    """

    access: Access
    time: int
    start: int
    offsets: npt.NDArray[np.unsignedinteger]
    argument: str
    values: npt.NDArray[np.generic] | None = None


@dataclass(frozen=True)
class Race:
    """Two operations that nothing orders, the first address at which they meet, and at how many elements they do.

    updates: whether both programs load from that address and store to it: each changes what it finds there.
    """

    first: Operation
    second: Operation
    address: int
    elements: int
    updates: bool = False


@dataclass(frozen=True, slots=True)
class _RaceEvent:
    """An operation that hands on. `own` is its program's event before it, `before` the latest at its addresses."""

    operation: Operation
    own: int | None
    before: tuple[int, ...]

    @property
    def heeded(self) -> bool:
        """Whether its program knows of what came before it at its addresses."""
        heed = self.operation.access.heed
        return heed is None or heed.looked


@dataclass
class Sync:
    """The atomics of a launch, and who hands on to whom."""

    _events: list[_RaceEvent] = field(default_factory=list)
    _of_program: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)
    _latest: dict[int, int] = field(default_factory=dict)
    _set: dict[int, Operation] = field(default_factory=dict)
    _known: dict[int, dict[int, int]] = field(default_factory=dict)

    def note(self, operation: Operation) -> None:
        """What just happened; an atomic that orders takes over from the latest ones at its addresses."""
        if operation.access.order == "orders":
            addresses = _addresses(operation)
            event = self._take_over(operation, [self._latest[one] for one in addresses if one in self._latest])
            self._latest.update(dict.fromkeys(addresses, event))
        elif operation.access.kind == "store" and operation.offsets.size == 1:
            # One element: it may be a flag.
            self._set[_addresses(operation)[0]] = operation

    def wait(self, operation: Operation) -> None:
        """A volatile load: it takes over from what set these addresses, by an atomic or by a plain store."""
        addresses = _addresses(operation)
        before = [self._latest[one] for one in addresses if one in self._latest]
        setters = {id(found): found for one in addresses if (found := self._set.get(one))}
        before += [self._event(one, self._latest_of(one.access.program, one.time), ()) for one in setters.values()]
        self._take_over(operation, before)

    def orders(self, first: Operation, second: Operation) -> bool:
        """Whether `first`, the earlier one here, comes before `second` in every legal order."""
        if first.access.program == second.access.program:
            return True
        latest = self._latest_of(second.access.program, second.time)
        return latest is not None and self._heard(latest).get(first.access.program, -1) >= first.time

    def _take_over(self, operation: Operation, before: Sequence[int]) -> int:
        """A new event of the operation's program."""
        times, events = self._of_program.setdefault(operation.access.program, ([], []))
        event = self._event(operation, events[-1] if events else None, before)
        times.append(operation.time)
        events.append(event)
        return event

    def _event(self, operation: Operation, own: int | None, before: Sequence[int]) -> int:
        self._events.append(_RaceEvent(operation, own, tuple(dict.fromkeys(before))))
        return len(self._events) - 1

    def _latest_of(self, program: int, time: int) -> int | None:
        """The program's latest event up to a time."""
        times, events = self._of_program.get(program, ([], []))
        place = bisect_right(times, time)
        return events[place - 1] if place else None

    def _heard(self, event: int) -> dict[int, int]:
        """Up to which time each program's operations come before this event."""
        if event not in self._known:
            heard: dict[int, int] = {}
            # An atomic passes on what lies at its address, whether or not its own program looks at it.
            waiting, seen = [(event, False)], {(event, False)}
            while waiting:
                place, passes_on = waiting.pop()
                one = self._events[place]
                access = one.operation.access
                heard[access.program] = max(heard.get(access.program, -1), one.operation.time)
                found = [(one.own, False)] if one.own is not None else []
                found += [(other, True) for other in one.before if passes_on or one.heeded]
                waiting += [entry for entry in found if entry not in seen]
                seen.update(found)
            self._known[event] = heard
        return self._known[event]


def _addresses(operation: Operation) -> list[int]:
    """Each address of an operation once."""
    found: list[int] = (np.unique(operation.offsets).astype(np.int64) + operation.start).tolist()
    return found


def find_races(operations: Sequence[Operation], sync: Sync, most: int) -> Iterator[Race]:
    """Up to `most` races among the operations of one region, one for each pair of lines."""
    if (
        most <= 0
        or all(one.access.kind == "load" for one in operations)
        or len({one.access.program for one in operations}) < 2
    ):
        return
    told: set[frozenset[tuple[int, str]]] = set()
    unit = _unit(operations)
    for first, second, addresses in _meetings(operations, unit):
        a, b = operations[first], operations[second]
        lines = frozenset((a.access.where, b.access.where))
        if lines in told or sync.orders(a, b):
            continue
        differing = _differing(a, b, addresses, unit)
        if not differing.size:
            continue
        told.add(lines)
        place, elements = int(differing[0]), int(np.unique((differing - b.start) // b.access.width).size)
        yield Race(a, b, place, elements, _both_update(operations, (a.access.program, b.access.program), place))
        if len(told) >= most:
            return


def _both_update(operations: Sequence[Operation], programs: tuple[int, int], address: int) -> bool:
    """Whether each of these programs both loads from an address and stores to it."""
    wanted = {(program, kind) for program in programs for kind in ("load", "store")}
    for one in operations:
        made = (one.access.program, one.access.kind)
        if made in wanted:
            behind = address - one.start - one.offsets.astype(np.int64)
            if bool(((behind >= 0) & (behind < one.access.width)).any()):
                wanted.discard(made)
                if not wanted:
                    return True
    return False


def _unit(operations: Sequence[Operation]) -> int:
    """In how many bytes at a time the operations can be compared: one, where they do not agree on a width."""
    width = operations[0].access.width
    alike = all(
        one.access.width == width and not (one.start - operations[0].start) % width and not (one.offsets % width).any()
        for one in operations
    )
    return width if alike else 1


def _spread(operation: Operation, unit: int) -> Ints:
    """The address of every unit that an operation touches, lane by lane."""
    base = operation.offsets.astype(np.int64) + operation.start
    if operation.access.width == unit:
        return base
    return (base[:, None] + np.arange(0, operation.access.width, unit)).reshape(-1)


def _numbering(operations: Sequence[Operation], unit: int) -> tuple[Callable[[Operation], Ints], int]:
    """A number for every unit that these operations touch, and how many numbers there are."""
    low = min(one.start for one in operations)
    high = max(one.start + int(one.offsets.max()) + one.access.width for one in operations)
    if (high - low) // unit <= _MOST_NUMBERS:
        return lambda one: (_spread(one, unit) - low) // unit, -(-(high - low) // unit)
    every = np.unique(np.concatenate([_spread(one, unit) for one in operations]))
    return lambda one: np.searchsorted(every, _spread(one, unit)), every.size


def touched_bytes(operations: Sequence[Operation]) -> int:
    """How many bytes these operations touch, each counted once."""
    if not operations:
        return 0
    unit = _unit(operations)
    numbers, count = _numbering(operations, unit)
    touched = np.zeros(count, dtype=bool)
    for one in operations:
        touched[numbers(one)] = True
    return int(touched.sum()) * unit


def _contested(operations: Sequence[Operation], unit: int) -> tuple[Ints, Ints]:
    """Addresses that two programs touch, not both of them loading or both by atomics: each, and whose operation's."""
    numbers, count = _numbering(operations, unit)
    latest = np.full(count, -1, dtype=np.int32)
    several, loaded, stored, updated = (np.zeros(count, dtype=bool) for _ in range(4))
    marks = {"load": loaded, "store": stored, "atomic": updated}
    for one in operations:
        at = numbers(one)
        before = latest[at]
        several[at] |= (before >= 0) & (before != one.access.program)
        latest[at] = one.access.program
        marks[one.access.kind][at] = True
    wanted: Flags = several & (stored | (updated & loaded))
    addresses, owners = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for place, one in enumerate(operations if wanted.any() else ()):
        found = _spread(one, unit)[wanted[numbers(one)]]
        addresses.append(found)
        owners.append(np.full(found.size, place, dtype=np.int64))
    return np.concatenate(addresses), np.concatenate(owners)


def _meetings(operations: Sequence[Operation], unit: int) -> Iterator[tuple[int, int, Ints]]:
    """Pairs of operations of different programs that meet at an address and mind each other, with those addresses.

    First those in which something is read that another program stored: they tell most.
    """
    addresses, owners = _contested(operations, unit)
    order = np.argsort(addresses, kind="stable")
    addresses, owners = addresses[order], owners[order]
    ranks = np.array([_RANK[one.access.kind] for one in operations])[owners]
    programs = np.array([one.access.program for one in operations])[owners]
    pairs = [np.zeros((2, 0), dtype=np.int64)]
    left = np.arange(addresses.size)
    for distance in range(1, _NEIGHBOURS + 1):
        left = left[left < addresses.size - distance]
        left = left[addresses[left] == addresses[left + distance]]
        if not left.size:
            break
        here, there = ranks[left], ranks[left + distance]
        # Loads do not mind each other, nor do atomics.
        minds = ((here != there) | (here == _STORE)) & (programs[left] != programs[left + distance])
        pairs.append(np.stack((left[minds], left[minds] + distance)))
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


def _differing(a: Operation, b: Operation, addresses: Ints, unit: int) -> Ints:
    """The addresses at which it matters who comes first: not where both store the same."""
    stored = [_stored(one, addresses, unit) for one in (a, b)]
    if stored[0] is None or stored[1] is None:
        return addresses
    found: Ints = addresses[(stored[0] != stored[1]).any(axis=1)]
    return found


def _stored(one: Operation, addresses: Ints, unit: int) -> npt.NDArray[np.uint8] | None:
    """The bytes that a store leaves at each address, [N, unit]; None where that is not known."""
    width = one.access.width
    if one.access.kind != "store" or one.values is None or one.values.dtype.itemsize != width:
        return None
    lanes = one.offsets.astype(np.int64) + one.start
    order = np.argsort(lanes, kind="stable")
    # Of several lanes at one address the last one is what stays.
    place = np.searchsorted(lanes[order], addresses, side="right") - 1
    inner = addresses - lanes[order][place]
    values = np.ascontiguousarray(one.values).view(np.uint8).reshape(-1, width)[order[place]]
    found: npt.NDArray[np.uint8] = np.take_along_axis(values, inner[:, None] + np.arange(unit), axis=1)
    return found
