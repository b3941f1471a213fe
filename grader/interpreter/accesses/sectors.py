"""Count the sectors of 32 bytes that each program of a launch touches, beside the bytes that it uses of them.

A GPU moves whole sectors between its L2 cache and a multiprocessor. A program's lanes can be handed out along any axis
of a block, and its own cache may keep a sector for its next access. So each sector counts once for a program, however
often it is touched: what is left is wasted with every layout. Pure: reads operations only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from grader.interpreter.accesses.races import Operation

SECTOR_BYTES = 32
# A warp: narrower accesses of a program, as of one number, move little.
_WARP = 32
# Rows that start anywhere, of 32 bytes each, touch two sectors for each one that they fill.
_APART = 2.5
# Bytes are counted on small cases; of a larger launch the sectors would take seconds.
_MOST_LANES = 1 << 20


@dataclass(frozen=True)
class Sectors:
    """The bytes that programs use, each once for a program, and those of the sectors that hold them.

    Both are 0 where no lanes lie apart. line: of the access that wastes most.
    """

    used: int = 0
    moved: int = 0
    line: int = 0


def sectors_of(operations: Sequence[Operation]) -> Sectors:
    """Return the sectors of a small launch's loads and stores; atomics are done in the L2 cache."""
    if sum(one.offsets.size for one in operations) > _MOST_LANES:
        return Sectors()
    by_tensor: dict[int, list[Operation]] = {}
    for one in operations:
        if one.access.kind != "atomic" and one.offsets.size:
            by_tensor.setdefault(one.start, []).append(one)
    used = moved = line = most = 0
    for made in by_tensor.values():
        own = _of_tensor(made)
        used, moved = used + own.used, moved + own.moved
        if own.line and own.moved - own.used > most:
            line, most = own.line, own.moved - own.used
    return Sectors(used, moved, line) if line else Sectors()


def _of_tensor(operations: Sequence[Operation]) -> Sectors:
    """Return the sectors of one tensor; line: 0 unless lanes lie apart."""
    wide = [one for one in operations if one.offsets.size >= _WARP * _programs_in(one)]
    lanes = sum(one.access.width * one.offsets.size for one in operations)
    if not wide or sum(map(_steps, operations)) * SECTOR_BYTES < _APART * lanes:
        return Sectors(lanes, lanes)
    places = np.concatenate([one.offsets.astype(np.int64) + one.start % SECTOR_BYTES for one in operations])
    programs = np.concatenate([_owners(one) for one in operations])
    span = int(places.max()) + 1
    width = max(one.access.width for one in operations)
    used = width * np.unique(programs * span + places).size
    moved = SECTOR_BYTES * np.unique(programs * span + places // SECTOR_BYTES).size
    worst = max(wide, key=_steps)
    return Sectors(used, moved, worst.access.where[0] if moved >= _APART * used else 0)


def _steps(one: Operation) -> int:
    """Return how often a lane's sector is another than that of the lane before, at most once for each lane."""
    return 1 + int(np.count_nonzero(np.diff(one.offsets // SECTOR_BYTES)))


def _programs_in(one: Operation) -> int:
    return 1 if one.programs is None else 1 + int(np.count_nonzero(np.diff(one.programs)))


def _owners(one: Operation) -> npt.NDArray[np.int64]:
    if one.programs is None:
        return np.full(one.offsets.size, one.access.program, dtype=np.int64)
    return one.programs.astype(np.int64)
