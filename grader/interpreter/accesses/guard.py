"""Check one kernel launch in the interpreter, access by access, before each access happens.

Every lane of every load, store and atomic must lie in the visible elements of the tensor that its pointer came from; a
lane outside is reported and not executed. All others are recorded: bytes moved, and operations for the race check
(grader.interpreter.accesses.races, grader.interpreter.accesses.exchanges).

Pure bookkeeping on NumPy arrays; the hooks are in grader.interpreter.memory.
"""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from grader.interpreter.accesses.exchanges import Barrier, find_exchanges
from grader.interpreter.accesses.footprint import MOST_LANES as MOST_OF_FOOTPRINT
from grader.interpreter.accesses.footprint import footprint_of
from grader.interpreter.accesses.lanes import Places
from grader.interpreter.accesses.races import (
    Access,
    Heed,
    Operation,
    Race,
    Sync,
    do_programs_meet,
    find_races,
    touched_bytes,
    without_idle_loads,
    without_repeated_stores,
)
from grader.interpreter.accesses.reloads import reloads_of
from grader.interpreter.accesses.sectors import sectors_of
from grader.protocol.footprint import Footprint
from grader.protocol.observations import GuardFinding, Pause, Traffic, Waste
from grader.protocol.trace import span

Addresses = npt.NDArray[np.uint64]
Lanes = npt.NDArray[np.bool_]
# An access's block: its lanes in one program, a flag for each lane that took part (None: all did), and the number of
# programs that did the same.
Block = tuple[int, Lanes | None, int]

# User-space addresses have up to 48 bits.
_ADDRESS = np.uint64((1 << 48) - 1)
# The bits from here on hold the tensor's tag through all pointer arithmetic. The bit below is room for stray addresses:
# a heap may lie so low that a wrapped offset leads below 0, and a mapping so high that an offset exceeds 48 bits.
_TAG_SHIFT = 49
_ROOM = 1 << 47
_MOST_TENSORS = 1 << 14
# The most lanes recorded for one launch; a larger launch is still checked for bounds, and its bytes are counted.
_MOST_LANES = 1 << 24
# Offsets below this fit into 32 bits.
_SHORT = 1 << 32
_MOST_FINDINGS = 8
# A tensor with more places than this from first to last is examined slice by slice.
_MOST_FLAGS = 1 << 28


def address_of(pointers: Addresses) -> Addresses:
    """Return pointers without the tags of their tensors."""
    return pointers & _ADDRESS


def _tag_of(pointer: int) -> int:
    """Return the tag of a pointer's tensor, also where it strays by up to `_ROOM`; 0 of an address without one."""
    return (pointer + _ROOM) >> _TAG_SHIFT


