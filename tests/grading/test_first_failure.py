"""A grading that asks only whether a check fails ends with the first failing case."""

from __future__ import annotations

import pytest

from grader.exercise.catalogue import Entry
from grader.grading import Job, grade
from grader.sandbox.server import ForkServer
from tests.conftest import plan_with

PLANNED = 4
STORES_ZEROS = """
import torch


def vector_add(x, y):
    return torch.zeros_like(x)
"""
LEAVES_ALL_OUT = "def vector_add(x, y):\n    raise NotImplementedError\n"


@pytest.mark.parametrize(("first_failure", "ran"), [(True, 1), (False, PLANNED)])
def test_a_wrong_value_ends_the_check_where_that_is_asked_for(
    first_failure: bool, ran: int, server: ForkServer, ex_15: Entry
) -> None:
    plan = plan_with(ex_15, "vector_add.tail", cases=PLANNED)
    job = Job(ex_15, "x.py", STORES_ZEROS, plan, "", "", shrink=False, diagnosed=False, first_failure=first_failure)
    (check,) = grade(job, server).checks
    assert check.status == "fail"
    assert (check.metrics["cases"], check.metrics["cases_failed"]) == (ran, ran)


def test_a_case_that_is_left_out_does_not_end_it(server: ForkServer, ex_15: Entry) -> None:
    plan = plan_with(ex_15, "vector_add.tail", cases=PLANNED)
    job = Job(ex_15, "x.py", LEAVES_ALL_OUT, plan, "", "", shrink=False, diagnosed=False, first_failure=True)
    (check,) = grade(job, server).checks
    assert check.status == "not_implemented"
