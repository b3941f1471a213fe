"""The terminal's text: short, complete, and safe whatever a submission made the record say."""

from __future__ import annotations

import dataclasses
import re

import pytest

from grader.record.causes import Cause, Counterexample, Mismatch, Neighbour, Suspect
from grader.record.record import PrintedOutput, Record
from grader.record.verdicts import headline
from grader.report import view
from grader.report.status import LOOKS
from grader.report.text import terminal
from tests.records import flat, samples, widest
from tests.report.test_html import loading_error


def test_a_failing_run_names_the_file_the_cause_the_case_and_the_replay() -> None:
    text = flat(terminal.render(samples.failing()))

    assert "/home/ada/course/exercises/ex_15_triton_basics.py sha256 51ab12cd34ef" in text
    assert "✗ Right for rows that do not fill a block — wrong only in the last, partly filled tile" in text
    assert "Smallest failing case: M=24, N=1025, float32; passes for M=24, N=1024" in text
    assert "120 of 24600 elements of p differ (0.5%), only at the end (BLOCK=1024)" in text
    assert "[0, 1024] 0.25 1.75 1.19e-07" in text
    assert "░░░░░░░░░░░█" in text
    assert "Replay: grade replay ex_15:row_softmax.tail:0x5f" in text


def suspected(*suspects: Suspect) -> Record:
    """The failing sample with these suspects on the card of its first cause."""
    record = samples.failing()
    changed = [
        dataclasses.replace(one, cause=dataclasses.replace(one.cause, suspects=suspects))
        if one.id == "row_softmax.tail" and one.cause
        else one
        for one in record.checks
    ]
    return dataclasses.replace(record, checks=tuple(changed))


def test_a_card_says_what_speaks_for_its_cause_and_what_else_it_may_be() -> None:
    guess = Suspect("missing_mask", "Looks like a mask", "All 2 failing cases are ragged.", "Which lanes?")
    other = Suspect("padding_counted", "Looks like padding that counts", "Rows are wrong.", "What value?")
    text = flat(terminal.render(suspected(guess, other)))

    assert "Because: All 2 failing cases are ragged. Also possible: looks like padding that counts" in text
    assert "Confirmed: All 2" in flat(terminal.render(suspected(dataclasses.replace(guess, confirmed=True))))
    assert "Also possible" not in flat(terminal.render(suspected(guess)))


def test_the_headline_stands_before_the_next_command() -> None:
    for record in (samples.passing(), samples.failing(), samples.untouched()):
        text = flat(terminal.render(record))

        assert f"{headline(record)} Next: " in text


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("failing", "grade replay ex_15:row_softmax.tail:0x5f"),
        ("untouched", "write vector_add in /home/ada/course/exercises/ex_15_triton_basics.py, then: grade ex_15"),
        ("passing", "grade list"),
        ("without_parts", "see what this machine lacks: grade doctor"),
    ],
)
def test_the_last_words_are_the_next_command(name: str, command: str) -> None:
    assert flat(terminal.render(getattr(samples, name)())).endswith(command)


def test_checks_that_stopped_for_the_same_reason_say_so_once() -> None:
    text = terminal.render(samples.untouched())

    assert text.count("vector_add raises NotImplementedError") == 1
    assert text.count("○  not implemented  all its checks") == 4


def test_checks_that_fail_for_one_cause_share_a_card() -> None:
    cause = samples.vector_mismatch()
    checks = tuple(
        samples.check(
            f"vector_add.{name}",
            f"Right for {name}",
            "fail",
            cause=cause,
            counterexample=Counterexample({}, f"N={name}", "t"),
        )
        for name in ("tails", "slices")
    )
    text = flat(terminal.render(samples.record(checks, (samples.VECTOR_ADD,))))

    assert text.count("Elements 0 to 63 agree") == 1
    assert "Alike: Right for slices" in text
    assert "Replay: grade replay t" in text


def test_one_failure_fits_on_one_screen() -> None:
    cause = samples.tail_mismatch()
    names = ("full", "tail", "values", "slices", "fresh", "kernels", "launches")
    parts = (samples.VECTOR_ADD, samples.CHAIN, samples.SOFTMAX, samples.SUM)
    checks = tuple(
        samples.check(f"{part.name}.{name}", f"Right for {name}", points=1)
        if (part, name) != (samples.SOFTMAX, "tail")
        else samples.check(
            f"{part.name}.{name}",
            "Right for tails",
            "fail",
            cause=cause,
            counterexample=Counterexample({}, "N=65", "t", "N=64"),
        )
        for part in parts
        for name in names
    ) + tuple(
        samples.check(f"{part.name}.speed", "Speed", "skipped_environment", reason=samples.NO_GPU) for part in parts
    )

    assert len(terminal.render(samples.record(checks, parts)).splitlines()) <= 44


