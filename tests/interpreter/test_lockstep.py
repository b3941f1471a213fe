"""Programs that run in lockstep do what they do one after another: outputs, bytes, findings and errors are equal."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

import pytest

from grader.exercise.triton_version import TRITON
from tests.interpreter.test_contract import python

pytestmark = pytest.mark.process

SCRIPT = "import runpy; runpy.run_module('tests.interpreter.kernels_in_lockstep', run_name='__main__')"
# A kernel is launched twice: unknown, its first program runs by itself; known, all run at once.
NEVER_ALONE = (
    *("masked", "undefined_lanes", "rows", "tiles", "narrow", "descriptors", "combined", "contracted"),
    *("summed_products", "random_numbers", "equal_stores", "two_axes"),
    *("sums_of_broadcast_products", "reordered"),
    *("atomics", "atomics_of_scalars", "atomics_in_a_loop", "exchanges_with_barriers"),
    *(["block_pointers"] if TRITON < (3, 9) else []),
)
PARTING = (
    *("branches", "while_it_is_large", "while_a_condition_holds", "each_its_own_way", "persistent", "atomics_of_some"),
    "tickets",
)
ALONE = ("locks", "atomics_out_of_order", "printing", "the_last_one_strays", "one_of_them_fails")
# They part first, and then must not add in another order.
PARTING_IN_VAIN = ("atomics_of_odd_ones",)
RACES = {"races": 4, "races_with_atomics": 1, "exchanges": 2}


@dataclass(frozen=True)
class Comparison:
    """One kernel. groups: the size of each group that began to run in lockstep."""

    groups: list[int]
    differing: list[str]
    findings: list[str]
    error: str


@pytest.fixture(scope="module")
def compared() -> dict[str, Comparison]:
    ran: subprocess.CompletedProcess[str] = python(SCRIPT)
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[")]
    assert lines, ran.stderr
    return {name: Comparison(*rest) for name, *rest in lines}


@pytest.mark.parametrize("kernel", [*NEVER_ALONE, *PARTING, *ALONE, *PARTING_IN_VAIN])
def test_lockstep_changes_neither_results_nor_findings(compared: dict[str, Comparison], kernel: str) -> None:
    assert compared[kernel].differing == []


@pytest.mark.parametrize("kernel", NEVER_ALONE)
def test_the_programs_of_a_usual_kernel_are_one_group_once_the_first_four_show_its_values(
    compared: dict[str, Comparison], kernel: str
) -> None:
    *shown, again = compared[kernel].groups
    assert shown[0] == 4
    assert again == sum(shown)


@pytest.mark.parametrize("kernel", PARTING)
def test_programs_that_branch_differently_go_on_in_groups(compared: dict[str, Comparison], kernel: str) -> None:
    assert len(compared[kernel].groups) > 2


def test_programs_that_cannot_run_in_lockstep_are_tried_until_one_of_them_cannot(
    compared: dict[str, Comparison],
) -> None:
    late = {"one_of_them_fails": [4, 9], "the_last_one_strays": [4, 9]}
    assert {name: compared[name].groups for name in ALONE} == {name: [4] for name in ALONE} | late


def test_programs_that_part_and_would_add_in_another_order_run_one_after_another(
    compared: dict[str, Comparison],
) -> None:
    assert {name: len(compared[name].groups) for name in PARTING_IN_VAIN} == {"atomics_of_odd_ones": 3}


@pytest.mark.parametrize(("kernel", "races"), [*RACES.items()])
def test_races_are_told_with_the_programs_that_met(compared: dict[str, Comparison], kernel: str, races: int) -> None:
    # Only the order of the accesses, which is no promise of a GPU's, may show in the output.
    assert compared[kernel].findings == ["race"] * races
    assert set(compared[kernel].differing) <= {"output"}


def test_a_program_that_strays_or_fails_is_told_as_by_itself(compared: dict[str, Comparison]) -> None:
    assert compared["the_last_one_strays"].findings == ["store"]
    assert "promises a multiple of 8, and here one is 1" in compared["one_of_them_fails"].error


def test_every_kernel_of_the_script_is_looked_at(compared: dict[str, Comparison]) -> None:
    assert set(compared) - {"block_pointers"} == {
        *(*NEVER_ALONE, *PARTING, *ALONE, *PARTING_IN_VAIN, *RACES),
    } - {"block_pointers"}
