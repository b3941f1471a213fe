"""Count the footprint of a launch from the accesses that the guard recorded. Pure: reads operations only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

import numpy as np
import numpy.typing as npt

from grader.interpreter.accesses.races import Operation
from grader.protocol.footprint import (
    LOADED,
    MOST_ROWS,
    MOST_RUNS,
    MOST_TENSORS,
    MOST_TILES,
    SHARED,
    STORED,
    UPDATED,
    Footprint,
    TensorFootprint,
)
from grader.protocol.trace import span

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# Larger tensors, and more lanes than this, are left out: a footprint is for small cases.
MOST_LANES = 1 << 17
_MOST_ELEMENTS = 1 << 22


class TensorLayout(Protocol):
    """The place of a tensor's elements in memory, in elements from its first one."""

    @property
    def name(self) -> str:
        """Return the name of the kernel's argument."""

    @property
    def itemsize(self) -> int:
        """Return the bytes of an element."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the length of every axis."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Return the stride of every axis, in elements."""


@dataclass(frozen=True, eq=False)
class _Writes:
    """The elements that programs write, [W] each, every pair of them once; and the number of programs, by element."""

    programs: Ints
    elements: Ints
    writers_of: Ints


def footprint_of(
    programs: int,
    writers: int,
    touched: Sequence[tuple[TensorLayout, Sequence[Operation]]],
    *,
    has_loads: bool = True,
) -> Footprint:
    """Return the footprint of a launch.

    programs: of the grid. writers: the programs that write something. touched: the tensors with their operations, in
    the order of the kernel's arguments. has_loads: the operations include loads.
    """
    row_programs = _power(-(-programs // MOST_ROWS))
    small = [(layout, made) for layout, made in touched if made and prod(layout.shape) <= _MOST_ELEMENTS]
    # Without room for all, written tensors come before those that are only loaded.
    places = sorted(range(len(small)), key=lambda place: all(one.access.kind == "load" for one in small[place][1]))
    kept = [small[place] for place in sorted(places[:MOST_TENSORS])]
    found = [_tensor_footprint(layout, made, programs, row_programs) for layout, made in kept]
    return Footprint(programs, programs - writers, row_programs, tuple(found), has_loads)


def _tensor_footprint(
    layout: TensorLayout, operations: Sequence[Operation], programs: int, row_programs: int
) -> TensorFootprint:
    shape, strides = _axes(layout)
    columns = shape[-1] if shape else 1
    count = prod(shape)
    rows = count // columns
    loads, stores, updates = (
        [one for one in operations if one.access.kind == kind] for kind in ("load", "store", "atomic")
    )
    lanes = {
        bit: _lanes(layout.itemsize, shape, strides, made)
        for bit, made in ((LOADED, loads), (STORED, stores), (UPDATED, updates))
    }
    loaded, stored, updated = (_marked(places, count) for _, places in lanes.values())
    owners, places = (np.concatenate(pair) for pair in zip(lanes[STORED], lanes[UPDATED], strict=True))
    writes = _writes(owners, places, count)
    shared = (writes.writers_of > 1) & stored
    counts = np.bincount(writes.programs)
    each = counts[counts > 0]
    written = stored | updated
    tile = _tile(rows, columns)
    tile_of = _tile_of(rows, columns, tile)
    tiles = int(tile_of[-1]) + 1
    cells = np.zeros(-(-programs // row_programs) * tiles, dtype=np.uint8)
    met = shared[writes.elements]
    lanes[SHARED] = writes.programs[met], writes.elements[met]
    for bit, (owners, places) in lanes.items():
        cells |= _marked(owners // row_programs * tiles + tile_of[places], cells.size) * np.uint8(bit)
    missing = ~written & written.any()
    lacking, whole = np.bincount(tile_of[missing], minlength=tiles), np.bincount(tile_of, minlength=tiles)
    return TensorFootprint(
        argument=layout.name,
        shape=shape,
        elements=count,
        loaded=int(loaded.sum()),
        written=int(written.sum()),
        updated=int(updated.sum()),
        writers=each.size,
        most=int(each.max(initial=0)),
        fewer=int((each < each.max(initial=0)).sum()),
        shared=int(shared.sum()),
        missing=tuple(_runs(missing)),
        tile=tile,
        cells=tuple("".join(f"{cell:x}" for cell in row) for row in cells.reshape(-1, tiles).tolist()),
        gaps="".join("0" if not gap else "2" if gap == full else "1" for gap, full in zip(lacking, whole, strict=True)),
    )


def _axes(layout: TensorLayout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return shape and strides in which every element in memory has one index.

    Rows that lie in the same memory are one row. A tensor whose rows overlap is a vector.
    """
    shape = tuple(size if stride else 1 for size, stride in zip(layout.shape, layout.strides, strict=True))
    reach = 1
    for stride, size in sorted(zip(layout.strides, shape, strict=True)):
        if size > 1 and stride < reach:
            return (span(shape, layout.strides),), (1,)
        reach += (size - 1) * stride
    return shape, layout.strides


def _lanes(
    itemsize: int, shape: tuple[int, ...], strides: tuple[int, ...], operations: Sequence[Operation]
) -> tuple[Ints, Ints]:
    """Return the program and the element of every lane, [L] each. Elements count in row-major order."""
    owners, places = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for one in operations:
        # A pointer to a wider type touches several elements; a pointer to a narrower type touches a part of one.
        wide = max(1, one.access.width // itemsize)
        first = one.offsets.astype(np.int64) // itemsize
        own = np.full(first.size, one.access.program) if one.programs is None else one.programs.astype(np.int64)
        if wide > 1:
            first, own = (first[:, None] + np.arange(wide)).reshape(-1), np.repeat(own, wide)
        places.append(first)
        owners.append(own)
    left = np.concatenate(places)
    if strides == tuple(prod(shape[axis + 1 :]) for axis in range(len(shape))):
        return np.concatenate(owners), left
    found = np.zeros_like(left)
    for axis in sorted(range(len(shape)), key=lambda axis: -strides[axis]):
        if shape[axis] > 1:
            index, left = np.divmod(left, strides[axis])
            found += index * prod(shape[axis + 1 :])
    return np.concatenate(owners), found


def _marked(places: Ints, count: int) -> Flags:
    marks = np.zeros(count, dtype=bool)
    marks[places] = True
    return marks


def _writes(programs: Ints, elements: Ints, count: int) -> _Writes:
    """Return the writes of these lanes. One program may write an element several times."""
    writers_of = np.bincount(elements, minlength=count)
    if writers_of.max(initial=0) > 1:
        programs, elements = np.divmod(np.unique(programs * count + elements), count)
        writers_of = np.bincount(elements, minlength=count)
    return _Writes(programs, elements, writers_of)


def _tile(rows: int, columns: int) -> tuple[int, int]:
    """Return the rows and columns of a tile, powers of two, so that there are few enough tiles, nearly square."""
    high = wide = 1
    while (down := -(-rows // high)) * (across := -(-columns // wide)) > MOST_TILES:
        if across >= down:
            wide *= 2
        else:
            high *= 2
    return high, wide


def _tile_of(rows: int, columns: int, tile: tuple[int, int]) -> Ints:
    """Return the tile of each element; both count in row-major order."""
    row, column = np.arange(rows) // tile[0], np.arange(columns) // tile[1]
    places: Ints = (row[:, None] * (column[-1] + 1) + column).reshape(-1)
    return places


def _runs(marks: Flags) -> Iterator[tuple[int, int]]:
    """Yield the first and the last place of the first runs of marks."""
    edges = np.flatnonzero(np.diff(marks, prepend=False, append=False))
    for first, end in edges.reshape(-1, 2)[:MOST_RUNS].tolist():
        yield first, end - 1


def _power(least: int) -> int:
    """Return the smallest power of two that is not smaller."""
    return 1 << max(0, least - 1).bit_length()