def test_a_check_of_an_unlisted_part_is_shown_all_the_same() -> None:
    checks = (samples.check("file", "The file can be graded", "invalid_submission", reason="Line 3: invalid syntax."),)

    assert "Line 3: invalid syntax." in terminal.render(samples.record(checks, ()))


def test_what_the_machine_lacks_is_said_once() -> None:
    parts = (samples.VECTOR_ADD, samples.SUM)
    checks = tuple(
        samples.check(f"{part.name}.speed", "Speed", "skipped_environment", reason=samples.NO_GPU) for part in parts
    )

    assert terminal.render(samples.record(checks, parts)).count(samples.NO_GPU) == 1


def test_every_status_is_a_word_beside_its_symbol() -> None:
    text = terminal.render(samples.every_status())

    for look in LOOKS.values():
        assert re.search(rf"^ +{re.escape(look.symbol)}  {look.word} ", text, re.MULTILINE), look


def test_ascii_is_only_ascii_and_keeps_every_symbol_apart() -> None:
    text = terminal.render(samples.every_status(), ascii_only=True) + terminal.render(
        samples.failing(), ascii_only=True
    )

    assert text.isascii()
    assert "  x  failed " in text
    assert "...........#" in text


def test_without_colour_there_is_no_escape_and_with_colour_the_words_are_the_same() -> None:
    plain, coloured = terminal.render(samples.failing()), terminal.render(samples.failing(), colour=True)

    assert "\x1b" not in plain
    assert "\x1b[" in coloured
    assert flat(re.sub("\x1b\\[[0-9;]*m", "", coloured)) == flat(plain)


