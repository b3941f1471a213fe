"""Test that failed checks are graded first, and that the record does not show it."""

from __future__ import annotations

from dataclasses import replace

from grader.exercise.catalogue import Entry
from grader.exercise.plan import default_seed
from grader.watch.order import first, in_order
from tests.conftest import plan_of
from tests.records import samples


def test_the_part_and_the_checks_that_failed_come_first_and_nothing_is_lost(ex_15: Entry) -> None:
    plan = plan_of(ex_15, default_seed(ex_15.id), gpu=False)
    ordered = first(plan, {"row_softmax.values", "row_softmax.fresh", "global_sum.tail"})
    names = [check.id for check in ordered.checks]
    assert names[:2] == ["row_softmax.values", "row_softmax.fresh"]
    parts = list(dict.fromkeys(check.part.name for check in ordered.checks))
    assert parts == ["row_softmax", "global_sum", "vector_add", "fused_multiply_add"]
    assert sorted(names) == sorted(check.id for check in plan.checks)
    # Parts stay together: each has a process of its own.
    changes = sum(a.part != b.part for a, b in zip(ordered.checks, ordered.checks[1:], strict=False))
    assert changes == len(parts) - 1


def test_without_failures_the_plan_stays_as_it_is(ex_15: Entry) -> None:
    plan = plan_of(ex_15, default_seed(ex_15.id), gpu=False)
    assert first(plan, ()) == plan


def test_the_record_is_in_the_exercise_s_order_again(ex_15: Entry) -> None:
    plan = plan_of(ex_15, default_seed(ex_15.id), gpu=False)
    ordered = first(plan, {"global_sum.tail"})
    parts = tuple(dict.fromkeys(check.part.name for check in ordered.checks))
    whole = samples.record(tuple(samples.check(check.id, check.id) for check in ordered.checks), ())
    found = in_order(replace(whole, parts=tuple(samples.PartInfo(name, name) for name in parts)), ex_15.exercise)
    assert [check.id for check in found.checks] == [check.id for check in plan.checks]
    assert [part.name for part in found.parts] == [part.name for part in ex_15.exercise.parts]
