"""Where the first failing case says nothing, the smallest one is asked. A fault in the search costs nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.diagnosis.diagnosis import Diagnosis
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.exercise.plan import PlannedCase
from grader.grading.results import failed_result
from grader.judge.clue import Clue
from grader.judge.failure import Failure
from grader.judge.rules import decide, failure_of
from grader.judge.truth import Truth
from grader.record.causes import Cause
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of
from tests.conftest import plan_with

# Long vectors get values of no known mistake, and short ones lack their last element.
TEXT = VECTOR_ADD.replace("x + y,", "tl.where(n > 600, x * x + 3 * y * y, x + y),").replace(
    "mask = offsets < n", "mask = offsets < n - 1"
)
LONG, SHORT = (
    PlannedCase(Case({"N": size, "dtype": "float32", "values": "normal", "offset": 0}), 5) for size in (900, 70)
)


def test_the_smallest_case_explains_what_the_first_one_does_not(server: ForkServer, ex_15: Entry) -> None:
    (planned,) = plan_with(ex_15, "vector_add.tail").checks
    planned = replace(planned, cases=(LONG,))
    with bench_of(server, ex_15, TEXT) as bench:
        diagnosis = Diagnosis(ex_15.exercise, bench.truth, "")
        failure = diagnosis.look_closer(bench, planned, decide(bench, planned), 60.0)
        assert failure is not None
        result = failed_result(planned, failure)

        def kinds() -> list[str]:
            cause = diagnosis.explained(planned, result).cause
            return [one.kind for one in cause.suspects] if cause else []

        before = kinds()
        smallest = failure_of(bench, planned, SHORT)
        assert smallest is not None
        diagnosis.look_at_smallest(bench, planned, smallest)
        assert (before, kinds()[:1]) == ([], ["last_left_out"])
        known = kinds()
        diagnosis.look_at_smallest(bench, planned, failure)
        assert kinds() == known


def test_the_smallest_case_names_a_mistake_where_the_first_one_has_guesses(server: ForkServer, ex_15: Entry) -> None:
    (planned,) = plan_with(ex_15, "vector_add.tail").checks
    text = VECTOR_ADD.replace("x + y,", "tl.where(n > 600, x * x + 3 * y * y, x - y),")
    guess = Clue("wrong_address", 0.4, "The first case looks so.")
    with bench_of(server, ex_15, text) as bench:
        diagnosis = Diagnosis(ex_15.exercise, bench.truth, "")
        smallest = failure_of(bench, planned, SHORT)
        assert smallest is not None
        diagnosis.hear(planned, replace(smallest, clues=(guess,), wrong_call=None))
        diagnosis.look_at_smallest(bench, planned, smallest)
        cause = diagnosis.explained(planned, failed_result(planned, smallest)).cause
    assert cause is not None
    first = cause.suspects[0]
    said = "In the smallest failing case, the values are those of this mistake."
    assert (first.kind, first.evidence, first.confirmed) == ("operand_mixed_up", said, False)


def test_a_fault_in_the_search_for_causes_is_told_and_changes_no_verdict(
    server: ForkServer, ex_15: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise IndexError

    monkeypatch.setattr("grader.diagnosis.diagnosis.gathered", broken)
    (planned,) = plan_with(ex_15, "vector_add.tail").checks
    planned = replace(planned, cases=(SHORT,))
    with bench_of(server, ex_15, TEXT) as bench:
        diagnosis, ruling = Diagnosis(ex_15.exercise, bench.truth, ""), decide(bench, planned)
        assert ruling.failure is not None
        failure = diagnosis.look_closer(bench, planned, ruling, 0.1)
    assert failure is not None
    assert failure.cause.rationale == ruling.failure.cause.rationale
    result = diagnosis.explained(planned, failed_result(planned, failure))
    assert result.status == "fail"
    (note,) = result.notes
    assert "ended early (IndexError in test_smallest.py, line " in note


def test_a_card_without_a_word_of_help_points_to_the_check_that_has_a_cause(ex_15: Entry) -> None:
    planned = {one.check.name: one for one in plan_with(ex_15, "vector_add.tail", "vector_add.values").checks}
    diagnosis = Diagnosis(ex_15.exercise, Truth("", ""), "")
    result = failed_result(planned["values"], Failure("fail", Cause("mismatch", "Wrong values", "z is wrong.", "")))

    def help_text() -> str:
        cause = diagnosis.explained(planned["values"], result).cause
        return cause.help if cause else ""

    assert help_text() == ""
    likely = Failure("fail", Cause("mismatch", "Wrong values", "z is wrong.", ""), (Clue("last_left_out", 0.9),))
    diagnosis.hear(planned["tail"], likely)
    title = planned["tail"].check.title
    assert help_text() == f"“{title}” fails too, and its card names a cause: mend that one first."
