"""Test the loop's state machine: the next state and the actions after a save, a result or a key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.progress import Progress
from grader.record.causes import Counterexample
from grader.record.record import Record
from grader.watch.state import (
    Begun,
    Broke,
    Cancel,
    CheckDecided,
    Do,
    Event,
    Grade,
    GradeAll,
    Graded,
    Polls,
    Pressed,
    ReplayCase,
    Saved,
    State,
    StatusLine,
    TextShown,
    Unreadable,
    WatchedExercise,
    keys,
    shown_hints,
    step,
)
from tests.records import samples

SUBJECT = WatchedExercise("ex_1", "Title", "/learner/ex_1.py", {"p": ("vague", "clearer", "plain")}, ("ex_1", "ex_2"))
TOKEN = "ex_1:p.tail:N=1:0x5f"
PASSED = samples.check("p.full", "Full", "pass", 1.0)
FAILED = samples.check("p.tail", "Tail", "fail", counterexample=Counterexample({"N": 1}, "N=1", TOKEN))
UNDONE, DONE = (Progress("begun"), Progress("begun")), (Progress("done"), Progress("begun"))


def record(*checks: object) -> Record:
    return samples.record(tuple(checks), ())  # type: ignore[arg-type]


def after(*events: Event, start: State | None = None) -> State:
    state = start or State(SUBJECT, UNDONE)
    for event in events:
        state, _ = step(state, event)
    return state


def failing() -> State:
    return after(Saved("a"), Graded(1, record(PASSED, FAILED), 3, UNDONE))


def letters(state: State) -> str:
    return "".join(key for key, _ in keys(state))


def test_a_save_is_graded_at_once() -> None:
    state, actions = step(State(SUBJECT), Saved("a"))
    assert state.phase == "checking"
    assert actions == (Grade(1, "a"),)


def test_what_failed_the_last_time_is_asked_for_first() -> None:
    _, actions = step(failing(), Saved("b"))
    assert actions == (Grade(2, "b", frozenset({"p.tail"})),)


def test_another_save_takes_the_place_of_the_run_that_is_going_on() -> None:
    state, actions = step(after(Saved("a"), Begun(1, 2), CheckDecided(1, PASSED)), Saved("b"))
    assert (state.run, state.results, state.total) == (2, (), 0)
    assert actions == (Grade(2, "b"),)


def test_the_same_text_saved_again_does_not_start_over_what_is_running() -> None:
    before = after(Saved("a"), CheckDecided(1, PASSED))
    assert step(before, Saved("a")) == (before, ())


def test_the_same_text_saved_again_later_is_graded_again() -> None:
    _, actions = step(failing(), Saved("a"))
    assert actions[0] == Grade(2, "a", frozenset({"p.tail"}))


@pytest.mark.parametrize(
    "late",
    [Begun(1, 9), CheckDecided(1, FAILED), Graded(1, record(FAILED), 1, UNDONE), TextShown(1, "x"), Broke(1, "x")],
)
def test_what_an_earlier_run_still_says_is_not_heard(late: Event) -> None:
    state = after(Saved("a"), Saved("b"))
    assert step(state, late) == (state, ())


def test_results_come_one_by_one_and_the_record_ends_the_run() -> None:
    running = after(Saved("a"), Begun(1, 2), CheckDecided(1, PASSED), CheckDecided(1, FAILED))
    assert (running.total, [check.id for check in running.results]) == (2, ["p.full", "p.tail"])
    rested = after(Graded(1, record(PASSED, FAILED), 3, UNDONE), start=running)
    assert (rested.phase, rested.results, rested.attempts) == ("resting", (), 3)


def test_a_file_that_is_gone_calls_off_the_run_and_is_waited_for() -> None:
    state, actions = step(after(Saved("a")), Unreadable("there is no file"))
    assert actions == (Cancel(),)
    assert (state.phase, state.trouble) == ("waiting", "there is no file")
    assert after(Saved("b"), start=state).trouble == ""


def test_while_something_runs_keys_do_nothing_now_or_later() -> None:
    running = after(Saved("a"))
    assert letters(running) == "q"
    for key in "hlcrpxon":
        assert step(running, Pressed(key)) == (running, ())


def test_q_leaves_and_ends_what_runs() -> None:
    for state in (State(SUBJECT), after(Saved("a")), failing()):
        assert step(state, Pressed("q"))[1] == (Cancel(), Do("quit"))


def test_hints_come_one_level_at_a_time_for_the_part_that_fails_first() -> None:
    state = failing()
    for shown in (("vague",), ("vague", "clearer"), ("vague", "clearer", "plain")):
        state = after(Pressed("h"), start=state)
        assert shown_hints(state) == shown
    assert "h" not in letters(state)
    assert after(Pressed("h"), start=state) == state


def test_hints_stay_until_something_else_fails_first() -> None:
    hinted = after(Pressed("h"), start=failing())
    again = after(Saved("b"), Graded(2, record(FAILED), 4, UNDONE), start=hinted)
    assert again.hint == 1
    other = replace(FAILED, id="q.tail", part="q")
    assert after(Saved("c"), Graded(3, record(other), 4, UNDONE), start=again).hint == 0


def test_what_was_tried_and_failed_comes_before_what_is_not_written_yet() -> None:
    missing = samples.check("o.full", "Full", "not_implemented")
    state = after(Saved("a"), Graded(1, record(missing, FAILED), 1, UNDONE))
    assert state.first_failing == FAILED


def test_n_is_there_only_when_this_exercise_is_done() -> None:
    assert "n" not in letters(failing())
    done = after(Saved("a"), Graded(1, record(PASSED), 1, DONE))
    assert letters(done)[0] == "n"
    assert step(done, Pressed("n"))[1] == (Do("next"),)


def test_p_replays_the_first_failing_case_and_shows_it_below_the_result() -> None:
    state, actions = step(failing(), Pressed("p"))
    assert actions == (ReplayCase(2, "a", TOKEN),)
    shown = after(TextShown(2, "the case again"), start=state)
    assert (shown.phase, shown.panel) == ("resting", "the case again")
    assert shown.record == failing().record


def test_without_a_failing_case_there_is_nothing_to_replay() -> None:
    passed = after(Saved("a"), Graded(1, record(PASSED), 1, UNDONE))
    assert "p" not in letters(passed)


def test_reset_asks_first_and_only_y_means_yes() -> None:
    asking = after(Pressed("x"), start=failing())
    assert asking.phase == "asking"
    assert step(asking, Pressed("y"))[1] == (Do("reset"),)
    for key in "nqh":
        state, actions = step(asking, Pressed(key))
        assert (state.phase, actions) == ("resting", ())


def test_a_file_that_is_gone_can_be_brought_back() -> None:
    gone = after(Unreadable("there is no file"))
    assert step(after(Pressed("x"), start=gone), Pressed("y"))[1] == (Do("reset"),)
    assert after(Pressed("x"), Pressed("n"), start=gone).phase == "waiting"


def test_c_grades_everything_and_r_the_file_again() -> None:
    assert step(failing(), Pressed("c"))[1] == (GradeAll(2),)
    assert step(failing(), Pressed("r"))[1] == (Grade(2, "a", frozenset({"p.tail"})),)


def test_of_all_exercises_the_checks_are_counted_together() -> None:
    running = after(Pressed("c"), Begun(2, 38), CheckDecided(2, PASSED), Begun(2, 21), start=failing())
    assert (running.total, len(running.results)) == (59, 1)


def test_a_fault_of_ours_ends_the_run_with_a_sentence() -> None:
    state = after(Saved("a"), Broke(1, "the grader failed"))
    assert (state.phase, state.notice) == ("resting", "the grader failed")


def test_what_was_told_is_there_until_a_key_is_pressed() -> None:
    told = after(StatusLine("Your file: x.bak"), Saved("b"), Graded(2, record(PASSED), 1, UNDONE), start=failing())
    assert told.notice == "Your file: x.bak"
    assert after(Pressed("l"), start=told).notice == ""


def test_that_the_file_is_polled_is_remembered() -> None:
    assert after(Polls(), Saved("a")).polls
