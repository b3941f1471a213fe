"""Calls of too many programs for the interpreter: given up, and neither right nor wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.exercise.catalogue import Entry
from grader.exercise.model import Limits
from grader.exercise.plan import default_seed
from grader.interpreter.programs.patience import MANY, MANY_TURNS, Patience, TooSlow
from grader.judge.rules import decide
from grader.sandbox.server import ForkServer
from tests.benches import bench_of
from tests.conftest import plan_of

# One element for each program: 70,000 of them at the far end of a star.
ONE_BY_ONE = """
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr):
    place = tl.program_id(0).to(tl.int64)
    tl.store(z_ptr + place, tl.load(x_ptr + place) + tl.load(y_ptr + place))


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(x.numel(),)](x, y, z)
    return z
"""


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_call_of_many_programs_is_given_up_when_its_time_is_up() -> None:
    clock = Clock()
    patience = Patience(clock)
    patience.begin(7.5)
    for place in range(MANY):
        patience.program((place, 0, 0), (5000, 1, 1))
    clock.now_s += 7.0
    patience.program((MANY, 0, 0), (5000, 1, 1))
    clock.now_s += 1.0
    with pytest.raises(TooSlow, match=r"a grid of 5,000 began after 7\.5 s"):
        patience.program((MANY + 1, 0, 0), (5000, 1, 1))


def test_a_call_of_more_programs_or_turns_than_its_elements_need_is_left_to_the_limit_of_the_call() -> None:
    clock = Clock()
    patience = Patience(clock)
    patience.begin(7.5, elements=1000)
    patience.begin_launch(())
    clock.now_s += 100.0
    for place in range(2 * MANY):
        patience.program((place, 0, 0), (5000, 1, 1))
    for number in range(2 * MANY_TURNS):
        patience.turn(number, 5000)
    # The time is up: a grid that the elements need is given up.
    with pytest.raises(TooSlow, match=r"a grid of 1,000 began after 7\.5 s"):
        patience.program((0, 0, 0), (1000, 1, 1))


def test_a_few_programs_that_take_long_are_left_to_the_limit_of_the_call() -> None:
    clock = Clock()
    patience = Patience(clock)
    patience.begin(7.5)
    for place in range(MANY):
        clock.now_s += 10.0
        patience.program((place, 0, 0), (MANY, 1, 1))
    with pytest.raises(TooSlow, match=r"a grid of 201 began after 7\.5 s"):
        patience.program((MANY, 0, 0), (MANY + 1, 1, 1))


def test_a_call_of_many_turns_of_a_loop_is_given_up_when_its_time_is_up() -> None:
    clock = Clock()
    patience = Patience(clock)
    patience.begin(7.5)
    for number in range(MANY_TURNS):
        patience.turn(number, of=32_768)
    clock.now_s += 8.0
    with pytest.raises(TooSlow, match=r"turn 2,000 of a loop of 32,768 began after 7\.5 s"):
        patience.turn(MANY_TURNS, of=32_768)


def test_of_many_programs_with_short_loops_the_programs_are_named() -> None:
    clock = Clock()
    patience = Patience(clock)
    patience.begin(7.5)
    for place in range(5000):
        patience.program((place, 0, 0), (65_537, 1, 1))
        patience.turn(0, 1)
    clock.now_s += 8.0
    with pytest.raises(
        TooSlow, match=r"so many programs with loops: program 5,000, in a loop of 1, began after 7\.5 s"
    ):
        patience.turn(0, 1)


@pytest.mark.parametrize(("turns", "of"), [(MANY_TURNS, 32_768), (2 * MANY_TURNS, 1 << 30)])
def test_a_few_slow_turns_and_loops_without_end_are_left_to_the_limit_of_the_call(turns: int, of: int) -> None:
    clock = Clock()
    patience = Patience(clock)
    patience.begin(7.5)
    for number in range(turns):
        clock.now_s += 10.0
        patience.turn(number, of)
    # One more turn, of a loop that ends, is too many.
    with pytest.raises(TooSlow, match=rf"turn {turns:,} of a loop of 32,768 began after 7\.5 s"):
        patience.turn(turns, 32_768)


def test_every_call_has_the_whole_time() -> None:
    clock = Clock()
    patience = Patience(clock)
    for _ in range(3):
        patience.begin(5.0)
        clock.now_s += 4.0
        for place in range(2 * MANY):
            patience.program((place, 0, 0), (5000, 1, 1))
    clock.now_s += 2.0
    with pytest.raises(TooSlow, match="a grid of 5,000 began after 5 s"):
        patience.program((2 * MANY, 0, 0), (5000, 1, 1))


def test_a_launch_in_which_nearly_all_programs_write_nothing_is_given_up_early() -> None:
    clock = Clock()
    patience = Patience(clock)
    patience.begin(7.5)
    patience.begin_launch({0, 1})
    for place in range(1000):
        patience.program((place, 0, 0), (16384, 1, 1))
    clock.now_s += 2.0
    with pytest.raises(TooSlow, match="998 of the first 1,000 in a grid of 16,384 write nothing; where they lie"):
        patience.program((1000, 0, 0), (16384, 1, 1))


def test_a_launch_of_programs_that_write_has_the_time_of_the_call() -> None:
    clock = Clock()
    patience = Patience(clock)
    patience.begin(7.5)
    patience.begin_launch(range(100))
    clock.now_s += 5.0
    for place in range(1000):
        patience.program((place, 0, 0), (1001, 1, 1))
    clock.now_s += 3.0
    with pytest.raises(TooSlow, match=r"a grid of 1,001 began after 7\.5 s"):
        patience.program((1000, 0, 0), (1001, 1, 1))


def test_a_launch_in_which_one_split_of_32_writes_has_the_time_of_the_call() -> None:
    clock = Clock()
    patience = Patience(clock)
    patience.begin(7.5)
    writers = dict.fromkeys([0])
    patience.begin_launch(writers)
    clock.now_s += 5.0
    for place in range(64 * 32):
        writers |= dict.fromkeys([place // 32])
        patience.program((place // 32, 0, place % 32), (64, 1, 32))
    clock.now_s += 3.0
    with pytest.raises(TooSlow, match=r"a grid of 2,048 began after 7\.5 s"):
        patience.program((63, 0, 31), (64, 1, 32))


def test_an_earlier_launch_of_the_call_does_not_shorten_the_time_for_idle_programs() -> None:
    clock = Clock()
    patience = Patience(clock)
    patience.begin(7.5)
    patience.begin_launch(())
    clock.now_s += 5.0
    patience.begin_launch(())
    for place in range(1000):
        patience.program((place, 0, 0), (1001, 1, 1))
    clock.now_s += 2.0
    with pytest.raises(TooSlow, match="1,000 of the first 1,000 in a grid of 1,001 write nothing"):
        patience.program((1000, 0, 0), (1001, 1, 1))


def test_cases_with_too_many_programs_are_left_out_and_the_others_judged(server: ForkServer, ex_15: Entry) -> None:
    plan = plan_of(ex_15, default_seed(ex_15.id), gpu=False, parts=frozenset({"vector_add"}))
    whole = next(one for one in plan.checks if one.id == "vector_add.combinations")
    *_, longest = by_length = sorted(whole.cases, key=lambda one: int(one.case["N"]))
    planned = replace(whole, cases=(longest, *by_length[:2]))
    with bench_of(server, ex_15, ONE_BY_ONE, limits=Limits(call_s=4.0)) as bench:
        ruling = decide(bench, planned)
    assert (ruling.failure, ruling.unfit) == (None, "")
    assert (ruling.metrics["cases"], ruling.metrics["cases_left_out"]) == (2, 1)
    assert ruling.notes[0].startswith(f"not judged here: {longest.case.words()} (a GPU has to run so many programs")


def test_a_check_whose_every_case_has_too_many_programs_is_not_judged(server: ForkServer, ex_15: Entry) -> None:
    plan = plan_of(ex_15, default_seed(ex_15.id), gpu=False, parts=frozenset({"vector_add"}))
    whole = next(one for one in plan.checks if one.id == "vector_add.combinations")
    longest = max(whole.cases, key=lambda one: int(one.case["N"]))
    with bench_of(server, ex_15, ONE_BY_ONE, limits=Limits(call_s=4.0)) as bench:
        ruling = decide(bench, replace(whole, cases=(longest,)))
    assert ruling.failure is None
    assert ruling.unfit.startswith("a GPU has to run this: so many programs")


OWN_EXCEPTION = """
class TooSlow(Exception):
    pass


def vector_add(x, y):
    raise TooSlow("programs of mine")
"""


@pytest.mark.parametrize("name", ["TooSlow", "NeedsGpu"])
def test_an_exception_of_a_submission_s_own_needs_no_gpu(server: ForkServer, ex_15: Entry, name: str) -> None:
    plan = plan_of(ex_15, default_seed(ex_15.id), gpu=False, parts=frozenset({"vector_add"}))
    with bench_of(server, ex_15, OWN_EXCEPTION.replace("TooSlow", name)) as bench:
        ruling = decide(bench, plan.checks[0])
    assert ruling.failure is not None
    assert ruling.failure.status == "crash"
