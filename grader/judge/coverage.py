"""Extract what the programs of a call touch, for the record, and choose the call that shows it best.

Footprints are claims of another process: they are cleaned and limited here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from grader.exercise.cases import Case
from grader.judge.failure import WrongCall
from grader.protocol.answers import EXACT_IN_JSON
from grader.protocol.footprint import (
    MOST_LAUNCHES,
    MOST_ROWS,
    MOST_RUNS,
    MOST_TENSORS,
    MOST_TILES,
    Footprint,
    TensorFootprint,
)
from grader.protocol.observations import LaunchInfo
from grader.record.launches import Coverage, CoveringLaunch
from grader.text import clean

# The most cells of one part in a record.
_MOST_CELLS = 3 * MOST_ROWS * MOST_TILES
_MOST_AXES = 8
# More programs than this show no more. In the rank, a program weighs as much as a tile of a quarter of the elements.
_TELLING, _WORTH = 8, 2


def coverage_of(words: str, launches: Sequence[LaunchInfo]) -> Coverage | None:
    """Return what the programs of a call touch, None where that was not counted. words: the case."""
    counted = [one for one in launches if one.footprint is not None]
    kept: list[CoveringLaunch] = []
    room = _MOST_CELLS
    for one in counted[:MOST_LAUNCHES]:
        assert one.footprint is not None
        footprint = _cleaned(one.footprint, room)
        room -= sum(map(_cells, footprint.tensors))
        kept.append(CoveringLaunch(clean(one.kernel, 80), _limited(one.grid[:3]), footprint))
    return Coverage(words, tuple(kept), more=len(launches) - len(kept)) if kept else None


def coverage_of_wrong(seen: WrongCall, check: str, wrong: int, *, in_place: bool) -> Coverage | None:
    """Return what the programs of a wrong call touch, None where that was not counted.

    check: the one that failed. wrong: the number of wrong elements. in_place: the call changes its caller's memory; it
    need not write all of that.
    """
    found = coverage_of(Case(seen.recipe.case).words(), seen.outcome.answer.launches)
    if found is None:
        return None
    written = [one for launch in found.launches for one in launch.footprint.tensors if one.written]
    lacking = not in_place and any(0 < one.elements - one.written <= wrong for one in written)
    return replace(found, check=check, lacking=lacking)


def more_telling(*several: Coverage | None) -> Coverage | None:
    """Return the one that shows most: idle programs, else few programs with a remainder, and small tensors."""
    return max((one for one in several if one is not None), key=_rank, default=None)


def _rank(one: Coverage) -> tuple[int, bool, bool, bool, int, int, str]:
    """Return a sort key. It prefers idle programs, a whole picture, few programs, a remainder, then small tiles.

    Equal ones differ in their words, so that the order of calls does not matter.
    """
    main = max(one.launches, key=lambda launch: sum(tensor.written for tensor in launch.footprint.tensors)).footprint
    most = max((tensor.most for tensor in main.tensors), default=0)
    coarse = max((prod(tensor.tile).bit_length() for tensor in main.tensors), default=0)
    return (
        max(launch.footprint.idle if launch.footprint.is_wasteful else 0 for launch in one.launches),
        main.has_loads and any(map(_cells, main.tensors)),
        1 < main.programs <= MOST_ROWS,
        any(tensor.fewer for tensor in main.tensors),
        _WORTH * (min(main.programs, _TELLING) + most.bit_length()) - coarse,
        -sum(tensor.elements for tensor in main.tensors),
        one.words,
    )


def _cells(tensor: TensorFootprint) -> int:
    return sum(map(len, tensor.cells))


def _cleaned(footprint: Footprint, room: int) -> Footprint:
    """Return a footprint within the limits of a record. room: the most cells; further matrices are left out."""
    tensors: list[TensorFootprint] = []
    for one in footprint.tensors[:MOST_TENSORS]:
        cleaned = _cleaned_tensor(one)
        if not cleaned.is_drawable or _cells(cleaned) > room:
            cleaned = replace(cleaned, cells=(), gaps="")
        room -= _cells(cleaned)
        tensors.append(cleaned)
    programs, idle, row_programs = _limited((footprint.programs, footprint.idle, footprint.row_programs))
    return Footprint(programs, min(idle, programs), max(row_programs, 1), tuple(tensors), footprint.has_loads)


def _cleaned_tensor(one: TensorFootprint) -> TensorFootprint:
    return replace(
        one,
        argument=clean(one.argument, 80),
        shape=_limited(one.shape[:_MOST_AXES]),
        elements=_limit(one.elements),
        loaded=_limit(one.loaded),
        written=_limit(one.written),
        updated=_limit(one.updated),
        writers=_limit(one.writers),
        most=_limit(one.most),
        fewer=_limit(one.fewer),
        shared=_limit(one.shared),
        missing=tuple(_limited(run[:2]) for run in one.missing[:MOST_RUNS] if len(run) > 1),
        tile=_limited(one.tile[:2]),
    )


def _limited(counts: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(_limit, counts))


def _limit(count: int) -> int:
    return min(max(count, 0), EXACT_IN_JSON)
