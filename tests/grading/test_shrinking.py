"""Shrinking: the smallest case that still fails, its passing neighbours, and an end to the search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from grader.exercise.cases import Case, Choice, Size, Space
from grader.exercise.catalogue import Entry
from grader.exercise.plan import PlannedCase, PlannedCheck
from grader.grading import Job
from grader.grading.shrinking import Shrinking
from grader.grading.smallest import Smallest, smallest
from grader.judge.bench import Bench
from grader.judge.failure import Failure
from grader.judge.rules import failure_of
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of
from tests.conftest import plan_with

SPACE = Space(
    {
        "M": Size(1, 63),
        "N": Size(1, 5000),
        "dtype": Choice(("float32", "float16", "bfloat16")),
        "values": Choice(("normal", "large", "tiny")),
    }
)
HARDEST = SPACE.case(M=63, N=5000, dtype="bfloat16", values="tiny")

Fails = Callable[[Case], bool]


def never() -> bool:
    """Say that there is time left: the number of trials ends every search here."""
    return False


def shrunk(fails: Fails, first: Case = HARDEST, space: Space = SPACE, is_spent: Callable[[], bool] = never) -> Smallest:
    return smallest(space, first, "failed", lambda case: "failed" if fails(case) else "", is_spent)


def test_a_failure_that_never_comes_again_keeps_the_first_case() -> None:
    found = shrunk(lambda case: False)
    assert found.case == HARDEST


def test_a_budget_that_is_spent_keeps_the_first_case_and_runs_nothing() -> None:
    assert shrunk(lambda case: pytest.fail("ran a case"), is_spent=lambda: True) == Smallest(HARDEST, "", 0)


@pytest.mark.parametrize("fails", [lambda case: True, lambda case: False, lambda case: case["N"] % 7 == 5])
def test_the_search_ends_after_a_limited_number_of_trials(fails: Fails) -> None:
    ran: list[Case] = []

    def counted(case: Case) -> bool:
        ran.append(case)
        return fails(case)

    found = shrunk(counted)
    assert found.tried == len(ran) == len(set(ran))
    assert len(ran) <= 150


def test_a_failure_that_comes_and_goes_ends_with_a_case_that_failed() -> None:
    failed = {HARDEST}

    def fickle(case: Case) -> bool:
        if hash(case["N"]) % 3 == 0:
            failed.add(case)
            return True
        return False

    assert shrunk(fickle).case in failed


def test_a_mask_that_is_wrong_beyond_a_block_fails_first_at_65() -> None:
    found = shrunk(lambda case: case["N"] > 64)
    assert found.case.words() == "M=1, N=65, dtype=float32, values=normal"
    assert found.passes == "N=64"


def test_a_neighbour_that_fails_in_another_way_is_not_said_to_pass() -> None:
    def status_of(case: Case) -> str:
        return "failed" if case["N"] > 64 else "crashed"

    found = smallest(SPACE, HARDEST, "failed", status_of, never)
    assert (found.case["N"], found.passes) == (65, "")


@pytest.mark.parametrize("least", [2, 7, 64, 500, 1000, 4097, 4999])
def test_the_least_size_is_found_exactly(least: int) -> None:
    found = shrunk(lambda case: case["N"] >= least)
    assert found.case == SPACE.case(N=least)
    assert found.passes == f"N={least - 1}"


@pytest.mark.parametrize(("dtype", "simpler"), [("float16", "float32"), ("bfloat16", "float16")])
def test_the_dtype_that_a_failure_needs_stays(dtype: str, simpler: str) -> None:
    found = shrunk(lambda case: case["dtype"] == dtype, SPACE.case(M=63, N=5000, dtype=dtype))
    assert found.case == SPACE.case(dtype=dtype)
    assert found.passes == f"dtype={simpler}"


def test_every_condition_of_a_failure_is_kept_and_the_rest_is_simplified() -> None:
    found = shrunk(lambda case: case["M"] > 6 and case["N"] > 64 and case["dtype"] != "float32")
    assert found.case.words() == "M=7, N=65, dtype=float16, values=normal"
    assert found.passes == "M=6 and for N=64"


def test_a_failure_of_every_case_shrinks_to_the_simplest_one() -> None:
    found = shrunk(lambda case: True)
    assert found.case == SPACE.case()
    assert found.passes == ""


def test_shrinking_stays_inside_the_contract() -> None:
    space = Space({"M": Size(1, 63), "N": Size(1, 63)}, where=lambda case: case["N"] > case["M"])

    def fails(case: Case) -> bool:
        assert space.allows(case)
        return int(case["M"]) >= 7

    found = shrunk(fails, space.case(M=61, N=63), space)
    assert found.case.words() == "M=7, N=8"
    # N=7 would break the contract, so it is no neighbour that passes.
    assert found.passes == "M=6"


def test_sizes_shrink_in_their_steps() -> None:
    space = Space({"N": Size(16, 1024, multiple_of=16)})
    found = shrunk(lambda case: int(case["N"]) > 100, space.case(N=1024), space)
    assert found.case.words() == "N=112"
    assert found.passes == "N=96"


def test_no_axis_becomes_harder_than_it_was() -> None:
    first = SPACE.case(M=7, N=63, dtype="float16")

    def fails(case: Case) -> bool:
        assert SPACE.up_to(first).case(**case) == case
        return int(case["N"]) > 17

    assert shrunk(fails, first).case == SPACE.case(N=18)


def test_the_same_failure_shrinks_to_the_same_case_every_time() -> None:
    def fails(case: Case) -> bool:
        return case["N"] % 64 == 1 and case["N"] != 1

    first = SPACE.case(N=4993)
    assert shrunk(fails, first) == shrunk(fails, first)


WRONG = VECTOR_ADD.replace("x + y,", "x * x + 3 * y * y,")


@pytest.mark.parametrize(("interpreted", "searched_there"), [(WRONG, True), (VECTOR_ADD, False)])
def test_on_a_gpu_a_case_that_fails_alike_in_the_interpreter_is_shrunk_there(
    interpreted: str, searched_there: bool, server: ForkServer, ex_15: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two benches in the interpreter stand for the two devices.
    plan = plan_with(ex_15, "vector_add.tail")
    (planned,) = plan.checks
    one = PlannedCase(planned.cases[0].case.changed(N=997), 5)
    in_interpreter: list[bool] = []

    def counted(bench: Bench, planned: PlannedCheck, one: PlannedCase) -> Failure | None:
        in_interpreter.append(bench.pair is other.pair)
        return failure_of(bench, planned, one)

    with bench_of(server, ex_15, WRONG) as alone, bench_of(server, ex_15, interpreted) as other:
        bench = replace(alone, interpreter=other.pair)
        failure = failure_of(bench, planned, one)
        assert failure is not None
        monkeypatch.setattr("grader.grading.shrinking.failure_of", counted)
        least = Shrinking(Job(ex_15, "x.py", WRONG, plan, "", "")).least(bench, planned, failure, one)
    assert least is not None
    assert least.shown.case["N"] == 1
    # The case that failed comes first, and the smallest is made on the GPU last.
    assert in_interpreter[0]
    assert not in_interpreter[-1]
    assert in_interpreter[1:-1]
    assert set(in_interpreter[1:-1]) == {searched_there}


# Every sum is rounded, and the second block's are wrong altogether.
TWICE_WRONG = VECTOR_ADD.replace("x + y,", "(x + y).to(tl.float16) + 3.0 * (offsets >= 64),")


@pytest.mark.parametrize(("first", "least"), [(997, 65), (50, 1)])
def test_a_large_error_is_not_shrunk_to_a_case_that_is_only_rounded(
    first: int, least: int, server: ForkServer, ex_15: Entry
) -> None:
    plan = plan_with(ex_15, "vector_add.tail")
    (planned,) = plan.checks
    one = PlannedCase(planned.cases[0].case.changed(N=first, dtype="float32"), 5)
    with bench_of(server, ex_15, TWICE_WRONG) as bench:
        failure = failure_of(bench, planned, one)
        assert failure is not None
        found = Shrinking(Job(ex_15, "x.py", TWICE_WRONG, plan, "", "")).least(bench, planned, failure, one)
    assert found is not None
    assert found.shown.case["N"] == least
