"""Test the loop's screen, and the text that draws it on a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.progress import Progress
from grader.record.causes import Counterexample
from grader.record.checks import CheckResult
from grader.watch.screen import Paper, Screen, draw, paint, plain
from grader.watch.state import (
    CheckDecided,
    Graded,
    Pressed,
    Saved,
    State,
    TextShown,
    Unreadable,
    WatchedExercise,
    keys,
    step,
)
from tests.records import samples
from tests.watch.test_state import FAILED, PASSED, SUBJECT, UNDONE, after, failing, record

PLAIN = Paper(width=80)
DONE = (Progress("done"), Progress("begun"))


def text(screen: Screen) -> str:
    return screen.body + "\n".join(screen.footer)


def test_before_anything_slow_the_file_is_named() -> None:
    assert draw(State(SUBJECT), PLAIN).body.startswith("Checking /learner/ex_1.py")
    assert draw(after(Saved("a")), PLAIN).body.startswith("Checking /learner/ex_1.py  sha256 ca978112ca1b")


def test_results_are_appended_so_that_nothing_flickers() -> None:
    one, two = (
        after(Saved("a"), CheckDecided(1, PASSED)),
        after(Saved("a"), CheckDecided(1, PASSED), CheckDecided(1, FAILED)),
    )
    before, now = draw(one, PLAIN), draw(two, PLAIN)
    sent = paint(before, now)
    assert "\x1b[2J" not in sent
    assert sent.count("Tail") == 1
    assert "Full" not in sent


def test_another_text_clears_the_screen() -> None:
    sent = paint(draw(after(Saved("a")), PLAIN), draw(after(Saved("a"), Saved("b")), PLAIN))
    assert sent.startswith("\x1b[H\x1b[2J")


def test_nothing_is_sent_when_nothing_changed() -> None:
    screen = draw(failing(), PLAIN)
    assert paint(screen, screen) == ""


def test_going_back_over_the_footer_is_as_far_as_the_footer_is_high() -> None:
    sent = paint(Screen("a\n", ("", "b", "c")), Screen("a\nx\n", ("", "d")))
    assert sent == "\r\x1b[2A\x1b[Jx\n\nd"


@pytest.mark.parametrize("width", [20, 40, 80, 120])
@pytest.mark.parametrize("polls", [True, False])
def test_no_line_of_the_footer_is_as_wide_as_the_terminal(width: int, polls: bool) -> None:
    asking, _ = step(failing(), Pressed("x"))
    for state in (State(SUBJECT, UNDONE), after(Saved("a")), failing(), asking):
        shown = replace(state, polls=polls, notice="Your file: /a/rather/long/path/to/a/backup.py.bak")
        assert all(len(line) < width for line in draw(shown, Paper(width=width)).footer)


def test_the_keys_are_on_every_screen_and_only_where_there_are_keys() -> None:
    for state in (State(SUBJECT), after(Saved("a")), failing()):
        assert "q quit" in draw(state, PLAIN).footer[-1]
        assert "q quit" not in text(draw(state, replace(PLAIN, keys=False)))


def test_without_colour_there_is_no_escape_and_without_unicode_no_other_letter() -> None:
    state = after(Pressed("h"), start=failing())
    shown = text(draw(state, Paper(width=60, ascii_only=True)))
    assert "\x1b" not in shown
    assert shown.isascii()


def test_what_a_path_holds_cannot_steer_the_terminal() -> None:
    subject = WatchedExercise("ex_1", "T", "/learner/\x1b[2J\nevil.py", {}, ("ex_1",))
    assert "\x1b" not in text(draw(State(subject), PLAIN))


def test_the_card_of_what_fails_first_is_shown_and_the_other_parts_take_a_line() -> None:
    other = samples.check("q.full", "Of another part", "fail")
    shown = draw(after(Saved("a"), Graded(1, record(FAILED, other), 1, UNDONE)), PLAIN).body
    assert "Tail" in shown
    assert "Of another part" not in shown
    assert "Replay" in shown


def unwritten(part: str) -> CheckResult:
    return samples.check(
        f"{part}.full", "Full", "not_implemented", reason=f"NotImplementedError (line 9): {part}: a kernel"
    )


def test_a_part_that_is_not_written_takes_a_line_and_the_next_one_is_named() -> None:
    state = after(Saved("a"), Graded(1, record(PASSED, unwritten("q"), unwritten("r")), 1, UNDONE))
    shown = draw(state, PLAIN).body
    assert shown.count("not implemented") == 2
    assert "Next: write q (line 9): a kernel" in shown


def test_a_part_that_has_just_passed_shows_its_checks_once() -> None:
    first = after(Saved("a"), Graded(1, record(FAILED, unwritten("q")), 1, UNDONE))
    passed = replace(FAILED, status="pass", counterexample=None)
    second = after(Saved("b"), Graded(2, record(passed, unwritten("q")), 1, UNDONE), start=first)
    assert "Tail" in draw(second, PLAIN).body
    third = after(Saved("c"), Graded(3, record(passed, unwritten("q")), 1, UNDONE), start=second)
    assert "Tail" not in draw(third, PLAIN).body


def test_a_part_does_not_pass_again_behind_a_file_that_did_not_load() -> None:
    first = after(Saved("a"), Graded(1, record(FAILED), 1, UNDONE))
    passed = replace(FAILED, status="pass", counterexample=None)
    broken = replace(FAILED, status="invalid_submission", counterexample=None)
    state = first
    for run, check in enumerate((passed, broken, passed), 2):
        state = after(Saved(str(run)), Graded(run, record(check), 1, UNDONE), start=state)
    assert state.just_passed == frozenset()


@pytest.mark.parametrize("width", [60, 80])
def test_names_are_not_cut_in_the_middle(width: int) -> None:
    title = "Right for lengths that do not fill the last block of a row"
    long = replace(FAILED, id="long_part_name.tail", part="long_part_name", title=title)
    running = after(Saved("a"), CheckDecided(1, long))
    said = draw(running, Paper(width=width)).body.splitlines()[-1]
    shown = said.partition("long_part_name: ")[2].partition("…")[0]
    assert f"{title} ".startswith(f"{shown} ")


def test_a_replay_command_can_be_copied_from_a_narrow_screen() -> None:
    token = "ex_1:p.tail:N=1,dtype=float32,values=normal,offset=0,other=12345678:0xf6d767fe"
    long = replace(FAILED, counterexample=Counterexample({"N": 1}, "N=1", token))
    shown = draw(after(Saved("a"), Graded(1, record(long), 1, UNDONE)), Paper(width=60)).body
    assert f"grade replay {token}" in [line.strip() for line in shown.splitlines()]


def test_attempts_are_counted_on_the_screen_and_a_hint_is_offered_after_some() -> None:
    assert "attempt 3; stuck? h gives a hint" in " ".join(draw(failing(), PLAIN).footer)
    assert "stuck" not in " ".join(draw(after(Pressed("h"), start=failing()), PLAIN).footer)


def test_a_done_exercise_says_where_the_model_solution_is_if_there_is_one() -> None:
    done = after(Saved("a"), Graded(1, record(PASSED), 1, DONE))
    assert "grade solution ex_1" in draw(done, PLAIN).body
    bundle = replace(done, subject=replace(SUBJECT, has_solution=False))
    assert "grade solution" not in draw(bundle, PLAIN).body


def test_somebody_elses_file_is_not_done_because_the_learners_own_is() -> None:
    other = State(replace(SUBJECT, is_own=False), UNDONE)
    shown = after(Saved("a"), Graded(1, record(PASSED), 1, DONE), start=other)
    assert "Done." not in draw(shown, PLAIN).body
    assert ("n", "next") not in keys(shown)


def test_a_missing_file_is_all_there_is_to_see() -> None:
    shown = draw(after(Unreadable("there is no file"), start=failing()), PLAIN).body
    assert shown == "there is no file\n"


def test_a_log_gets_each_thing_once_the_result_apart_from_the_progress() -> None:
    start = State(SUBJECT, UNDONE)
    running = after(Saved("a"), start=start)
    assert plain(start, running, PLAIN) == ("", "Checking /learner/ex_1.py  sha256 ca978112ca1b …\n")
    heard = after(CheckDecided(1, PASSED), start=running)
    result, progress = plain(running, heard, PLAIN)
    assert result == ""
    assert progress.count("\n") == 1
    graded = after(Graded(1, record(PASSED, FAILED), 3, UNDONE), start=heard)
    result, progress = plain(heard, graded, PLAIN)
    assert progress == ""
    assert "Tail" in result
    assert "attempt 3" in result
    assert plain(graded, graded, PLAIN) == ("", "")


def test_what_a_key_asked_for_stands_below_the_result() -> None:
    state = after(TextShown(1, "ex_1 and ex_2\n"), start=failing())
    assert draw(state, PLAIN).body.endswith("\nex_1 and ex_2\n")


def test_a_counterexample_is_shown_with_its_token() -> None:
    long = replace(FAILED, counterexample=Counterexample({"N": 1}, "N=1", "ex_1:p.tail:N=1:0x5f"))
    assert "ex_1:p.tail:N=1:0x5f" in draw(after(Saved("a"), Graded(1, record(long), 1, UNDONE)), PLAIN).body


def test_what_a_key_asks_for_stands_in_place_of_the_hints() -> None:
    hinted = replace(failing(), hint=1)
    assert "Hint 1 of 3" in draw(hinted, PLAIN).body
    asked = draw(replace(hinted, panel="the case again"), PLAIN).body
    assert "the case again" in asked
    assert "Hint 1 of 3" not in asked
