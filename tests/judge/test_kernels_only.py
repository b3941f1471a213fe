"""A call without kernels is told apart from a call whose grid has no programs."""

from __future__ import annotations

import pytest

from grader.exercise.cases import Case
from grader.judge.evidence import Evidence
from grader.judge.failures import Failure
from grader.judge.rules.kernels_only import by_evidence


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
