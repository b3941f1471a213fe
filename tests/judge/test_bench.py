"""Calls on a bench: what is asked for between two of them changes nothing in what comes of the second."""

from __future__ import annotations

from grader.exercise.catalogue import Entry
from grader.exercise.plan import PlannedCase
from grader.judge.rules.fresh import judge_case
from grader.judge.trial import CallRequest
from grader.protocol.messages import Form
from grader.sandbox.outcome import Finished
from grader.sandbox.server import ForkServer
from tests.benches import bench_of

LENGTHS = (100, 300, 500, 700, 900, 1100)


def test_a_call_that_is_made_again_in_between_leaves_later_ones_right_and_their_memory_their_own(
    server: ForkServer, ex_15: Entry
) -> None:
    with bench_of(server, ex_15, ex_15.solution) as bench:
        cases = [bench.part.checks[1].cases.space.case(N=length) for length in LENGTHS]  # type: ignore[union-attr]
        trials = []
        for trial in bench.tries([CallRequest(case, 1) for case in cases]):
            trials.append(trial)
            if len(trials) == 2:
                # As after a wrong answer: all memory is told anew.
                bench.pair.skip()
                assert bench.repeat(trial.recipe).failure is None
        assert [trial.recipe.case["N"] for trial in trials] == [*LENGTHS]
        assert all(trial.failure is None for trial in trials)
        assert [form.alias for trial in trials for form in _forms(trial.outcome)] == [""] * len(LENGTHS)
        # None of them counts as an earlier result of later calls that have memory of their own.
        assert judge_case(bench, PlannedCase(cases[0], 1), more=13) is None


def _forms(outcome: object) -> tuple[Form, ...]:
    assert isinstance(outcome, Finished)
    return outcome.answer.outputs
