"""Find exchanges without a barrier: one thread of a program stores, another one of it touches the same address.

Threads of a program wait for one another at `tl.debug_barrier()`. In compiled code they also wait when they exchange
values through shared memory: in reductions, scans and products, and for the result of a scalar atomic.

The compiler decides which thread holds a lane. So an address counts as the thread's own whenever it can be: if
the same lane of blocks of one size touches it, in elements of one width. Scalars are all held by one thread. Two
stores of equal values are no race, nor are two atomics. Pure: reads operations only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from grader.interpreter.accesses.races import Flags, Heed, Ints, Operation, Race, differing, numbering, spread, unit_of

Programs = npt.NDArray[np.signedinteger]
# Stores of equal values are compared so often for each pair of lines.
_MOST_TRIES = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Barrier:
    """A point, behind the operations before a time, at which the threads of each of these programs wait.

    heed: of a scalar atomic; they wait for its result if the program reads it.
    """

    time: int
    programs: int | Programs
    heed: Heed | None = None


@dataclass
class _Waits:
    """The latest barrier of each program up to a time; times only grow."""

    barriers: Sequence[Barrier]
    latest: Ints
    passed: int = 0

    def go_to(self, time: int) -> None:
        """Pass the barriers up to this time."""
        while self.passed < len(self.barriers) and self.barriers[self.passed].time <= time:
            one = self.barriers[self.passed]
            if one.heed is None or one.heed.looked:
                self.latest[one.programs] = one.time
            self.passed += 1


@dataclass
class _Stores:
    """The latest store of each unit: the number of its operation (-1: none), its program and its lane."""

    operations: npt.NDArray[np.int32]
    programs: npt.NDArray[np.int32]
    lanes: npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class _Touch:
    """Hold what an operation touches: numbers of units, and the lane and the program of each."""

    units: Ints
    lanes: Ints
    programs: int | Programs


@dataclass
class _Search:
    """The exchanges among some operations of one region, in the order of time. found: one for each pair of lines."""

    operations: Sequence[Operation]
    unit: int
    found: dict[tuple[object, object], Race] = field(default_factory=dict)
    _tries: Counter[tuple[object, object]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        made = self.operations
        self._times = np.array([one.time for one in made])
        self._widths = np.array([one.access.width for one in made])
        self._sizes = np.array([0 if one.places is None else one.places.size for one in made])
        self._updates = np.array([bool(one.access.update) or one.access.kind == "atomic" for one in made])

    def run(self, barriers: Sequence[Barrier]) -> None:
        """Look at one operation after another."""
        numbers, count = numbering(self.operations, self.unit)
        most = max(*map(_most_of, self.operations), *map(_most_of, barriers))
        waits = _Waits(barriers, np.zeros(most + 1, dtype=np.int64))
        stores = _Stores(*(np.full(count, -1, dtype=np.int32) for _ in range(3)))
        for place, one in enumerate(self.operations):
            waits.go_to(one.time)
            touch = self._touch(one, numbers(one))
            met = self._unordered(place, touch, stores, waits)
            if met is not None and met.any():
                self._tell(place, touch, met, stores)
            if one.access.kind != "load":
                # The first of several lanes at one address counts, as in loads.
                units = touch.units[::-1]
                stores.operations[units] = place
                stores.lanes[units] = touch.lanes[::-1]
                stores.programs[units] = touch.programs if isinstance(touch.programs, int) else touch.programs[::-1]

    def _touch(self, one: Operation, units: Ints) -> _Touch:
        repeats = one.access.width // self.unit
        assert one.places is not None, "only operations with known lanes are looked at"
        lanes = one.places.lanes()
        programs: int | Programs = one.access.program if one.programs is None else one.programs
        if repeats > 1:
            lanes = np.repeat(lanes, repeats)
            programs = programs if isinstance(programs, int) else np.repeat(programs, repeats)
        return _Touch(units, lanes, programs)

    def _unordered(self, place: int, touch: _Touch, stores: _Stores, waits: _Waits) -> Flags | None:
        """Return flags: another thread of the same program stored to this unit, since the latest barrier."""
        before = stores.operations[touch.units]
        met: Flags = (stores.programs[touch.units] == touch.programs) & (before >= 0)
        if not met.any():
            return None
        met &= self._times[before] >= waits.latest[touch.programs]
        same_block = (self._sizes[before] == self._sizes[place]) & (self._widths[before] == self._widths[place])
        met &= ~(same_block & (stores.lanes[touch.units] == touch.lanes))
        if self._sizes[place] == 1:
            met &= self._sizes[before] != 1
        if self._updates[place]:
            met &= ~self._updates[before]
        return met

    def _tell(self, place: int, touch: _Touch, met: Flags, stores: _Stores) -> None:
        """Note a race with each earlier operation, for the first program in which there is one."""
        before = stores.operations[touch.units]
        programs = np.broadcast_to(np.asarray(touch.programs), met.shape)
        addresses = spread(self.operations[place], self.unit)
        for earlier in np.unique(before[met]).tolist():
            here = met & (before == earlier)
            lines = self.operations[earlier].access.where, self.operations[place].access.where
            for program in np.unique(programs[here]).tolist():
                known = self.found.get(lines)
                if (known and known.second.access.program <= program) or self._tries[lines] >= _MOST_TRIES:
                    break
                self._tries[lines] += 1
                first, second = (_of_program(self.operations[one], program) for one in (earlier, place))
                apart = differing(first, second, np.unique(addresses[here & (programs == program)]), self.unit)
                if apart.size:
                    elements = np.unique((apart - second.start) // second.access.width).size
                    self.found[lines] = Race(first, second, int(apart[0]), int(elements))


def find_exchanges(operations: Sequence[Operation], barriers: Sequence[Barrier], most: int) -> Iterator[Race]:
    """Yield up to `most` exchanges without a barrier among the operations of one region, one for each pair of lines.

    barriers: those of the launch, in the order of time.
    """
    made = [one for one in operations if one.places is not None and one.offsets.size]
    if most <= 0 or len(made) < 2:
        return
    search = _Search(made, unit_of(made))
    search.run(barriers)
    found = sorted(search.found.values(), key=lambda race: (race.second.access.program, race.second.time))
    yield from found[:most]


def _most_of(one: Operation | Barrier) -> int:
    """Return the greatest number of a program."""
    if isinstance(one, Barrier):
        return int(np.max(one.programs))
    return one.access.program if one.programs is None else int(one.programs[-1])


def _of_program(one: Operation, program: int) -> Operation:
    """Return one program's part of an operation in lockstep."""
    if one.programs is None:
        return one
    its = one.programs == program
    values = None if one.values is None else one.values[its]
    return Operation(replace(one.access, program=program), one.time, one.start, one.offsets[its], one.argument, values)
