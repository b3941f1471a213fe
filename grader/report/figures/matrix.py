"""Prepare the matrix of one launch for drawing: programs down, the tiles of a tensor across, and a look for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Literal

from grader.protocol.footprint import LOADED, MOST_ROWS, MOST_TILES, SHARED, STORED, UPDATED, Footprint, TensorFootprint
from grader.record.launches import CoveringLaunch
from grader.report import coverage, view

_MOST_LABEL = 30
# The look of a cell: untouched; read, written or both; an element that another program writes too.
Look = Literal["", "read", "write", "both", "clash"]


@dataclass(frozen=True)
class ProgramRow:
    """One row of the matrix. label: its program, or the first and the last of several."""

    label: str
    looks: tuple[Look, ...]


@dataclass(frozen=True)
class TensorPanel:
    """The matrix of one tensor.

    across: the tiles of one row of tiles. each: the elements of a tile, in words. first, last: the indices of the first
    and the last element. words: the numbers of the tensor. hollow: for each tile, whether no program writes some
    element of it; all False in a tensor that is only read.
    """

    name: str
    across: int
    each: str
    first: str
    last: str
    words: str
    rows: tuple[ProgramRow, ...]
    hollow: tuple[bool, ...]

    @property
    def is_tiled(self) -> bool:
        """Return whether there are several rows of several tiles; they are drawn apart."""
        return 1 < self.across < len(self.hollow)


def panels(launch: CoveringLaunch, *, rows: int = MOST_ROWS, columns: int = 2 * MOST_TILES) -> list[TensorPanel]:
    """Return a panel for each tensor that has a matrix, with at most so many rows and columns.

    A column is a tile, or the gap between two rows of tiles.
    """
    footprint = launch.footprint
    drawable = [one for one in footprint.tensors if one.is_drawable]
    drawn = [one for one in drawable if len(one.cells) == len(drawable[0].cells)]
    while drawn and len(drawn[0].cells) > rows:
        drawn = [_with_fewer_rows(one) for one in drawn]
        footprint = replace(footprint, row_programs=2 * footprint.row_programs)
    return [_panel(launch.grid, footprint, _with_fewer_tiles(one, columns)) for one in drawn]


def _across(one: TensorFootprint) -> int:
    """Return the tiles of one row of tiles."""
    return -(-one.columns // one.tile[1])


def _columns(one: TensorFootprint) -> int:
    """Return the tiles, and the gaps between the rows of several."""
    tiles = len(one.gaps)
    return tiles + tiles // _across(one) - 1 if 1 < _across(one) < tiles else tiles


def _panel(grid: tuple[int, ...], footprint: Footprint, one: TensorFootprint) -> TensorPanel:
    high, wide = one.tile
    shape = "×".join(map(str, one.shape)) or "1"
    return TensorPanel(
        name=f"{view.line(one.argument, 40)} {shape}",
        across=_across(one),
        each=f"{high}×{wide}" if one.rows > 1 else f"{wide:,}",
        first=view.index(coverage.place_of(one.shape, 0)),
        last=view.index(coverage.place_of(one.shape, one.rows * one.columns - 1)),
        words=coverage.touched(one, has_loads=footprint.has_loads),
        rows=tuple(
            ProgramRow(
                view.line(_label(grid, footprint, place), _MOST_LABEL), tuple(_look(int(cell, 16)) for cell in cells)
            )
            for place, cells in enumerate(one.cells)
        ),
        hollow=tuple(gap != "0" for gap in one.gaps),
    )


def _label(grid: tuple[int, ...], footprint: Footprint, row: int) -> str:
    first = row * footprint.row_programs
    last = min(first + footprint.row_programs, footprint.programs) - 1
    if footprint.row_programs > 1:
        return f"{first}–{last}" if first < last else str(first)
    place = _program_of(grid, first)
    return str(place[0]) if len(place) == 1 else f"({', '.join(map(str, place))})"


def _program_of(grid: tuple[int, ...], program: int) -> tuple[int, ...]:
    """Return a program's place in the grid by its number: the last axis is the fastest."""
    axes = list(grid)
    while len(axes) > 1 and axes[-1] <= 1:
        axes.pop()
    return coverage.place_of(axes, program)


def _look(cell: int) -> Look:
    if cell & SHARED:
        return "clash"
    writes, reads = bool(cell & (STORED | UPDATED)), bool(cell & LOADED)
    return "both" if writes and reads else "write" if writes else "read" if reads else ""


def _with_fewer_rows(one: TensorFootprint) -> TensorFootprint:
    """Return the matrix with two rows in one."""
    pairs = [one.cells[place : place + 2] for place in range(0, len(one.cells), 2)]
    return replace(one, cells=tuple(_merged(pair) for pair in pairs))


def _with_fewer_tiles(one: TensorFootprint, most: int) -> TensorFootprint:
    """Return the matrix with larger tiles, until they need no more than so many columns."""
    while _columns(one) > most and len(one.gaps) > 1:
        one = _with_double_tiles(one, wide=_across(one) ** 2 >= len(one.gaps))
    return one


def _with_double_tiles(one: TensorFootprint, *, wide: bool) -> TensorFootprint:
    """Return the matrix with tiles that are twice as wide, or else twice as high."""
    width = _across(one)

    def halved(digits: str) -> str:
        lines = [digits[start : start + width] for start in range(0, len(digits), width)]
        if wide:
            return "".join(_merged(line[place : place + 2]) for line in lines for place in range(0, width, 2))
        return "".join(_merged(lines[place : place + 2]) for place in range(0, len(lines), 2))

    high, long = one.tile
    tile = (high, 2 * long) if wide else (2 * high, long)
    return replace(one, tile=tile, cells=tuple(map(halved, one.cells)), gaps=halved(one.gaps))


def _merged(parts: Sequence[str]) -> str:
    """Return digits that show what any of the parts shows."""
    return "".join(f"{reduce(or_, (int(digit, 16) for digit in digits)):x}" for digits in zip(*parts, strict=True))
