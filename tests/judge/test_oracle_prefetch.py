"""Truth in advance: computed once, on another thread, and given up when the judging goes on to other cases."""

from __future__ import annotations

import threading

import pytest

from grader.errors import GradeError
from grader.exercise.catalogue import Entry
from grader.exercise.model import Part
from grader.exercise.plan import PlannedCase
from grader.judge.oracle_prefetch import OraclePrefetch
from grader.judge.truth import Expected, Truth
from grader.protocol.requests import Recipe
from tests.conftest import plan_of

pytestmark = pytest.mark.process


class Watched(Truth):
    """Tells what was computed, and computes nothing while its gate is closed; seed 0 is beyond it."""

    def __init__(self, entry: Entry, keep: int = 64) -> None:
        super().__init__(entry.source("inputs.py"), entry.source("oracle.py"), keep=keep)
        self.computed: list[int] = []
        self.begun, self.third = threading.Event(), threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def _compute(self, part: Part, recipe: Recipe) -> tuple[Expected, ...]:
        self.computed.append(recipe.seed)
        self.begun.set()
        if len(self.computed) == 3:
            self.third.set()
        assert self.gate.wait(60)
        if recipe.seed == 0:
            raise GradeError("no truth")
        return super()._compute(part, recipe)


@pytest.fixture
def truth(ex_15: Entry) -> Watched:
    return Watched(ex_15)


@pytest.fixture
def part(ex_15: Entry) -> Part:
    return ex_15.exercise.parts[0]


@pytest.fixture
def one(ex_15: Entry) -> PlannedCase:
    return plan_of(ex_15, 7, gpu=False).checks[0].cases[0]


def begun(prefetch: OraclePrefetch, truth: Watched, cases: list[tuple[Part, Recipe]]) -> None:
    """Announce the cases, and return when the first of them is being computed: it waits at the gate."""
    truth.gate.clear()
    prefetch.turn_to(cases)
    assert truth.begun.wait(60)


def recipe(part: Part, one: PlannedCase, seed: int) -> Recipe:
    return Recipe(part.name, dict(one.case), seed)


def numbered(part: Part, one: PlannedCase, *seeds: int) -> list[tuple[Part, Recipe]]:
    return [(part, recipe(part, one, seed)) for seed in seeds]


def test_what_is_announced_is_computed_in_order_and_not_again(truth: Watched, part: Part, one: PlannedCase) -> None:
    with OraclePrefetch(truth) as prefetch:
        prefetch.turn_to(numbered(part, one, 3, 1, 2))
        assert truth.third.wait(60)
        found = [truth.expect(part, recipe(part, one, seed)) for seed in (2, 3)]
    assert truth.computed == [3, 1, 2]
    assert truth.expect(part, recipe(part, one, 3)) is found[1]


def test_whoever_asks_for_what_is_being_computed_waits_for_it(truth: Watched, part: Part, one: PlannedCase) -> None:
    with OraclePrefetch(truth) as prefetch:
        begun(prefetch, truth, numbered(part, one, 5))
        threading.Timer(0.05, truth.gate.set).start()
        assert truth.expect(part, recipe(part, one, 5))
    assert truth.computed == [5]


def test_what_is_no_longer_wanted_is_given_up(truth: Watched, part: Part, one: PlannedCase) -> None:
    with OraclePrefetch(truth) as prefetch:
        begun(prefetch, truth, numbered(part, one, 1, 2, 3))
        prefetch.turn_to(numbered(part, one, 4))
        truth.gate.set()
        truth.expect(part, recipe(part, one, 4))
    assert truth.computed == [1, 4]


def test_an_error_is_told_where_the_case_is_judged_and_tried_again_there(
    truth: Watched, part: Part, one: PlannedCase
) -> None:
    with OraclePrefetch(truth) as prefetch:
        prefetch.turn_to(numbered(part, one, 0, 1))
        truth.expect(part, recipe(part, one, 1))
        with pytest.raises(GradeError, match="no truth"):
            truth.expect(part, recipe(part, one, 0))
    assert truth.computed == [0, 1, 0]


def test_whoever_waited_for_what_failed_tries_it_again(truth: Watched, part: Part, one: PlannedCase) -> None:
    with OraclePrefetch(truth) as prefetch:
        begun(prefetch, truth, numbered(part, one, 0))
        threading.Timer(0.05, truth.gate.set).start()
        with pytest.raises(GradeError, match="no truth"):
            truth.expect(part, recipe(part, one, 0))
    assert truth.computed == [0, 0]


def test_what_was_known_longest_is_forgotten_first(ex_15: Entry, part: Part, one: PlannedCase) -> None:
    truth = Watched(ex_15, keep=2)
    for seed in (1, 2, 3, 2, 3, 1):
        truth.expect(part, recipe(part, one, seed))
    assert truth.computed == [1, 2, 3, 1]


def test_an_interruption_waits_for_nothing(truth: Watched, part: Part, one: PlannedCase) -> None:
    prefetch = OraclePrefetch(truth)
    begun(prefetch, truth, numbered(part, one, 1, 2))
    prefetch.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    truth.gate.set()
    assert truth.computed == [1]
