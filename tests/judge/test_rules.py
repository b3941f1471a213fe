"""Every rule has a home in the judge, or is timed; and the facts that rules state about themselves."""

from __future__ import annotations

import pytest

from grader.exercise.cases import Cases, Size, Space
from grader.exercise.rules import Agrees, Compiles, Fresh, Rule, RunsCases, SpeedBand, UsesKernels, WorkModel
from grader.judge import rules

ONE = Cases(Space({"N": Size(1, 8)}), named=({"N": 3},), generated=0)
OTHER = Cases(Space({"N": Size(1, 8)}), named=({"N": 5},), generated=0)


def kinds_of(rule: type[Rule]) -> set[type[Rule]]:
    """The classes below a class that have none below them."""
    below = rule.__subclasses__()
    return set().union(*map(kinds_of, below)) if below else {rule}


def test_every_rule_has_a_module_or_is_timed() -> None:
    assert kinds_of(RunsCases) <= set(rules._DECIDE)
    assert set(rules._DECIDE) | set(rules._DECIDE_COMPILED) | {SpeedBand} == kinds_of(Rule)


@pytest.mark.parametrize(
    ("rule", "facts"),
    [
        (Agrees(ONE), {"judges_values", "gates_speed", "is_shrunk"}),
        (Agrees(ONE, every_configuration=True), {"judges_values", "gates_speed", "is_shrunk", "needs_interpreter"}),
        (Fresh(ONE), {"gates_speed"}),
        (UsesKernels(ONE), {"demands_kernels", "gates_speed", "order"}),
        (Compiles((90,)), {"targets"}),
        (SpeedBand("torch_eager", 0.5, 1.0, ONE, "N"), {"is_timed", "band"}),
    ],
    ids=["agrees", "every_configuration", "fresh", "uses_kernels", "compiles", "speed"],
)
def test_a_rule_states_its_facts(rule: Rule, facts: set[str]) -> None:
    asked = {"order", "judges_values", "demands_kernels", "counts_bytes", "gates_speed", "is_shrunk"}
    asked |= {"band", "is_timed", "needs_interpreter", "targets", "carried", "allowed_operators"}
    assert {name for name in asked if getattr(rule, name)} == facts


def test_a_rule_is_moved_to_other_cases() -> None:
    band = SpeedBand("torch_eager", 0.5, 1.0, ONE, "N")
    assert UsesKernels(ONE, ("aten.sum",)).with_sizes(OTHER) == UsesKernels(OTHER, ("aten.sum",))
    assert band.with_sizes(OTHER).sizes == OTHER
    assert (band.own_cases, Fresh(ONE).own_cases) == (None, ONE)
    assert Compiles((90,)).with_sizes(OTHER) == Compiles((90,))


def test_operators_that_a_part_permits_are_those_of_its_rules() -> None:
    assert UsesKernels(ONE, ("aten.sum",)).allowed_operators == ("aten.sum",)
    assert Agrees(ONE).allowed_operators == ()
    assert WorkModel.counts_bytes
