"""Results that are kept: merged part by part, for as long as the part's text stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.progress import Kept, kept_from_json, kept_to_json, merged
from grader.record.record import Record
from grader.record.statuses import Status
from tests.records import samples

TEXT = "def f():\n    return 1\n\n\ndef g():\n    return 2\n"


def record(spec: str = "5" * 64, **statuses: Status) -> Record:
    checks = tuple(samples.check(f"{name}.c", "Check", status, 1.0) for name, status in statuses.items())
    whole = samples.record(checks, ())
    return replace(whole, exercise=replace(whole.exercise, spec_sha256=spec))


def current(kept: Kept, text: str = TEXT) -> dict[str, Status]:
    return {name: checks[0].status for name, checks in kept.current(text, ("f", "g")).items()}


def test_a_later_grading_of_a_part_replaces_its_results_and_no_others() -> None:
    kept = merged(merged(None, record(f="pass", g="fail"), TEXT), record(g="pass"), TEXT)
    assert current(kept) == {"f": "pass", "g": "pass"}
    assert current(merged(kept, record(g="fail"), TEXT)) == {"f": "pass", "g": "fail"}


def test_results_hold_while_the_parts_text_stays() -> None:
    kept = merged(None, record(f="pass", g="pass"), TEXT)
    assert current(kept, TEXT.replace("return 2", "return 3")) == {"f": "pass"}
    assert current(kept, f"# a comment\n{TEXT}") == {"f": "pass", "g": "pass"}


def test_a_text_that_is_not_known_makes_results_that_hold_for_none() -> None:
    kept = merged(None, record(f="pass"), None)
    assert current(kept) == {}
    assert set(kept.parts) == {"f"}


@pytest.mark.parametrize("status", ["skipped_environment", "inconclusive", "grader_error"])
def test_what_cannot_be_judged_today_takes_no_result_of_yesterday_away(status: Status) -> None:
    kept = merged(merged(None, record(f="pass"), TEXT), record(f=status), TEXT)
    assert current(kept) == {"f": "pass"}
    other = TEXT.replace("return 1", "return 7")
    assert current(merged(kept, record(f=status), other), other) == {"f": status}


def test_a_file_that_does_not_load_replaces_no_result() -> None:
    broken = f"{TEXT}\nimport nothing_of_this_name\n"
    kept = merged(merged(None, record(f="pass"), TEXT), record(f="invalid_submission"), broken)
    assert current(kept, broken) == {"f": "invalid_submission"}
    assert current(kept) == {"f": "pass"}


def test_results_by_another_specification_are_dropped() -> None:
    kept = merged(merged(None, record(f="pass"), TEXT), record(spec="6" * 64, g="pass"), TEXT)
    assert current(kept) == {"g": "pass"}


def test_kept_results_survive_a_file() -> None:
    kept = merged(None, samples.failing(), TEXT)
    assert kept_from_json(kept_to_json(kept)) == kept
    with pytest.raises(ValueError, match="kept"):
        kept_from_json("[]")
