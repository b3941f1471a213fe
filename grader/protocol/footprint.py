"""The footprint of one launch: which programs load and store which elements, as numbers and as a small matrix.

The guard of the interpreter counts it (grader.interpreter.accesses.footprint); the record keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

# The most launches of a call and tensors of a launch that are told, and the most runs of missing elements.
MOST_LAUNCHES, MOST_TENSORS, MOST_RUNS = 3, 6, 4
# The most rows of a matrix, and the most tiles in each.
MOST_ROWS, MOST_TILES = 32, 64
# The bits of a cell, one hexadecimal digit: what the programs of its row do to the elements of its tile. SHARED: they
# store an element that another program stores too.
LOADED, STORED, UPDATED, SHARED = 1, 2, 4, 8

# Fewer programs that write nothing cost little.
_MANY = 16


@dataclass(frozen=True)
class TensorFootprint:
    """The elements of one tensor that the programs of a launch load and write.

    elements: those that the kernel may touch, in memory. loaded, written, updated: the different ones that programs
    load, store or update, and update by atomics. writers: programs that write to it; most: the most elements that one
    of them writes; fewer: the writers that write fewer. shared: elements that several programs write, not all of them
    by atomics. missing: runs of elements that no program writes, as first and last in row-major order; the first few,
    and none where nothing is written.

    shape: an axis along which all elements lie in the same memory has length 1. tile: the elements of a cell, as rows
    and columns, powers of two; all axes but the last count as rows. cells: a text for each row of the matrix, with a
    digit for each tile in row-major order. gaps: for each tile, the elements that no program writes: 0 none, 1 some,
    2 all.
    """

    argument: str
    shape: tuple[int, ...]
    elements: int
    loaded: int
    written: int
    updated: int
    writers: int
    most: int
    fewer: int
    shared: int
    missing: tuple[tuple[int, ...], ...]
    tile: tuple[int, ...]
    cells: tuple[str, ...]
    gaps: str

    @property
    def rows(self) -> int:
        """Return the length of all axes but the last together."""
        return prod(self.shape[:-1])

    @property
    def columns(self) -> int:
        """Return the length of the last axis."""
        return self.shape[-1] if self.shape else 1

    @property
    def is_drawable(self) -> bool:
        """Return whether there is a matrix, with one digit for every tile in each of its rows and in the gaps."""
        if len(self.tile) != 2 or min(*self.tile, *self.shape, 1) < 1 or not 0 < len(self.cells) <= MOST_ROWS:
            return False
        tiles = -(-self.rows // self.tile[0]) * -(-self.columns // self.tile[1])
        if tiles > MOST_TILES or {len(self.gaps), *map(len, self.cells)} != {tiles}:
            return False
        return set("".join(self.cells)) <= set("0123456789abcdef") and set(self.gaps) <= set("012")


@dataclass(frozen=True)
class Footprint:
    """The programs of one launch, and the tensors that they touch.

    idle: programs that write nothing. row_programs: the programs of a row of each matrix, a power of two. Programs
    count as the interpreter runs them: the last axis of the grid is the fastest. tensors: the first that are written,
    then the first that are loaded, without large ones; none of a very large launch. has_loads: loads are counted too.
    """

    programs: int
    idle: int
    row_programs: int
    tensors: tuple[TensorFootprint, ...]
    has_loads: bool = True

    @property
    def is_wasteful(self) -> bool:
        """Return whether many programs write nothing, and they are most of them.

        A launch in which none writes may be one for a sequence without elements.
        """
        return self.idle >= _MANY and self.programs > self.idle > self.programs / 2
