"""Count the bytes that a program loads again although it has them: it loaded them, and has stored no result since.

Those that its last load of the same tensor had are counted apart: no second pass over the inputs explains them, unless
a program goes on to another piece of work, at other lines: its first tile may be the one that it had last.

A program that computes several tiles, one after the other, loads what they share again for each of them. One that
computes a tile in two passes over its inputs, or loads a tile at the top of a loop and at its bottom, moves bytes that
it could keep. What a program stores tells them apart. Small results beside the others, as a number for each row, may
belong to the first of two passes; and what a program stores over later is no result, unless it loads it back before: a
sum that grows in memory, as where keys are the outer loop and queries the inner one.

A load that repeats itself, without a store between, is no second one: in a loop that only reads, Triton's compiler
moves it out of the loop. Pure: reads operations only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from grader.interpreter.accesses.races import Operation
from grader.interpreter.accesses.touched import joined

Ints = npt.NDArray[np.int64]
# Programs and offsets of lanes.
Lanes = npt.NDArray[np.integer[Any]]

# Bytes are counted on small cases; of a larger launch the runs would take seconds.
_MOST_LANES = 1 << 21
# A tensor with fewer bytes than this share of those of the largest one holds numbers beside the results.
_RESULTS = 0.25
# One program's pieces of work lie this far apart: no launch makes so many operations.
_PROGRAM = 1 << 32
# Where in the text a load stands, the tensor that it loads from, and the bytes of an element.
_Place = tuple[tuple[int, str], int, int]
# A program, the tensor that it stores to, and the elements.
_Stored = tuple[int, int, bytes]


@dataclass(frozen=True)
class Reloads:
    """Bytes that programs load again. since_a_result: without a result between; in_a_row: their last load had them."""

    since_a_result: int = 0
    in_a_row: int = 0


def reloads_of(operations: Sequence[Operation]) -> Reloads:
    """Return the bytes that programs load again; none of a large launch."""
    if sum(one.offsets.size for one in operations) > _MOST_LANES:
        return Reloads()
    ends = _ends_of_work(operations)
    loads: dict[int, list[Operation]] = {}
    for one in _loads_that_change(operations):
        loads.setdefault(one.start, []).append(one)
    ranges = [_ranges_of(made) for made in loads.values()]
    return Reloads(sum(_since_a_result(one, ends) for one in ranges), sum(_in_a_row(one, ends) for one in ranges))


def _loads_that_change(operations: Sequence[Operation]) -> Iterator[Operation]:
    """Yield the loads, without those that a line repeats at the same addresses before its program stores."""
    latest = _LatestLoads()
    for one in operations:
        if one.access.kind != "load":
            latest.forget(one)
        elif one.offsets.size and (changed := latest.change(one)) is not None:
            yield changed


class _LatestLoads:
    """The latest load of each program at each place, a line and a tensor, since the program last stored."""

    def __init__(self) -> None:
        self._alone: defaultdict[int, dict[_Place, Lanes]] = defaultdict(dict)
        # Of programs in lockstep: the program and the offset of each lane.
        self._together: dict[_Place, tuple[Lanes, Lanes]] = {}

    def forget(self, store: Operation) -> None:
        """Forget the loads of the programs that store."""
        if store.programs is None:
            self._alone.pop(store.access.program, None)
            return
        stored = np.unique(store.programs)
        for place, (programs, offsets) in self._together.items():
            stays = ~np.isin(programs, stored)
            self._together[place] = programs[stays], offsets[stays]

    def change(self, load: Operation) -> Operation | None:
        """Return what differs from the load before at its place: of programs in lockstep, of those that differ."""
        place = load.access.where, load.start, load.access.width
        if load.programs is None:
            before = self._alone[load.access.program].get(place)
            self._alone[load.access.program][place] = load.offsets
            return None if before is not None and np.array_equal(before, load.offsets) else load
        repeating = self._repeating(place, load.programs, load.offsets)
        if not repeating.any():
            return load
        kept = ~repeating
        return replace(load, offsets=load.offsets[kept], programs=load.programs[kept]) if kept.any() else None

    def _repeating(self, place: _Place, programs: Lanes, offsets: Lanes) -> npt.NDArray[np.bool_]:
        """Return which lanes belong to programs that load what they loaded before, and note the load."""
        nothing: Lanes = np.zeros(0, dtype=np.int64)
        before, old = self._together.get(place, (nothing, nothing))
        if np.array_equal(before, programs):
            self._together[place] = programs, offsets
            return ~np.isin(programs, programs[old != offsets])
        own, counts = np.unique(programs, return_counts=True)
        known, old_counts = np.unique(before, return_counts=True)
        shared, here, there = np.intersect1d(own, known, return_indices=True)
        shared = shared[counts[here] == old_counts[there]]
        lanes, old_lanes = np.isin(programs, shared), np.isin(before, shared)
        # Lanes of a program lie together, and programs ascend.
        different = programs[lanes][offsets[lanes] != old[old_lanes]]
        stays = ~np.isin(before, own)
        joint = np.concatenate([before[stays], programs])
        order = np.argsort(joint, kind="stable")
        self._together[place] = joint[order], np.concatenate([old[stays], offsets])[order]
        return lanes & ~np.isin(programs, different)


def _ends_of_work(operations: Sequence[Operation]) -> Ints:
    """Return when each program stored to one of the largest results for good, in ascending order."""
    stores = [one for one in operations if one.access.kind != "load" and one.offsets.size]
    last, loaded_back = _fates_of_stores(operations, {one.start for one in stores})
    stored: Counter[int] = Counter()
    for one in stores:
        stored[one.start] += one.access.width * one.offsets.size
    least = _RESULTS * max(stored.values(), default=0)
    times = [
        place[0] * _PROGRAM + one.time
        for one in stores
        if stored[one.start] >= least
        for place in _places_of(one)
        if one.access.kind == "atomic" or last[place] == one.time or (place[0], one.time) in loaded_back
    ]
    return np.unique(np.array(times, dtype=np.int64))


def _fates_of_stores(
    operations: Sequence[Operation], stored: Container[int]
) -> tuple[dict[_Stored, int], set[tuple[int, int]]]:
    """Return the time of the last store to each place, and the stores that a program loads back before the next one.

    The latter are programs and times. stored: the tensors that programs store to.
    """
    last: dict[_Stored, int] = {}
    loaded_back: set[tuple[int, int]] = set()
    for one in operations:
        if one.start not in stored or not one.offsets.size:
            continue
        for place in _places_of(one):
            if one.access.kind != "load":
                last[place] = one.time
            elif place in last:
                loaded_back.add((place[0], last[place]))
    return last, loaded_back


def _places_of(one: Operation) -> Iterator[_Stored]:
    """Yield each program of an operation, with the tensor and the elements."""
    elements = one.offsets.tobytes()
    yield from ((program, one.start, elements) for program in _programs(one))


def _programs(one: Operation) -> Iterator[int]:
    if one.programs is None:
        yield one.access.program
    else:
        yield from np.unique(one.programs).tolist()


@dataclass(frozen=True)
class _Ranges:
    """Ranges of bytes that programs load of one tensor, each with the program, the time and the line of its load."""

    begins: Ints
    stops: Ints
    programs: Ints
    times: Ints
    lines: Ints

    def repeated(self, apart: Ints, chosen: Ints | slice = slice(None)) -> int:
        """Return the bytes that chosen ranges have more than once among those with the same number in `apart`."""
        span = int(self.stops.max()) + 1
        begins, stops = self.begins[chosen], self.stops[chosen]
        different = joined([np.stack([apart * span + begins, apart * span + stops], axis=1)])
        return int((stops - begins).sum() - (different[:, 1] - different[:, 0]).sum())


def _since_a_result(ranges: _Ranges, ends: Ints) -> int:
    pieces = np.searchsorted(ends, ranges.programs * _PROGRAM + ranges.times) + ranges.programs
    return ranges.repeated(pieces)


def _in_a_row(ranges: _Ranges, ends: Ints) -> int:
    """Return the bytes that each load has in common with its program's load before.

    What was stored between does not matter, except where a program goes on to another line for the first time.
    """
    loads, where, place = np.unique(ranges.programs * _PROGRAM + ranges.times, return_index=True, return_inverse=True)
    follows = np.diff(loads // _PROGRAM, prepend=-1) == 0
    follows[_first_of_other_work(loads, ranges.lines[where], ends)] = False
    # Each range belongs to the pair that its load ends, and to the pair that it begins.
    later, earlier = np.flatnonzero(follows[place]), np.flatnonzero(np.append(follows[1:], [False])[place])
    if not later.size:
        return 0
    chosen = np.concatenate([later, earlier])
    pairs = np.concatenate([place[later], place[earlier] + 1])
    return ranges.repeated(pairs, chosen)


def _first_of_other_work(loads: Ints, lines: Ints, ends: Ints) -> Ints:
    """Return which loads are a program's first step from one line to another with the end of a piece of work between.

    loads: programs and times, in ascending order, with their lines.
    """
    programs, pieces = loads // _PROGRAM, np.searchsorted(ends, loads)
    changes = (np.diff(programs) == 0) & (np.diff(lines) != 0) & (np.diff(pieces) != 0)
    after = np.flatnonzero(changes) + 1
    steps = np.stack([programs[after], lines[after - 1], lines[after]], axis=1)
    return after[np.unique(steps, axis=0, return_index=True)[1]] if after.size else after


def _ranges_of(loads: Sequence[Operation]) -> _Ranges:
    """Return what programs load of one tensor. Neighbouring lanes of an access are one range."""
    offsets = np.concatenate([one.offsets for one in loads])
    of_access = np.cumsum([0, *(one.offsets.size for one in loads)])
    width = loads[0].access.width
    is_first = np.ones(offsets.size, dtype=bool)
    np.not_equal(offsets[1:] - offsets[:-1], width, out=is_first[1:])
    is_first[of_access[:-1]] = True
    for place, one in zip(of_access.tolist(), loads, strict=False):
        if one.programs is not None:
            is_first[place + 1 : place + one.offsets.size] |= one.programs[1:] != one.programs[:-1]
        if one.access.width != width:
            is_first[place : place + one.offsets.size] = True
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], offsets.size) - 1
    accesses = np.searchsorted(of_access, firsts, side="right") - 1
    programs = np.concatenate(
        [_programs_at(one, at) for one, at in zip(loads, _places(accesses, firsts, of_access), strict=True)]
    )
    times = np.array([one.time for one in loads])[accesses]
    numbers = {where: number for number, where in enumerate(dict.fromkeys(one.access.where for one in loads))}
    lines = np.array([numbers[one.access.where] for one in loads])[accesses]
    widths = np.array([one.access.width for one in loads])[accesses]
    begins, stops = offsets[firsts].astype(np.int64), offsets[lasts].astype(np.int64) + widths
    return _Ranges(begins, stops, programs, times, lines)


def _places(accesses: Ints, firsts: Ints, of_access: Ints) -> Iterator[Ints]:
    """Yield the first lanes of each access's ranges, counted within the access."""
    bounds = np.searchsorted(accesses, np.arange(len(of_access)))
    for number, start in enumerate(of_access[:-1].tolist()):
        yield firsts[bounds[number] : bounds[number + 1]] - start


def _programs_at(one: Operation, lanes: Ints) -> Ints:
    """Return the programs of these lanes."""
    if one.programs is None:
        return np.full(lanes.size, one.access.program, dtype=np.int64)
    return one.programs[lanes].astype(np.int64)