@dataclass(frozen=True)
class Extent:
    """The visible elements of one tensor argument.

    gaps: None where they lie densely; else one flag for each place from first to last, True for a visible element.
    room: the bytes from the first element to the end of the memory that was allocated. apart: the bytes from one slice
    to the next where slices lie far apart; `gaps` is then that of a slice. 0: they do not. whole: of whole numbers.
    """

    name: str
    tag: int
    start: int
    nbytes: int
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    gaps: Lanes | None
    room: int = 0
    apart: int = 0
    whole: bool = False

    @property
    def tagged(self) -> np.uint64:
        """Return the base pointer as the kernel gets it."""
        return np.uint64((self.tag << _TAG_SHIFT) | self.start)

    def holds_all(self, offsets: Addresses, width: int) -> bool:
        """Return whether accesses of `width` bytes at these byte offsets all lie inside."""
        if int(offsets.max()) > self.nbytes - width:
            return False
        return self.gaps is None or bool(self._filled(self.gaps, offsets, width).all())

    def holds(self, offsets: Addresses, width: int) -> Lanes:
        """Return a mask of the accesses of `width` bytes at these byte offsets that lie inside."""
        if self.nbytes < width:
            return np.zeros(offsets.shape, dtype=bool)
        inside: Lanes = offsets <= np.uint64(self.nbytes - width)
        if self.gaps is not None:
            inside[inside] = self._filled(self.gaps, offsets[inside], width)
        return inside

    def has_room(self, offsets: Addresses, width: int) -> Lanes:
        """Return a mask of the accesses at these byte offsets that lie in allocated memory, visible or not."""
        return offsets <= np.uint64(max(0, self.room - width))

    def misaligned_by(self, lanes: Addresses, access: Access) -> int | None:
        """Return the offset from alignment, in bytes, of the first misaligned lane; None if all are aligned.

        Only a pointer that was cast to a wider type can miss its alignment.
        """
        if access.spill or access.width <= self.itemsize:
            return None
        past = address_of(lanes) % np.uint64(access.width)
        missed = past[past != 0]
        return int(missed[0]) if missed.size else None

    def _filled(self, gaps: Lanes, offsets: Addresses, width: int) -> Lanes:
        """Return a mask of the accesses that touch visible elements only; a pointer to a wider type touches several."""
        if self.apart:
            offsets = offsets % np.uint64(self.apart)
            inside: Lanes = offsets + np.uint64(width) <= np.uint64(len(gaps) * self.itemsize)
            inside[inside] = replace(self, apart=0)._filled(gaps, offsets[inside], width)
            return inside
        size = np.uint64(self.itemsize)
        first, last = offsets // size, (offsets + np.uint64(width - 1)) // size
        filled: Lanes = gaps[first]
        for further in range(1, int((last - first).max(initial=0)) + 1):
            filled = filled & gaps[np.minimum(first + np.uint64(further), last)]
        return filled

    def place_of(self, offset: int) -> tuple[tuple[int, ...], int]:
        """Return (index of a byte offset, elements beyond that index).

        The index may exceed the shape. The second number is not 0 where the offset lies in a gap.
        """
        left = offset // self.itemsize
        index = [0] * len(self.shape)
        axes = [axis for axis, stride in enumerate(self.strides) if stride > 0]
        for axis in sorted(axes, key=lambda one: (-self.strides[one], self.shape[one] == 1)):
            # A row beyond the tensor is counted once, on the outermost axis.
            index[axis], left = divmod(left, self.strides[axis])
        return tuple(index), left if axes else 0


def extent_of(name: str, tag: int, tensor: Tensor) -> Extent:
    """Return the elements that a kernel may touch through this tensor."""
    shape, strides, itemsize = tuple(tensor.shape), tuple(tensor.stride()), tensor.element_size()
    if tensor.numel() == 0:
        return Extent(name, tag, tensor.data_ptr(), 0, itemsize, shape, strides, None)
    whole = not tensor.is_floating_point()
    reach = span(shape, strides)
    storage = tensor.untyped_storage()
    room = storage.data_ptr() + storage.nbytes() - tensor.data_ptr()
    common = name, tag, tensor.data_ptr(), reach * itemsize, itemsize, shape, strides
    extent = partial(Extent, *common, room=room, whole=whole)
    spread = [size for size, stride in zip(shape, strides, strict=True) if stride != 0]
    if int(np.prod(spread, dtype=np.int64)) == reach:
        return extent(gaps=None)
    if reach <= _MOST_FLAGS:
        return extent(gaps=_flags(shape, strides))
    widest = max(range(len(shape)), key=lambda axis: strides[axis] if shape[axis] > 1 else 0)
    within = [axis for axis in range(len(shape)) if axis != widest]
    gaps = _flags([shape[axis] for axis in within], [strides[axis] for axis in within])
    return extent(gaps=gaps, apart=strides[widest] * itemsize)


def _flags(shape: Sequence[int], strides: Sequence[int]) -> Lanes:
    """Return a flag for each place from the first element to the last, True for an element."""
    flags = np.zeros(span(shape, strides), dtype=bool)
    np.lib.stride_tricks.as_strided(flags, shape, strides)[...] = True
    return flags


