"""Results are held to the contract's form: a tensor where one is asked for, a tuple where several are."""

from __future__ import annotations

import pytest
import torch

from grader.calls.outputs import form_of, items_of
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.judge.answer_check import check_answer
from grader.judge.failure import Failure
from grader.judge.truth import Expected
from grader.protocol.answers import Form, Returned
from grader.sandbox.outcome import Finished
from grader.sandbox.server import ForkServer
from tests.benches import bench_of
from tests.recordings import CASE, HEAD

ONE = torch.ones(3)
ALLOWED = torch.zeros(3).double()


def failure_of(result: object, *names: str) -> Failure | None:
    """Return what is wrong with the form of a result, where tensors of these names are expected."""
    forms = tuple(form_of(one) for one in items_of(result))
    answer = Returned("returned", forms, (), (), ())
    raw = bytes(ONE.numpy().tobytes())
    expected = [Expected(name, ONE.double(), torch.float32, ALLOWED) for name in names]
    return check_answer(Finished(answer, tuple(raw for _ in forms)), expected, lambda: (), "x.py")[0]


@pytest.mark.parametrize(
    ("result", "got"),
    [
        ((ONE,), "a tuple of 1 (Tensor)"),
        ([ONE], "a list of 1 (Tensor)"),
        (([ONE, ONE, ONE],), "a tuple of 1 (list)"),
    ],
)
def test_a_tensor_in_a_tuple_or_a_list_is_no_tensor(result: object, got: str) -> None:
    failure = failure_of(result, "z")
    assert failure is not None
    assert failure.cause.rationale == f"The type of z must be torch.Tensor, got {got}."
    assert failure.cause.help == "Return the tensor itself: `z`, without brackets or a comma after it."


@pytest.mark.parametrize(
    ("result", "got"),
    [
        (ONE, "1 (one tensor)"),
        ((ONE,), "1 (a tuple of 1 (Tensor))"),
        ({"o": ONE, "lse": ONE}, "1 (dict)"),
        ((ONE, ONE, ONE), "3"),
    ],
)
def test_a_pair_of_tensors_is_a_tuple_of_two(result: object, got: str) -> None:
    failure = failure_of(result, "o", "lse")
    assert failure is not None
    assert failure.cause.rationale == f"Number of outputs must be 2 (o, lse), got {got}."
    assert failure.cause.help == "Return a tuple of 2 tensors, in this order."


@pytest.mark.parametrize("result", [(ONE, ONE), [ONE, ONE]])
def test_tensors_come_in_a_tuple_or_a_list_of_their_number(result: object) -> None:
    assert failure_of(result, "o", "lse") is None
    assert failure_of(ONE, "z") is None


def test_a_pair_in_a_tuple_of_its_own_is_told_with_what_it_holds() -> None:
    assert form_of((ONE, [], 3)) == Form("a tuple of 3 (Tensor, list, …)")


def test_a_call_that_returns_a_tuple_of_one_tensor_fails(server: ForkServer, ex_15: Entry) -> None:
    with bench_of(server, ex_15, f"{HEAD}\ndef vector_add(x, y):\n    return (added(x, y),)\n") as bench:
        failure = bench.try_case(Case(CASE), 3).failure
    assert failure is not None
    assert failure.cause.kind == "wrong_type"
