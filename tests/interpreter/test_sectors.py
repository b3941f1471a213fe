"""The sectors that programs touch, beside the bytes that they use of them."""

from __future__ import annotations

import numpy as np
import pytest

from grader.interpreter.accesses.races import Access, Kind, Operation
from grader.interpreter.accesses.sectors import Sectors, sectors_of

ROWS, COLUMNS = np.arange(64)[:, None], np.arange(64)[None, :]


def operation(elements: object, program: int = 0, kind: Kind = "load", line: int = 7) -> Operation:
    """An access to float32 elements of one tensor."""
    offsets = 4 * np.asarray(elements, dtype=np.uint32).reshape(-1)
    return Operation(Access(kind, 4, program, (line, "ex.py")), 0, 4096, offsets, "x")


def together(*elements: object) -> Operation:
    """One access of several programs at once."""
    single = [operation(each) for each in elements]
    programs = np.repeat(np.arange(len(single)), [one.offsets.size for one in single]).astype(np.int32)
    offsets = np.concatenate([one.offsets for one in single])
    return Operation(single[0].access, 0, 4096, offsets, "x", programs=programs)


@pytest.mark.parametrize(
    "operations",
    [
        [operation(np.arange(1024))],
        [operation(np.arange(1024) + 1)],
        [operation(np.arange(1024)[::-1])],
        [operation((ROWS * 1000 + COLUMNS).T)],
        [operation(np.random.default_rng(0).permutation(1024))],
        [operation([5], program) for program in range(100)],
        [operation(np.arange(64) * 8, kind="atomic")],
        [operation(np.arange(64) * 100 + step) for step in range(8)],
        [operation(np.repeat(np.arange(100) * 1000, 16) + np.tile(np.arange(16), 100))],
        [together(np.arange(64), 64 + np.arange(64))],
        [],
    ],
    ids=[
        "neighbours",
        "from an odd start",
        "backwards",
        "a transposed tile",
        "a permutation",
        "numbers",
        "atomics",
        "a column that the next access continues",
        "rows by index",
        "programs together",
        "nothing",
    ],
)
def test_lanes_whose_program_uses_its_sectors_waste_nothing(operations: list[Operation]) -> None:
    assert sectors_of(operations) == Sectors()


def test_a_lane_in_each_sector_moves_eight_times_its_bytes() -> None:
    assert sectors_of([operation(np.arange(64) * 8)]) == Sectors(256, 2048, 7)


def test_programs_that_share_a_sector_each_move_it() -> None:
    interleaved = [np.arange(64) * 8 + program for program in range(8)]
    assert sectors_of([together(*interleaved)]) == Sectors(8 * 256, 8 * 2048, 7)
    assert sectors_of([operation(each, place) for place, each in enumerate(interleaved)]) == Sectors(2048, 16384, 7)


def test_the_line_that_wastes_most_is_named() -> None:
    close = operation(np.arange(64), line=3)
    apart = [operation(np.arange(64) * 2 + 10**4, line=4), operation(np.arange(64) * 8 + 10**5, line=5)]
    assert sectors_of([close, *apart]).line == 5