@dataclass
class Guard:
    """The guard of one launch. Programs count in the order in which the interpreter runs them: z fastest, x slowest."""

    kernel: str
    grid: tuple[int, int, int] = (1, 1, 1)
    extents: dict[int, Extent] = field(default_factory=dict)
    findings: list[GuardFinding] = field(default_factory=list)
    strayed: bool = False
    # The programs that stored or updated something so far, in the order of their first writes.
    writers: dict[int, None] = field(default_factory=dict)
    # Some access read fractions in memory as whole numbers.
    reads_bits: bool = False
    # Lines of stores in which lanes of one program store different values to one address.
    clashes: dict[int, None] = field(default_factory=dict)
    # Programs met at an address, in conflicting ways; or there were too many accesses to know. Set at the end.
    meets: bool = False
    _operations: list[Operation] = field(default_factory=list)
    # Volatile loads, which are no part of a race.
    _waits: list[Operation] = field(default_factory=list)
    _lanes: int = 0
    _loaded: int = 0
    _stored: int = 0
    _dot_flops: int = 0
    _dots: int = 0
    _exponentials: int = 0
    _computed: int = 0
    # The bytes that descriptors stored beyond the end of a row, outside the visible elements.
    _spilled: int = 0
    _widest: int = 1
    # Lanes of loads were forgotten; or all operations were.
    _thinned: bool = False
    _overlooked: bool = False
    _sync: Sync = field(default_factory=Sync)
    # The points at which the threads of a program wait for one another; and the tags of tensors that share memory with
    # a tensor that was stored to.
    _barriers: list[Barrier] = field(default_factory=list)
    _touched: set[int] = field(default_factory=set)

    def admit(self, name: str, tensor: Tensor) -> np.uint64:
        """Register a tensor argument and return the tagged pointer for the kernel."""
        tag = len(self.extents) + 1
        if tag >= _MOST_TENSORS:
            return np.uint64(tensor.data_ptr())
        extent = self.extents[tag] = extent_of(name, tag, tensor)
        return extent.tagged

    def dot(self, flops: int, count: int = 1) -> None:
        """Count a tl.dot, or as many as programs run at once, and their floating-point operations together."""
        self._dot_flops += flops
        self._dots += count

    def compute(self, elements: int, *, special: bool) -> None:
        """Count an operation on so many elements; special: by the units for exponentials and their like."""
        if special:
            self._exponentials += elements
        else:
            self._computed += elements

    def access(
        self, access: Access, pointers: Addresses, active: Lanes, values: npt.NDArray[np.generic] | None = None
    ) -> tuple[Addresses, Lanes | None]:
        """Check one access before it happens. values: the values that a store stores.

        Returns the addresses without their tags, and a mask of the allowed lanes (None: all active lanes). Raises
        TypeError where the width is no plain int: the arithmetic of other types may wrap around. Raises ValueError
        where a pointer to a wider type is not aligned to it: a GPU stops there.
        """
        if type(access.width) is not int or access.width < 1:
            raise TypeError("an access moves a whole number of bytes")
        flat, lit = pointers.reshape(-1), active.reshape(-1)
        self._widest = max(self._widest, flat.size)
        whole = bool(lit.all())
        lanes = flat if whole else flat[lit]
        if not lanes.size:
            return address_of(pointers), None
        if access.kind != "load":
            self.writers[access.program] = None
        stored = None if values is None else values.reshape(-1) if whole else values.reshape(-1)[lit]
        block = flat.size, None if whole else lit, 1
        extent = self.extents.get(_tag_of(int(lanes[0])))
        if extent is not None:
            offsets = lanes - extent.tagged
            if (past := extent.misaligned_by(lanes, access)) is not None:
                rule = f"at an address that is a multiple of {access.width}, and this one is {past} bytes past one"
                raise ValueError(f"{access.kind} of {access.width} bytes must begin {rule}")
            if not access.spill and extent.holds_all(offsets, access.width):
                self._keep(access, extent, offsets, stored, block=block)
                return address_of(pointers), None
        if access.spill and extent is not None:
            inside = extent.has_room(offsets, access.width)
            visible = extent.holds(offsets, access.width)
            if visible.any():
                self._keep(access, extent, offsets[visible], None if stored is None else stored[visible])
            self._spilled += access.width * int((inside & ~visible).sum())
        else:
            inside = self._one_by_one(access, lanes, stored, block)
        if inside.all():
            return address_of(pointers), None
        self._report(access, lanes, ~inside, masked=not whole)
        allowed = np.zeros(flat.shape, dtype=bool)
        allowed[lit] = inside
        return address_of(pointers), allowed.reshape(pointers.shape)

    def access_in_lockstep(
        self,
        access: Access,
        programs: npt.NDArray[np.int64],
        pointers: Addresses,
        active: Lanes,
        values: npt.NDArray[np.generic] | None = None,
    ) -> Addresses | None:
        """Check one access that P programs make at once; pointers, active, values: [P, …], or [1, …] if all are alike.

        Returns the addresses without their tags; None, and records nothing, unless all lies in one tensor.
        """
        rows, width = len(pointers), pointers[0].size
        self._widest = max(self._widest, width)
        chosen: Any = slice(None) if active.all() else active.reshape(-1)
        lanes = pointers.reshape(-1)[chosen]
        if not lanes.size:
            return address_of(pointers)
        extent = self.extents.get(_tag_of(int(lanes[0])))
        if extent is None or extent.misaligned_by(lanes, access) is not None:
            return None
        offsets = lanes - extent.tagged
        if access.spill:
            if extent.holds(offsets, access.width).any() or not extent.has_room(offsets, access.width).all():
                return None
            self._spilled += access.width * offsets.size * (len(programs) // rows)
            return address_of(pointers)
        if not extent.holds_all(offsets, access.width):
            return None
        stored = None if values is None else values.reshape(-1)[chosen]
        if rows == len(programs):
            owners = np.repeat(programs, width)[chosen]
        else:
            owners = np.repeat(programs, lanes.size)
            offsets = np.tile(offsets, len(programs))
            stored = None if stored is None else np.tile(stored, len(programs))
        if access.kind != "load":
            write = active.reshape(rows, -1).any(axis=1)
            self.writers |= dict.fromkeys((programs[write] if rows == len(programs) else programs).tolist())
        lit = None if isinstance(chosen, slice) else chosen
        block = width, lit, len(programs) if lit is None or rows == 1 else 1
        self._keep(access, extent, offsets, stored, owners.astype(np.int32), block=block)
        return address_of(pointers)

    @property
    def widest(self) -> int:
        """Return the most lanes that one access of one program had so far."""
        return self._widest

    @property
    def operations(self) -> Sequence[Operation] | None:
        """Return the operations so far; None where there were too many to keep."""
        return None if self._overlooked else self._operations

    def pass_barrier(self, programs: Sequence[int]) -> None:
        """Note that all threads of these programs wait for one another: what they stored before is stored."""
        for program in programs:
            self._sync.pass_barrier(program, len(self._operations))
        self.share(np.asarray(programs))

    def share(self, programs: int | npt.NDArray[np.signedinteger], heed: Heed | None = None) -> None:
        """Note that the threads of each of these programs wait for one another, as they do to share values.

        heed: of an atomic, whose result they share if the program reads it.
        """
        if self.writers and not self._overlooked:
            self._barriers.append(Barrier(len(self._operations), programs, heed))

    def mark(self) -> tuple[int, ...]:
        """Return the present state, for `go_back`."""
        counts = self._lanes, self._loaded, self._stored, self._dot_flops
        return (
            len(self._operations),
            len(self.writers),
            *counts,
            self._dots,
            self._exponentials,
            self._computed,
            self._spilled,
            len(self._barriers),
        )

    def go_back(self, mark: tuple[int, ...]) -> None:
        """Forget everything after a mark."""
        operations, writers, self._lanes, self._loaded, self._stored, self._dot_flops, *others = mark
        self._dots, self._exponentials, self._computed, self._spilled, barriers = others
        del self._operations[operations:], self._barriers[barriers:]
        self._sync.go_back(operations)
        for program in [*self.writers][writers:]:
            del self.writers[program]

    def settle(self, mark: tuple[int, ...]) -> None:
        """Note the atomics in lockstep since a mark for the order of the programs; they will not be undone."""
        made = [one for one in self._operations[mark[0] :] if one.access.kind == "atomic" and one.programs is not None]
        each = [single for one in made for single in one.of_each_program()]
        for one in sorted(each, key=lambda one: (one.access.program, one.time)):
            self._sync.note(one)

    def _one_by_one(
        self, access: Access, lanes: Addresses, values: npt.NDArray[np.generic] | None, block: Block
    ) -> Lanes:
        """Return a mask of the lanes that lie inside the tensor of their pointer; lanes may have different tensors.

        An address without a tag, which did not come from a tensor argument, may lie in any tensor.
        """
        tags = (lanes + np.uint64(_ROOM)) >> np.uint64(_TAG_SHIFT)
        inside = np.zeros(lanes.shape, dtype=bool)
        present = set(np.unique(tags).tolist())
        for extent in self.extents.values():
            for tag, base in ((extent.tag, extent.tagged), (0, np.uint64(extent.start))):
                if tag in present:
                    offsets = lanes - base
                    found = (tags == tag) & ~inside & extent.holds(offsets, access.width)
                    if found.any():
                        held = None if values is None else values[found]
                        self._keep(access, extent, offsets[found], held, block=block, picked=np.flatnonzero(found))
                        inside |= found
        return inside

    def _keep(
        self,
        access: Access,
        extent: Extent,
        offsets: Addresses,
        values: npt.NDArray[np.generic] | None,
        programs: npt.NDArray[np.int32] | None = None,
        *,
        block: Block | None = None,
        picked: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Record an access. block: None where its lanes do not matter. picked: the lanes kept, None: all of these."""
        places = self._places(access, extent, block, picked)
        if access.kind != "atomic" or access.update == "XCHG":
            apart = offsets if programs is None else offsets + programs.astype(np.uint64) * np.uint64(extent.nbytes)
            first = _first_of_each(apart)
            if first is not None and values is not None and _differ(apart, values):
                self.clashes[access.where[0]] = None
            if first is not None and access.kind == "load":
                # Lanes of one load with the same address share one fetch, and are recorded once.
                offsets, programs = offsets[first], None if programs is None else programs[first]
                places = None if places is None else places.only(first)
        if access.kind != "store":
            self.reads_bits = self.reads_bits or (access.whole and not extent.whole)
            # Every lane of an atomic is an access of its own.
            self._loaded += access.width * offsets.size
        if access.kind != "load":
            self._stored += access.width * offsets.size
        self._lanes += offsets.size
        if self._lanes > _MOST_LANES and not self._overlooked and self._thin_out():
            self._lanes += offsets.size
        if self._lanes > _MOST_LANES:
            self._overlooked = True
            self._operations.clear()
            self._waits.clear()
            self._barriers.clear()
            return
        time = len(self._operations)
        if extent.nbytes < _SHORT:
            offsets = offsets.astype(np.uint32)
        operation = Operation(access, time, extent.start, offsets, extent.name, values, programs, places)
        if access.order == "waits":
            self._sync.wait(operation)
            self._waits.append(operation)
            return
        self._operations.append(operation)
        if access.update and places is not None and places.size == 1:
            self.share(access.program if programs is None else programs, access.heed)
        if programs is None or (access.kind == "store" and _one_each(programs)):
            for one in operation.of_each_program():
                self._sync.note(one)

    def _places(
        self, access: Access, extent: Extent, block: Block | None, picked: npt.NDArray[np.int64] | None
    ) -> Places | None:
        """Return the lanes of an access; None for a load of memory that no program has stored to."""
        if access.kind != "load" and extent.tag not in self._touched:
            end = extent.start + extent.nbytes
            overlapping = (one for one in self.extents.values() if one.start < end)
            self._touched |= {one.tag for one in overlapping if extent.start < one.start + one.nbytes}
        if block is None or extent.tag not in self._touched:
            return None
        size, lit, times = block
        return Places(size, None if lit is None else np.packbits(lit), times, picked)

    def _thin_out(self) -> bool:
        """Forget loads of memory without stores, and repeated stores. Return whether that makes room.

        A flood of either hides no race.
        """
        self._thinned = True
        for low, high in _regions(self.extents.values()):
            places = [place for place, one in enumerate(self._operations) if low <= one.start < high]
            thinned = without_repeated_stores(without_idle_loads([self._operations[place] for place in places]))
            for place, one in zip(places, thinned, strict=True):
                self._operations[place] = one
        self._lanes = sum(one.offsets.size for one in self._operations)
        return self._lanes <= _MOST_LANES // 2

    def _report(self, access: Access, lanes: Addresses, outside: Lanes, *, masked: bool) -> None:
        first_lane = int(lanes[outside][0])
        extent = self.extents.get(_tag_of(first_lane))
        self.strayed = self.strayed or (extent is None and access.kind != "load")
        line = access.where[0]
        if len(self.findings) >= _MOST_FINDINGS or any(
            (one.kind, one.line) == (access.kind, line) for one in self.findings
        ):
            return
        first = first_lane - int(extent.tagged) if extent else 0
        index, beside = extent.place_of(first) if extent else ((), 0)
        self.findings.append(
            GuardFinding(
                kind=access.kind,
                kernel=self.kernel,
                line=line,
                code=_code_at(access.where),
                program=self._coordinates(access.program),
                argument=extent.name if extent else "",
                index=index,
                shape=extent.shape if extent else (),
                element=first // extent.itemsize if extent else 0,
                elements=extent.nbytes // extent.itemsize if extent else 0,
                lanes=int(outside.sum()),
                active_lanes=int(lanes.size),
                masked=masked,
                grid=self._shown(*self.grid),
                clipped=access.clipped,
                spill=access.spill,
                beside=beside,
                wide=extent is not None and access.width > extent.itemsize,
            )
        )

    def finish(self) -> Traffic:
        """Return the traffic of the launch, and add its races to the findings."""
        unique_loaded = unique_stored = 0
        self.meets = self._thinned and prod(self.grid) > 1
        for low, high in _regions(self.extents.values()):
            here = [one for one in self._operations if low <= one.start < high and one.offsets.size]
            waits = [one for one in self._waits if low <= one.start < high]
            meet = do_programs_meet([*here, *waits])
            self.meets = self.meets or meet
            unique_loaded += touched_bytes([one for one in here if one.access.kind != "store"])
            changing = [one for one in here if one.access.kind != "load"]
            changed = touched_bytes(changing)
            unique_stored += changed
            for race in find_races(here, self._sync, _MOST_FINDINGS - len(self.findings)) if meet else ():
                self.findings.append(self._told(race))
            if changed < sum(one.access.width * one.offsets.size for one in changing) or any(
                one.places is not None and one.access.kind == "load" for one in here
            ):
                for race in find_exchanges(here, self._barriers, _MOST_FINDINGS - len(self.findings)):
                    self.findings.append(self._told(race))
        return Traffic(
            loaded_bytes=self._loaded,
            stored_bytes=self._stored + self._spilled,
            unique_loaded_bytes=unique_loaded,
            unique_stored_bytes=unique_stored + self._spilled,
            dot_flops=self._dot_flops,
            dots=self._dots,
            exponentials=self._exponentials,
            operations=self._computed,
            complete=not self._thinned,
        )

    def waste(self) -> Waste:
        """Return what the launch moves for nothing."""
        if self._thinned:
            return Waste()
        sectors, again = sectors_of(self._operations), reloads_of(self._operations)
        return Waste(sectors.used, sectors.moved, sectors.line, again.since_a_result, again.in_a_row)

    def pauses(self) -> list[Pause]:
        """Return the lines with atomics and volatile loads."""
        atomics = (one for one in self._operations if one.access.kind == "atomic")
        counts = Counter((one.access.where[0], one.access.program) for one in (*atomics, *self._waits))
        passes: dict[int, list[int]] = {}
        for (line, _), count in counts.items():
            passes.setdefault(line, []).append(count)
        return [Pause(line, max(each), len(each)) for line, each in passes.items()]

    def footprint(self) -> Footprint:
        """Return the footprint of the launch: of a large one without loads, of a very large one without tensors."""
        writes = [one for one in self._operations if one.access.kind != "load"]
        has_loads = not self._thinned and self._lanes <= MOST_OF_FOOTPRINT
        made = self._operations if has_loads else writes
        if sum(one.offsets.size for one in made) > MOST_OF_FOOTPRINT:
            made = []
        touched = [
            (extent, [one for one in made if (one.start, one.argument) == (extent.start, extent.name)])
            for extent in self.extents.values()
        ]
        return footprint_of(prod(self.grid), len(self.writers), touched, has_loads=has_loads)

    def _coordinates(self, program: int) -> tuple[int, ...]:
        """Return a program's place in the grid, without trailing axes of one program each."""
        rest, z = divmod(program, self.grid[2])
        return self._shown(*divmod(rest, self.grid[1]), z)

    def _shown(self, x: int, y: int, z: int) -> tuple[int, ...]:
        axes = 3 if self.grid[2] > 1 else 2 if self.grid[1] > 1 else 1
        return (x, y, z)[:axes]

    def _told(self, race: Race) -> GuardFinding:
        first, second = race.first, race.second
        extent = next(one for one in self.extents.values() if (one.start, one.name) == (second.start, second.argument))
        offset = race.address - extent.start
        return GuardFinding(
            kind="race",
            kernel=self.kernel,
            line=second.access.where[0],
            code=_code_at(second.access.where),
            program=self._coordinates(second.access.program),
            argument=second.argument,
            index=extent.place_of(offset)[0],
            shape=extent.shape,
            element=offset // extent.itemsize,
            elements=extent.nbytes // extent.itemsize,
            lanes=race.elements,
            active_lanes=int(second.offsets.size),
            masked=False,
            access=second.access.kind,
            other_access=first.access.kind,
            other_program=self._coordinates(first.access.program),
            other_line=first.access.where[0],
            grid=self._shown(*self.grid),
            updates=race.updates,
        )


def _one_each(programs: npt.NDArray[np.int32]) -> bool:
    """Return whether each program has one lane: it may be a flag."""
    return bool((programs[1:] != programs[:-1]).all())


def _first_of_each(addresses: Addresses) -> npt.NDArray[np.int64] | None:
    """Return the lanes that touch an address first, in ascending order of addresses; None where all lanes do."""
    if addresses.size < 2 or bool((addresses[1:] > addresses[:-1]).all()):
        # The usual case: addresses that ascend.
        return None
    in_order = np.sort(addresses)
    if bool((in_order[1:] != in_order[:-1]).all()):
        return None
    found: npt.NDArray[np.int64] = np.unique(addresses, return_index=True)[1]
    return found


def _differ(addresses: Addresses, values: npt.NDArray[np.generic]) -> bool:
    """Return whether two lanes with the same address have different values."""
    order = np.argsort(addresses, kind="stable")
    same = np.diff(addresses[order]) == 0
    held = np.ascontiguousarray(values[order]).view(f"u{values.dtype.itemsize}")
    return bool((held[1:] != held[:-1])[same].any())


def _code_at(where: tuple[int, str]) -> str:
    """Return the text of a line."""
    return linecache.getline(where[1], where[0]).strip()[:200]


def _regions(extents: object) -> list[tuple[int, int]]:
    """Return the regions of memory that the tensors cover: [start, end), with overlapping ones joined."""
    found: list[tuple[int, int]] = []
    for extent in sorted(extents, key=lambda one: one.start):  # type: ignore[call-overload]
        low, high = extent.start, extent.start + max(extent.nbytes, 1)
        if found and low < found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found
