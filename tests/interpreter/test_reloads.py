"""The bytes that programs load again although they have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from grader.interpreter.accesses.races import Access, Kind, Operation
from grader.interpreter.accesses.reloads import reloads_of

KEYS, RESULT, ROW_NUMBERS = 4096, 1 << 20, 1 << 21
TILE = np.arange(64)


def access(elements: object, program: int = 0, kind: Kind = "load", tensor: int = KEYS, *, line: int = 7) -> Operation:
    """An access to float32 elements of one tensor."""
    offsets = 4 * np.asarray(elements, dtype=np.uint32).reshape(-1)
    return Operation(Access(kind, 4, program, (line, "ex.py")), 0, tensor, offsets, "x")


def stored(elements: object, program: int = 0, tensor: int = RESULT) -> Operation:
    return access(elements, program, "store", tensor)


def together(*elements: object, line: int = 7, first: int = 0) -> Operation:
    """One access of several programs at once."""
    single = [access(each, line=line) for each in elements]
    programs = np.repeat(np.arange(first, first + len(single)), [one.offsets.size for one in single]).astype(np.int32)
    offsets = np.concatenate([one.offsets for one in single])
    return Operation(single[0].access, 0, KEYS, offsets, "x", programs=programs)


def counted(operations: Sequence[Operation]) -> int:
    return reloads_of([replace(one, time=time) for time, one in enumerate(operations)]).since_a_result


@pytest.mark.parametrize(
    "operations",
    [
        [],
        [access(TILE), access(TILE + 64), stored(TILE)],
        [access(TILE), access(TILE[::-1] + 64)],
        [access(TILE, program) for program in range(9)],
        [together(TILE, TILE, TILE)],
        [access(TILE), stored(TILE), access(TILE), stored(TILE + 64)],
        [access(TILE), access(TILE, kind="atomic", tensor=RESULT), access(TILE)],
        [access(TILE), access(TILE, tensor=RESULT), stored(TILE, tensor=1 << 22)],
        [access(TILE), access(TILE + 64, line=8), access(TILE), access(TILE + 128, line=8), access(TILE)],
        [access(TILE), access(TILE, 1), stored(TILE, 1), access(TILE), access(TILE)],
        [together(TILE, TILE + 9, TILE), together(TILE + 9, TILE, first=1), together(TILE, first=2)],
        [access(TILE), stored(TILE), access(TILE, tensor=RESULT), access(TILE), stored(TILE)],
    ],
    ids=[
        "nothing",
        "a tile after the other",
        "backwards",
        "each program its own",
        "each program its own, together",
        "again for another tile of the result",
        "again for another sum",
        "the same places of another tensor",
        "at one line of a loop that only reads",
        "at one line, with another program's store before",
        "at one line of a loop that some programs leave",
        "again for what it adds to a sum in memory",
    ],
)
def test_what_a_program_does_not_have_is_not_loaded_again(operations: list[Operation]) -> None:
    assert counted(operations) == 0


@pytest.mark.parametrize(
    ("operations", "again"),
    [
        ([access(TILE), access(TILE, line=8), stored(TILE)], 256),
        ([access(TILE), access(TILE, line=8), access(TILE, line=9)], 512),
        ([*(access(TILE + 64 * step) for step in range(4)), *(access(TILE + 64 * step) for step in range(4))], 1024),
        ([access(np.arange(256)), *(access(TILE + 64 * step) for step in range(4))], 1024),
        ([access(TILE), access(TILE + 32), stored(TILE)], 128),
        ([access(TILE * 3), access(TILE[::-1] * 3)], 256),
        ([together(TILE, TILE + 9), together(TILE, TILE + 9, line=8), access(TILE, 5)], 512),
        ([access(TILE), stored(TILE, 1), access(TILE, line=8)], 256),
        ([access(TILE), access(TILE[:8], kind="atomic", tensor=ROW_NUMBERS), access(TILE), stored(TILE)], 256),
        ([together(TILE, TILE), together(TILE, TILE + 64), together(TILE, TILE)], 256),
        ([access(TILE), stored(TILE[:8], tensor=ROW_NUMBERS), access(TILE), stored(TILE)], 256),
        ([access(TILE), stored(TILE), access(TILE), stored(TILE)], 256),
        ([access(TILE), stored(TILE), access(TILE), access(TILE, tensor=RESULT), access(TILE, line=8)], 256),
        ([access(TILE), stored(TILE), access(TILE, 1, tensor=RESULT), access(TILE), stored(TILE)], 256),
    ],
    ids=[
        "twice",
        "three times",
        "in two passes",
        "in two passes with tiles of other sizes",
        "half of a tile",
        "lanes apart",
        "two programs together",
        "at another line, with another program's store between",
        "at one line of a loop with an atomic",
        "at one line at which one of two programs loads something else between",
        "with a number for each row stored between",
        "with a store between that a later one covers",
        "after what it stored is loaded back",
        "with a store between that another program loads",
    ],
)
def test_what_a_program_loads_although_it_has_it_is_counted_to_the_byte(
    operations: list[Operation], again: int
) -> None:
    assert counted(operations) == again


def in_a_row(operations: Sequence[Operation]) -> int:
    return reloads_of([replace(one, time=time) for time, one in enumerate(operations)]).in_a_row


@pytest.mark.parametrize(
    "operations",
    [
        [access(TILE), access(TILE + 64), access(TILE), access(TILE + 64)],
        [access(TILE), access(TILE, 1), access(TILE, 2)],
        [together(TILE, TILE, TILE)],
        [access(TILE), access(TILE, tensor=RESULT)],
        [access(TILE), stored(TILE), access(TILE, line=8), access(TILE + 64, line=8)],
    ],
    ids=[
        "a second walk",
        "each program its own",
        "each program its own, together",
        "another tensor",
        "where other work begins at another line",
    ],
)
def test_only_what_the_last_load_had_is_loaded_twice_in_a_row(operations: list[Operation]) -> None:
    assert in_a_row(operations) == 0


@pytest.mark.parametrize(
    ("operations", "again"),
    [
        ([access(TILE), access(TILE, line=8)], 256),
        ([access(TILE), access(TILE, line=8), access(TILE, line=9)], 512),
        ([access(TILE), stored(TILE), access(TILE)], 256),
        ([access(TILE), access(TILE, 1), access(TILE + 16)], 192),
        ([together(TILE, TILE + 9), together(TILE, TILE + 9, line=8), access(TILE, 5)], 512),
        ([access(TILE), stored(TILE, 1), access(TILE, line=8), stored(TILE)], 256),
        (
            [
                each
                for start in (0, 64, 128)
                for each in (access(TILE + start), stored(TILE + start), access(TILE + start, line=8))
            ],
            512,
        ),
    ],
    ids=[
        "twice",
        "three times",
        "with a result between",
        "with another program between",
        "programs together",
        "at another line, with another program's result between",
        "at another line, with a result between, in each step",
    ],
)
def test_what_is_loaded_twice_in_a_row_is_counted_to_the_byte(operations: list[Operation], again: int) -> None:
    assert in_a_row(operations) == again
