"""The footprint of a launch: which programs load and write which elements, as numbers and as a small matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from grader.interpreter.accesses.footprint import footprint_of
from grader.interpreter.accesses.guard import Guard, extent_of
from grader.interpreter.accesses.races import Access, Kind, Operation
from grader.protocol.footprint import MOST_TENSORS, Footprint, TensorFootprint

WIDTH = 4


def made(kind: Kind, program: int, elements: Any, *, width: int = WIDTH) -> Operation:
    """An access of one program to these elements of a float32 tensor."""
    offsets = np.asarray(elements, dtype=np.uint32) * WIDTH
    return Operation(Access(kind, width, program, (1, "x.py")), 0, 0, offsets, "z_ptr")


def together(kind: Kind, programs: list[int], elements: list[int]) -> Operation:
    """An access that several programs make at once: the program and the element of every lane."""
    one = made(kind, programs[0], elements)
    return Operation(one.access, 0, 0, one.offsets, "z_ptr", None, np.asarray(programs, dtype=np.int32))


def footprint(tensor: torch.Tensor, programs: int, *operations: Operation) -> Footprint:
    writers = {one.access.program for one in operations if one.access.kind != "load"}
    return footprint_of(programs, len(writers), [(extent_of("z_ptr", 1, tensor), operations)])


def of_tensor(tensor: torch.Tensor, programs: int, *operations: Operation) -> TensorFootprint:
    (found,) = footprint(tensor, programs, *operations).tensors
    return found


def blocks(length: int, block: int, programs: int) -> list[Operation]:
    """The stores of a masked vector kernel."""
    return [made("store", one, range(one * block, min(length, (one + 1) * block))) for one in range(programs)]


def test_the_last_program_of_a_vector_writes_the_remainder() -> None:
    found = of_tensor(torch.empty(10), 3, *blocks(10, 4, 3))
    assert (found.writers, found.most, found.fewer) == (3, 4, 1)
    assert (found.written, found.elements, found.missing) == (10, 10, ())
    assert found.cells == ("2222000000", "0000222200", "0000000022")
    assert found.gaps == "0" * 10


def test_elements_that_no_program_writes_are_gaps_with_their_places() -> None:
    found = of_tensor(torch.empty(10), 2, *blocks(10, 4, 2))
    assert (found.written, found.missing, found.gaps) == (8, ((8, 9),), "0000000022")


def test_a_tensor_that_is_only_read_has_no_gaps() -> None:
    found = of_tensor(torch.empty(4), 1, made("load", 0, [0, 1]))
    assert (found.loaded, found.written, found.missing, found.gaps) == (2, 0, (), "0000")
    assert found.cells == ("1100",)


def test_two_programs_that_store_one_element_share_it() -> None:
    found = of_tensor(torch.empty(5), 2, made("store", 0, [0, 1, 2]), made("store", 1, [2, 3, 4]))
    assert found.shared == 1
    assert found.cells == ("22a00", "00a22")


def test_programs_that_update_one_element_by_atomics_do_not_collide() -> None:
    found = of_tensor(torch.empty(1), 3, *(made("atomic", one, [0]) for one in range(3)))
    assert (found.updated, found.shared, found.cells) == (1, 0, ("4", "4", "4"))


def test_a_program_that_stores_an_element_twice_shares_it_with_nobody() -> None:
    found = of_tensor(torch.empty(2), 1, made("store", 0, [0, 1]), made("store", 0, [0, 1]))
    assert (found.shared, found.most) == (0, 2)


def test_programs_in_lockstep_have_the_footprint_of_programs_one_after_another() -> None:
    x = torch.empty(6)
    apart = of_tensor(x, 2, made("store", 0, [0, 1, 2]), made("store", 1, [3, 4]))
    assert of_tensor(x, 2, together("store", [0, 0, 0, 1, 1], [0, 1, 2, 3, 4])) == apart


def test_a_long_vector_has_tiles_of_a_power_of_two() -> None:
    found = of_tensor(torch.empty(5000), 5, *blocks(5000, 1024, 5))
    assert found.tile == (1, 128)
    assert [len(row) for row in found.cells] == [40] * 5
    assert found.cells[0] == "2" * 8 + "0" * 32


def test_many_programs_share_the_rows_of_the_matrix() -> None:
    found = footprint(torch.empty(100), 100, *blocks(100, 1, 100))
    assert found.row_programs == 4
    assert len(found.tensors[0].cells) == 25


@pytest.mark.parametrize(
    ("shape", "tile"), [((8, 8), (1, 1)), ((64, 64), (8, 8)), ((5, 100), (1, 16)), ((9, 1), (1, 1))]
)
def test_a_matrix_has_tiles_of_rows_and_columns(shape: tuple[int, int], tile: tuple[int, int]) -> None:
    assert of_tensor(torch.empty(shape), 1, made("store", 0, [0])).tile == tile


def test_the_tiles_of_a_matrix_count_row_by_row() -> None:
    # The lower left of four quarters.
    quarter = [row * 16 + column for row in range(8, 16) for column in range(8)]
    found = of_tensor(torch.empty(16, 16), 1, made("store", 0, quarter))
    assert found.tile == (2, 2)
    assert found.cells == ("0" * 32 + "22220000" * 4,)


def test_elements_of_a_transposed_matrix_count_as_the_matrix_shows_them() -> None:
    # The first row of what the kernel sees lies a stride apart.
    found = of_tensor(torch.empty(3, 2).T, 1, made("store", 0, [0, 2, 4]))
    assert (found.shape, found.cells, found.missing) == ((2, 3), ("222000",), ((3, 5),))


def test_rows_that_lie_apart_count_without_the_gap_between_them() -> None:
    found = of_tensor(torch.empty(2, 5)[:, :3], 1, made("store", 0, [0, 1, 2, 5, 6, 7]))
    assert (found.elements, found.written, found.gaps) == (6, 6, "000000")


def test_rows_in_the_same_memory_are_one_row() -> None:
    found = of_tensor(torch.empty(3).expand(4, 3), 1, made("load", 0, [0, 1, 2]))
    assert (found.shape, found.elements, found.loaded) == ((1, 3), 3, 3)


def test_a_tensor_whose_rows_overlap_is_a_vector() -> None:
    found = of_tensor(torch.as_strided(torch.empty(9), (3, 5), (2, 1)), 1, made("load", 0, range(9)))
    assert (found.shape, found.elements, found.loaded) == ((9,), 9, 9)


def test_an_access_through_a_wider_pointer_touches_several_elements() -> None:
    assert of_tensor(torch.empty(8), 1, made("store", 0, [0, 4], width=16)).written == 8


def test_a_program_whose_lanes_are_all_masked_writes_nothing() -> None:
    guard = Guard("k", grid=(2, 1, 1))
    start = guard.admit("z_ptr", torch.empty(4))
    for program, active in ((0, True), (1, False)):
        lanes = start + np.arange(4, dtype=np.uint64) * np.uint64(WIDTH)
        guard.access(Access("store", WIDTH, program, (1, "x.py")), lanes, np.full(4, active), np.zeros(4, np.float32))
    assert (guard.footprint().programs, guard.footprint().idle) == (2, 1)


def test_of_many_tensors_those_that_are_written_are_told() -> None:
    tensor = extent_of("z_ptr", 1, torch.empty(4))
    loaded, stored = (tensor, [made("load", 0, [0])]), (tensor, [made("store", 0, [0])])
    found = footprint_of(1, 1, [*[loaded] * MOST_TENSORS, stored, loaded]).tensors
    assert [one.written for one in found] == [*[0] * (MOST_TENSORS - 1), 1]
