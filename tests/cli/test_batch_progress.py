"""What is shown while a class is graded: a line per grading, or a table that keeps itself up to date."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from grader.batch.result_key import Terms
from grader.batch.store import JournalLine
from grader.batch.work import Task
from grader.cli.batch_progress import Board, LiveTable, clock, eta_s, progress_board, told

TASK = Task("k1", "ex_15_triton_basics", "x = 1", "0x5f", Terms(), "")
LINE = JournalLine("2026-11-02T10:00:00Z", "ada", "ex_15", "k1", "pass", 75.0, 75.0, 5.53)


def test_what_is_left_follows_from_what_is_done() -> None:
    assert eta_s(30.0, 3, 12) == 90.0
    assert eta_s(30.0, 0, 12) is None
    assert [clock(seconds) for seconds in (None, 5, 65, 7265)] == ["–", "0:05", "1:05", "2:01:05"]


def test_a_line_counts_who_handed_in_the_same_and_how_often_it_was_tried() -> None:
    assert told([LINE]) == "ada  ex_15  passed  75/75  5.5 s"
    again = JournalLine(**{**vars(LINE), "attempts": 2})
    assert told([again, LINE, LINE]) == "ada and 2 more  ex_15  passed  75/75  5.5 s (given out 2 times)"


def test_a_lost_last_worker_is_said_once_and_at_once_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_board(12, 3, quiet=False, advice="start one") as shown:
        for places in (2, 0, 0, 1, 0):
            shown.waited(places)
    said = "no worker is left, 12 are still to grade; start one"
    assert capsys.readouterr().err.splitlines()[1:] == [said, said]
    table = LiveTable(12, 3, "start one")
    table.started(TASK)
    table.waited(0)
    console = Console(file=io.StringIO(), width=100)
    console.print(table._shown())
    assert "no worker is left; start one" in console.file.getvalue()  # type: ignore[attr-defined]


def test_elsewhere_than_on_a_terminal_every_grading_is_a_plain_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_board(12, 3, quiet=False) as shown:
        shown.started(TASK)
        shown.graded([LINE])
    assert type(shown) is Board
    first, second = capsys.readouterr().err.splitlines()
    assert first == "12 to grade, 3 as before; starting workers …"
    assert second.startswith("[ 1/12] ada  ex_15  passed  75/75  5.5 s  left 0:0")


def test_quiet_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_board(12, 3, quiet=True) as shown:
        shown.started(TASK)
        shown.graded([LINE])
    assert capsys.readouterr().err == ""


def test_the_table_has_what_runs_what_came_out_and_how_many_work() -> None:
    table = LiveTable(12, 3)

    def page() -> str:
        console = Console(file=io.StringIO(), width=120)
        console.print(table._shown())
        return console.file.getvalue()  # type: ignore[attr-defined]

    assert "waiting for workers" in page()
    table.started(TASK)
    table.waited(2)
    assert "ex_15_triton_basics" in page()
    table.graded([LINE])
    shown = page()
    assert "1 of 12, 3 as before" in shown
    assert "2 at a time" in shown
    assert "1 passed" in shown
    assert "ada  ex_15  passed" in shown
    assert "ex_15_triton_basics" not in shown
