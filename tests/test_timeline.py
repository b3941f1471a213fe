"""Where the time of a grading went: what is noted, what is told of it, and that the record keeps it."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import deque
from pathlib import Path

import pytest

from grader import timeline
from grader.cli.main import dispatch
from grader.record.record import from_json, to_json
from grader.report.text.timeline import render
from grader.timeline import Stretch, age_s, since, spent
from tests.conftest import ROOT, Grade
from tests.records import samples

pytestmark = pytest.mark.process


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as a list of one number; nothing is noted yet."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(timeline, "_noted", deque(maxlen=timeline._MOST))
    return now


def pass_time(now: list[float], what: str, seconds: float) -> None:
    with spent(what):
        now[0] += seconds


def test_stretches_of_one_name_are_summed_up_and_stand_where_the_first_began(ticking: list[float]) -> None:
    for what, seconds in (("record", 1.0), ("replay", 2.0), ("record", 0.5)):
        pass_time(ticking, what, seconds)
    assert since(100.0) == (Stretch("record", 0.0, 1.5, 2), Stretch("replay", 1.0, 2.0))


def test_a_stretch_within_another_is_told_after_it(ticking: list[float]) -> None:
    with spent("all"):
        pass_time(ticking, "some", 1.0)
        ticking[0] += 2.0
    assert since(100.0) == (Stretch("all", 0.0, 3.0), Stretch("some", 0.0, 1.0))


def test_a_stretch_that_fails_is_noted_all_the_same(ticking: list[float]) -> None:
    def fail() -> None:
        with spent("divide"):
            ticking[0] += 2.0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert since(100.0) == (Stretch("divide", 0.0, 2.0),)


def test_what_was_before_is_told_only_where_it_is_asked_for(ticking: list[float]) -> None:
    pass_time(ticking, "import", 3.0)
    pass_time(ticking, "grade", 1.0)
    assert since(103.0) == (Stretch("grade", 0.0, 1.0),)
    assert since(103.0, before_s=5.0) == (Stretch("import", -3.0, 3.0), Stretch("grade", 0.0, 1.0))


def test_what_another_thread_spent_is_told_apart(ticking: list[float]) -> None:
    pass_time(ticking, "oracle", 1.0)
    thread = threading.Thread(target=pass_time, args=(ticking, "oracle", 2.0))
    thread.start()
    thread.join()
    assert since(100.0) == (Stretch("oracle", 0.0, 1.0), Stretch("oracle", 1.0, 2.0, beside=True))


def test_of_a_process_that_grades_for_days_the_latest_is_kept(
    ticking: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "_noted", deque(maxlen=3))
    for number in range(7):
        pass_time(ticking, str(number), 1.0)
    assert [one.what for one in since(0.0)] == ["4", "5", "6"]
    assert timeline._MOST >= 10_000


def test_the_age_of_this_process_grows() -> None:
    first = age_s()
    assert 0 < first <= age_s()


# -- what is told ----------------------------------------------------------------------------------------------------

STRETCHES = (
    Stretch("import and plan", -1.25, 1.0),
    Stretch("replay", 0.5, 2.25, 17),
    Stretch("oracle", 0.5, 0.125, 3, beside=True),
)


def test_the_table_says_when_how_long_how_often_and_what_ran_beside() -> None:
    record = dataclasses.replace(samples.passing(), timeline=STRETCHES, duration_s=4.0)
    assert render(record, 6.5) == "\n".join(
        [
            "     began     took times  (seconds; + beside the rest)",
            "     -1.25     1.00     1   import and plan",
            "      0.50     2.25    17   replay",
            "      0.50     0.12     3 + oracle",
            "  graded in 4.00 s; 2.50 s before and after; 6.50 s in all",
        ]
    )


def test_a_record_of_another_machine_may_be_longer_than_this_process_is_old() -> None:
    record = dataclasses.replace(samples.passing(), duration_s=4.0)
    assert render(record, 1.0).endswith("graded in 4.00 s; 0.00 s before and after; 1.00 s in all")


def test_a_record_keeps_its_timeline() -> None:
    record = dataclasses.replace(samples.passing(), timeline=STRETCHES)
    assert from_json(to_json(record)) == record
    assert from_json(to_json(record)).timeline == STRETCHES


def test_a_grading_notes_its_steps(graded: Grade, ex_15_solution: str) -> None:
    found = {one.what: one for one in graded(ex_15_solution, "vector_add", cases=1).timeline}
    assert {"load the file", "record", "replay", "oracle"} <= set(found)
    assert all(one.seconds >= 0 and one.count >= 1 for one in found.values())
    assert found["record"].count > 1


@pytest.fixture
def ex_15_solution() -> str:
    return (ROOT / "reference" / "ex_15_triton_basics" / "solution.py").read_text(encoding="utf-8")


@pytest.mark.usefixtures("lent", "tree")
@pytest.mark.parametrize("asked", [True, False])
def test_the_command_prints_it_where_it_is_asked_for(asked: bool, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--part", "vector_add", "--cpu", "--quiet", "--json", "record.json", *(["--timeline"] if asked else [])]
    # The file is still the one that was handed out.
    assert dispatch(["ex_15", *options]) == 3
    said = capsys.readouterr().out
    assert ("(seconds; + beside the rest)" in said) == asked
    assert (" load the file\n" in said) == asked
    # Whoever reads the record later can ask it.
    assert from_json(Path("record.json").read_text(encoding="utf-8")).timeline
