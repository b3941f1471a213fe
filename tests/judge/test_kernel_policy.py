"""A call without kernels is told apart from a call whose grid has no programs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.exercise.cases import Case
from grader.judge.evidence import Evidence
from grader.judge.failure import Failure
from grader.judge.kernel_policy import by_evidence
from grader.protocol.trace import TraceNote


def failure_of(*calls: tuple[int, tuple[str, ...], tuple[str, ...]]) -> Failure:
    """The failure of calls, each with a size, its kernels, and the operators beside them."""
    evidence = [Evidence(Case({"N": size}), kernels, frozenset(), operators) for size, kernels, operators in calls]
    failure = by_evidence(evidence, ("aten.empty",))
    assert failure is not None
    assert (failure.status, failure.cause.kind) == ("policy", "no_kernel")
    return failure


def test_a_size_that_gets_no_program_is_told_of_the_grid() -> None:
    failure = failure_of((4096, ("add_kernel",), ()), (1, (), ("aten.empty (line 4)",)))
    assert failure.cause.title == "No program runs for some sizes"
    assert failure.cause.rationale.startswith("For N=1 no kernel was launched and nothing was computed")
    assert "triton.cdiv(n, BLOCK) rounds up" in failure.cause.help
    assert [clue.kind for clue in failure.clues] == ["remainder_skipped"]


def test_a_size_that_is_computed_once_and_then_remembered_is_not_told_of_the_grid() -> None:
    failure = failure_of((4096, ("add_kernel",), ()), (7, ("add_kernel",), ()), (7, (), ()))
    assert failure.cause.title == "No kernel was launched"
    assert [clue.kind for clue in failure.clues] == ["remembered_result"]


@pytest.mark.parametrize("others", [(), ((4096, ("add_kernel",), ()),)], ids=["never", "for_large_ones"])
def test_a_size_that_torch_computes_is_told_of_work_outside_kernels(
    others: tuple[tuple[int, tuple[str, ...], tuple[str, ...]], ...],
) -> None:
    failure = failure_of(*others, (1, (), ("aten.add (line 4)",)))
    assert (failure.cause.title, failure.clues) == ("No kernel was launched", ())


def test_a_value_read_beside_kernels_without_memory_of_the_call_is_not_what_comes_first() -> None:
    reading = ("aten._local_scalar_dense (line 4)",)
    read = TraceNote("aten._local_scalar_dense", 4, ("lengths",))
    seen = Evidence(Case({"N": 7}), ("decoy_kernel",), frozenset(), reading, reads=(read,))
    named = [by_evidence([one], ()) for one in (seen, replace(seen, idle=True))]
    assert [failure.cause.kind for failure in named if failure] == ["value_read", "outside_kernels"]
    assert named[1] is not None
    assert "decoy_kernel got no argument, no result, and no copy of one" in named[1].cause.rationale


@pytest.mark.parametrize(
    ("unrecordable", "kinds"), [((), ["outside_kernels"]), (("open",), [])], ids=["told", "unrecordable"]
)
def test_a_kernel_for_show_does_no_work_whatever_else_is_allowed(
    unrecordable: tuple[str, ...], kinds: list[str]
) -> None:
    copying = ("aten.empty (line 3)",)
    shown = Evidence(Case({"N": 7}), ("show_kernel",), frozenset(), copying, unrecordable=unrecordable, idle=True)
    failure = by_evidence([shown], ("aten.empty",))
    assert [one.cause.kind for one in (failure,) if one] == kinds


def test_of_many_operators_a_failure_names_the_first_and_counts_the_others() -> None:
    operators = tuple(f"aten.add (line {line})" for line in range(1, 8))
    failure = by_evidence([Evidence(Case({"N": 7}), ("add_kernel",), frozenset(), operators)], ())
    assert failure is not None
    assert failure.cause.rationale.endswith("aten.add (line 5) and 2 more.")
