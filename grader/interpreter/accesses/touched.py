"""Sum up the bytes that a launch touches, to compare launches with one another.

Pure bookkeeping on NumPy arrays, as in grader.interpreter.accesses.guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from grader.interpreter.accesses.races import Operation

Kind = Literal["load", "store", "atomic"]
# Rows of first byte and the byte after the last, in ascending order, apart from one another.
Ranges = npt.NDArray[np.int64]

NOTHING: Ranges = np.zeros((0, 2), dtype=np.int64)
# The kinds that conflict with an access. Two loads do not, nor do two atomics.
_AGAINST: Mapping[Kind, tuple[Kind, ...]] = {
    "load": ("store", "atomic"),
    "store": ("load", "store", "atomic"),
    "atomic": ("load", "store"),
}
# A program that never waits.
_NEVER = np.iinfo(np.int64).max


def joined(found: Iterable[Ranges]) -> Ranges:
    """Return ranges that cover the same bytes, in ascending order and apart."""
    rows = np.concatenate([NOTHING, *found])
    if not len(rows):
        return NOTHING
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    ends = np.maximum.accumulate(rows[:, 1])
    begins = np.flatnonzero(np.concatenate([[True], rows[1:, 0] > ends[:-1]]))
    return np.stack([rows[begins, 0], ends[np.append(begins[1:], len(rows)) - 1]], axis=1)


def common(first: Ranges, second: Ranges) -> int | None:
    """Return the first byte that both cover, or None."""
    if not len(first) or not len(second):
        return None
    # The first range of the second that ends behind the begin of each of the first.
    places = np.searchsorted(second[:, 1], first[:, 0], side="right")
    known = places < len(second)
    begins = np.maximum(first[known, 0], second[places[known], 0])
    met = begins[begins < first[known, 1]]
    return int(met[0]) if met.size else None


@dataclass(frozen=True)
class Touched:
    """The bytes that something loads, stores and updates."""

    ranges: Mapping[Kind, Ranges]

    def conflict(self, other: Touched) -> tuple[Kind, Kind, int] | None:
        """Return how two things that may happen at the same time conflict: own kind, the other's, and a first byte."""
        for kind, ranges in self.ranges.items():
            for against in _AGAINST[kind]:
                byte = common(ranges, other.ranges.get(against, NOTHING))
                if byte is not None:
                    return kind, against, byte
        return None


def touched_by(operations: Sequence[Operation]) -> Touched:
    """Return what these operations touch."""
    found: dict[Kind, list[Ranges]] = {}
    for one in operations:
        found.setdefault(one.access.kind, []).append(_ranges_of(one))
    return Touched({kind: joined(ranges) for kind, ranges in found.items()})


def before_waiting(operations: Sequence[Operation], waits: Mapping[int, int]) -> list[Operation]:
    """Return the operations of each program before it waited. waits: the times of the waits, by program."""
    return [one for whole in operations for one in whole.of_each_program() if _is_before(one, waits)]


def _is_before(one: Operation, waits: Mapping[int, int]) -> bool:
    return one.time < waits.get(one.access.program, _NEVER)


def _ranges_of(one: Operation) -> Ranges:
    begins = np.unique(one.offsets).astype(np.int64) + one.start
    return joined([np.stack([begins, begins + one.access.width], axis=1)])