def test_the_environment_of_the_process_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = terminal.render(samples.failing())
    for name, value in (("COLUMNS", "40"), ("FORCE_COLOR", "1"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)

    assert terminal.render(samples.failing()) == before


@pytest.mark.parametrize("width", [40, 63, 100, 200])
def test_no_line_is_wider_than_asked(width: int) -> None:
    for record in (samples.failing(), samples.passing(), samples.untouched(), samples.every_status()):
        assert widest(terminal.render(record, width=width)) <= width


@pytest.mark.parametrize("width", [20, 40, 60, 200])
def test_a_command_is_one_line_that_can_be_copied_at_any_width(width: int) -> None:
    lines = [line.strip() for line in terminal.render(samples.failing(), width=width).splitlines()]
    command = "grade replay ex_15:row_softmax.tail:0x5f"

    assert sum(line.endswith(command) for line in lines) == 2
    assert (f"Replay: {command}" in lines) == (width >= 60)


def test_a_narrow_terminal_has_the_word_before_the_title_and_the_device_on_a_line_of_its_own() -> None:
    lines = terminal.render(samples.failing(), width=40).split("\n")

    assert lines[:2] == ["Triton basics  ex_15", "interpreter on the CPU, no GPU used"]
    assert "✗  failed: Right for rows that do    0/5" in lines


def test_no_number_of_a_difference_is_cut() -> None:
    wide, narrow, slim = (terminal.render(samples.failing(), width=width) for width in (60, 56, 40))

    assert "      [0, 1024]            0.25            1.75   1.19e-07\n" in wide
    assert "      [0, 1024]            0.25            1.75\n" in narrow
    assert "[1, 1024]: expected 0.00097560979, got 0.00097560988" in flat(slim)


@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_hostile_text_reaches_the_terminal_without_control_characters(colour: bool, ascii_only: bool) -> None:
    text = terminal.render(samples.hostile(), colour=colour, ascii_only=ascii_only)

    assert not re.search("[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    assert not re.search("\x1b(?!\\[[0-9;]*m)", text)
    assert "[bold red]x[/]" in flat(text)


@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("width", [30, 57, 100])
def test_no_line_is_a_workflow_command(width: int, colour: bool) -> None:
    text = re.sub("\x1b\\[[0-9;]*m", "", terminal.render(samples.hostile(), width=width, colour=colour))

    assert not [entry for entry in text.splitlines() if entry.lstrip().startswith("::")]
    assert "##[" not in text


def test_printed_output_is_cut_in_the_middle_and_the_cut_is_announced() -> None:
    text = flat(terminal.render(samples.failing()))

    assert "Your code printed 98,000 bytes (94,000 of them are not in the record)" in text
    assert "│ row 2: max=1.25 … 34 lines cut … │ row 37: max=1.25" in text


def test_a_wrapped_line_of_the_submission_stays_behind_its_bar() -> None:
    printed = PrintedOutput("100 of 100 points " * 8, 144, 0)
    text = terminal.render(dataclasses.replace(samples.passing(), printed=printed), width=60)

    assert all("│" in entry for entry in text.splitlines() if "100 of 100" in entry)


def test_very_long_text_is_cut_and_says_so() -> None:
    text = terminal.render(samples.hostile("word " * 100_000))

    assert len(text) < 40_000
    assert "characters cut …" in flat(text)


def test_differences_show_enough_digits_to_differ() -> None:
    assert view.pair(1.0, 1.0 + 2**-52) == ("1", "1.0000000000000002")
    assert view.pair(0.25, 1.75) == ("0.25", "1.75")
    assert view.pair("inf", "nan") == ("inf", "nan")


@pytest.mark.parametrize(
    ("count", "words"), [(1, "under 0.1%"), (9_999, "99.9%"), (10_000, "100%"), (0, "0%"), (1234, "12.3%")]
)
def test_a_percentage_is_whole_only_when_everything_is_meant(count: int, words: str) -> None:
    assert view.share(count, 10_000) == words


def test_a_pass_with_unjudged_checks_never_claims_everything() -> None:
    checks = (
        samples.check("vector_add.tail", "Right", points=1),
        samples.check("vector_add.speed", "Fast", "skipped_environment", reason=samples.NO_GPU),
    )
    record = samples.record(checks, (samples.VECTOR_ADD,))

    assert view.verdict_words(record) == "passed, as far as judged here"
    assert view.next_step(record).words == "see what is left to do"


@pytest.mark.parametrize("ascii_only", [False, True])
def test_progress_is_one_line_of_the_asked_width(ascii_only: bool) -> None:
    for check in (*samples.failing().checks, *samples.hostile("long title\n" * 900).checks):
        text = terminal.render_check(check, width=60, ascii_only=ascii_only)

        assert "\n" not in text
        assert len(text) <= 60
        assert LOOKS[check.status].word in text


def test_progress_in_a_narrow_terminal_keeps_the_beginning_of_the_part() -> None:
    long = dataclasses.replace(samples.failing().checks[0], part="fused_multiply_add")
    for width in range(1, 70):
        # Colours, too: rich fails on a style that outlives its text.
        terminal.render_check(long, width=width, colour=True)
    assert "fused_m…" in terminal.render_check(long, width=40)


def one_case(**changes: object) -> Record:
    """A record of one case that failed, with its inputs and the elements around the worst one."""
    mismatch = Mismatch(
        "z",
        1,
        9,
        1.0,
        1.0,
        (7,),
        "tail",
        (),
        around=(
            Neighbour((6,), 1.5, 1.5, is_wrong=False, inputs={"x": 1.0, "y": 0.5}),
            Neighbour((7,), 3.0, 4.0, is_wrong=True, inputs={"x": 2.0, "y": 1.0}),
        ),
    )
    cause = Cause(
        "tail", "Looks like a tail", "z: 1 of 9 elements wrong.", mismatch=mismatch, inputs=("x [9] float32",)
    )
    check = samples.check("vector_add.tail", "Right at the end", "fail", cause=cause)
    return samples.record((dataclasses.replace(check, **changes),), (samples.VECTOR_ADD,))  # type: ignore[arg-type]


def test_a_case_that_is_run_again_shows_its_inputs_and_the_elements_around_the_worst_one() -> None:
    rows = [
        "Inputs: x [9] float32",
        "Around the worst element, z[7]:",
        "index   x     y   expected   got",
        "  [6]   1   0.5        1.5   1.5",
        "✗     [7]   2     1          3     4",
    ]
    for shown in (terminal.render_case(one_case()), terminal.render(one_case(), one_case=True)):
        assert [row for row in rows if row not in shown] == []
    assert "Around" not in terminal.render(one_case())


def test_a_narrow_terminal_leaves_out_inputs_and_cuts_no_number() -> None:
    shown = terminal.render_case(one_case(), width=38)
    assert "index   x   expected   got" in shown
    assert "index   expected   got" in terminal.render_case(one_case(), width=32)


def test_a_case_that_passes_now_says_that_the_others_were_not_run() -> None:
    shown = terminal.render_case(one_case(status="pass", cause=None))
    assert "This case passes now. The other cases were not run." in shown


def test_a_replay_names_the_file_and_the_mode_that_failed() -> None:
    record = dataclasses.replace(
        samples.failing(), command="grade ex_15 --submission 'my file.py' --part row_softmax --cpu"
    )
    example = Counterexample({"N": 65}, "N=65", "ex_15:row_softmax.tail:N=65:0x5f")

    wanted = "grade replay ex_15:row_softmax.tail:N=65:0x5f --submission 'my file.py' --cpu"
    assert view.replay_command(example, record) == wanted


def test_a_file_that_does_not_load_has_its_error_told_once_or_in_the_part_that_is_shown() -> None:
    record = loading_error()
    assert terminal.render(record).count("Fix this line first") == 1
    for part in record.parts:
        assert terminal.render(record, focus=part.name).count("Fix this line first") == 1
