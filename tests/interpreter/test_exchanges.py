"""Exchanges: one thread of a program stores, another one touches the same address, and no barrier lies between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from grader.interpreter.accesses.guard import Guard
from grader.interpreter.accesses.races import Access, Heed, Kind
from grader.judge.access_findings import cause_of, clues_of
from grader.protocol.observations import GuardFinding

pytestmark = pytest.mark.process

ELEMENTS = 16
PROGRAMS = 3


@dataclass(frozen=True)
class Step:
    """What every program does to elements of its own; -1 for a lane that a mask leaves out.

    kind: of an access; "barrier"; or "sum", at which threads exchange values. heeded: the result of an atomic is read.
    """

    kind: str
    lanes: tuple[int, ...] = ()
    width: int = 4
    heeded: bool = True
    value: int | None = None


BARRIER, SUM = Step("barrier"), Step("sum")
FORWARDS, BACKWARDS, HALF = (0, 1, 2, 3), (3, 2, 1, 0), (2, 3)


def load(*lanes: int, width: int = 4) -> Step:
    return Step("load", lanes, width)


def store(*lanes: int, width: int = 4, value: int | None = None) -> Step:
    return Step("store", lanes, width, value=value)


def atomic(*lanes: int, heeded: bool = True) -> Step:
    return Step("atomic", lanes, heeded=heeded)


def make(guard: Guard, pointer: int, step: Step, line: int, programs: Sequence[int]) -> None:
    """Let programs take a step: one by itself, several in lockstep."""
    if step.kind == "barrier":
        guard.pass_barrier(programs)
        return
    if step.kind == "sum":
        guard.share(np.asarray(programs))
        return
    kind: Kind = step.kind  # type: ignore[assignment]
    update, order = ("ADD", "orders") if kind == "atomic" else ("", "plain")
    heed = Heed(step.heeded) if kind == "atomic" else None
    access = Access(kind, step.width, programs[0], (line, "kernel.py"), order, heed=heed, update=update)  # type: ignore[arg-type]
    numbers = np.array(programs)
    lanes = np.array([step.lanes] * len(programs))
    pointers = (pointer + numbers[:, None] * 4 * ELEMENTS + lanes * step.width).astype(np.uint64)
    values = np.arange(lanes.size).reshape(lanes.shape) if step.value is None else np.full(lanes.shape, step.value)
    stored = values.astype(f"i{step.width}") if kind == "store" else None
    if len(programs) > 1:
        assert guard.access_in_lockstep(access, numbers, pointers, lanes >= 0, stored) is not None
    else:
        guard.access(access, pointers[0], lanes[0] >= 0, None if stored is None else stored[0])


def alone(steps: Sequence[Step]) -> Guard:
    """Run one program after another."""
    guard = Guard("kernel")
    pointer = int(guard.admit("x", torch.empty(PROGRAMS * ELEMENTS)))
    for program in range(PROGRAMS):
        for line, step in enumerate(steps):
            make(guard, pointer, step, line, [program])
    return guard


def in_lockstep(steps: Sequence[Step]) -> Guard:
    guard = Guard("kernel")
    pointer = int(guard.admit("x", torch.empty(PROGRAMS * ELEMENTS)))
    for line, step in enumerate(steps):
        make(guard, pointer, step, line, range(PROGRAMS))
    return guard


def findings(guard: Guard) -> list[GuardFinding]:
    guard.finish()
    return guard.findings


BOTH_WAYS = pytest.mark.parametrize("run", [alone, in_lockstep])
Run = Callable[[Sequence[Step]], Guard]


@BOTH_WAYS
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([store(*FORWARDS), load(*BACKWARDS)], id="other_lanes"),
        pytest.param([store(*FORWARDS), load(*HALF)], id="a_part_in_a_smaller_block"),
        pytest.param([store(*FORWARDS), load(1, 2, 3, -1)], id="the_neighbours_of_a_masked_block"),
        pytest.param([store(*FORWARDS), load(0)], id="a_scalar_of_a_block"),
        pytest.param([store(0), load(*FORWARDS)], id="a_block_around_a_scalar"),
        pytest.param([store(*FORWARDS), load(*range(16), width=1)], id="the_bytes_of_words"),
        pytest.param([store(*FORWARDS), store(*BACKWARDS)], id="two_stores"),
        pytest.param([store(*FORWARDS), atomic(*BACKWARDS)], id="atomics_after_a_store"),
        pytest.param([atomic(*FORWARDS), load(*BACKWARDS)], id="a_load_after_atomics"),
        pytest.param([store(*FORWARDS), atomic(8, heeded=False), load(*BACKWARDS)], id="an_atomic_that_nobody_reads"),
        pytest.param([BARRIER, store(*FORWARDS), load(*BACKWARDS)], id="a_barrier_before_both"),
        pytest.param([store(*FORWARDS), load(*BACKWARDS), BARRIER], id="a_barrier_behind_both"),
        pytest.param([store(*FORWARDS), BARRIER, store(*HALF), load(2, 3, -1)], id="stored_once_more"),
    ],
)
def test_an_exchange_without_a_barrier_is_a_race(run: Run, steps: list[Step]) -> None:
    found = findings(run(steps))
    assert {(one.kind, one.program, one.other_program) for one in found} == {("race", (0,), (0,))}


@BOTH_WAYS
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([store(*FORWARDS), BARRIER, load(*BACKWARDS)], id="a_barrier"),
        pytest.param([store(*FORWARDS), SUM, load(*BACKWARDS)], id="a_sum"),
        pytest.param([store(*FORWARDS), atomic(8), load(*BACKWARDS)], id="an_atomic_whose_result_is_read"),
        pytest.param([store(*FORWARDS), load(*FORWARDS), store(*FORWARDS), atomic(*FORWARDS)], id="the_same_lanes"),
        pytest.param([store(*FORWARDS), load(0, -1, 2, -1)], id="some_of_the_same_lanes"),
        pytest.param([store(-1, 1, -1, 3), load(*FORWARDS)], id="lanes_that_a_mask_left_out"),
        pytest.param([store(0), load(0), store(0, value=9), atomic(0)], id="scalars"),
        pytest.param([store(1, 1, 2, 2, value=7), load(1, 1, 2, 2)], id="lanes_that_share_an_address"),
        pytest.param([load(*FORWARDS), store(*BACKWARDS)], id="loaded_before"),
        pytest.param([store(*FORWARDS), load(4, 5, 6, 7)], id="different_elements"),
        pytest.param([store(*FORWARDS, value=7), store(*BACKWARDS, value=7)], id="equal_values"),
        pytest.param([atomic(*FORWARDS), atomic(*BACKWARDS)], id="atomics"),
    ],
)
def test_a_barrier_or_the_same_thread_makes_it_no_race(run: Run, steps: list[Step]) -> None:
    assert findings(run(steps)) == []


def test_the_barrier_of_another_program_does_not_help() -> None:
    guard = Guard("kernel")
    pointer = int(guard.admit("x", torch.empty(PROGRAMS * ELEMENTS)))
    make(guard, pointer, store(*FORWARDS), 1, [0, 1])
    make(guard, pointer, BARRIER, 2, [1])
    make(guard, pointer, load(*BACKWARDS), 3, [0, 1])
    (found,) = findings(guard)
    assert (found.program, found.other_line, found.line) == ((0,), 1, 3)


def test_what_went_back_is_forgotten_with_its_barriers() -> None:
    guard = Guard("kernel")
    pointer = int(guard.admit("x", torch.empty(PROGRAMS * ELEMENTS)))
    make(guard, pointer, store(*FORWARDS), 1, [0])
    mark = guard.mark()
    make(guard, pointer, BARRIER, 2, [0])
    guard.go_back(mark)
    make(guard, pointer, load(*BACKWARDS), 3, [0])
    assert len(findings(guard)) == 1


@BOTH_WAYS
@pytest.mark.parametrize(("lanes", "count"), [(BACKWARDS, 1), (FORWARDS, 0)])
def test_a_thinned_launch_is_judged_alike(run: Run, lanes: tuple[int, ...], count: int) -> None:
    guard = run([load(8, 9, 10, 11), store(*FORWARDS), load(*lanes)])
    assert guard._thin_out()
    assert len(findings(guard)) == count


def test_the_cause_names_both_lines_and_the_barrier() -> None:
    (found,) = findings(in_lockstep([store(*FORWARDS), load(1, 2, 3, -1)]))
    assert (found.other_line, found.line, found.index, found.lanes) == (0, 1, (1,), 3)
    cause = cause_of([found])
    assert cause is not None
    assert "another thread of this program stores to in line 0" in cause.rationale
    assert "Put tl.debug_barrier() between line 0 and line 1" in str(cause.help)
    assert clues_of([found])[0].kind == "race"
