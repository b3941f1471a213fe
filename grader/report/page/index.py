"""Render the course as one page: each exercise's progress and scorecard, and points by objective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.record.checks import CheckResult
from grader.record.statuses import UNJUDGED
from grader.report import view
from grader.report.page.templates import page_environment
from grader.report.status import StatusMark, Tone
from grader.text import disarmed_markup


@dataclass(frozen=True)
class ExerciseRow:
    """One exercise.

    state, words: the learner's progress. card: the scorecard's file beside this page, or ''. checks: the results behind
    the progress. objectives: what all checks of the exercise are evidence for.
    """

    id: str
    title: str
    state: str
    words: str
    file: str
    card: str
    attempts: int
    checks: tuple[CheckResult, ...] = ()
    objectives: tuple[str, ...] = ()

    @property
    def sums(self) -> view.Tally:
        """Return the exercise's points, or none without a record."""
        return view.tally(self.checks)

    @property
    def look(self) -> StatusMark:
        """Return the mark of the exercise's state."""
        return _LOOKS.get(self.state, _OPEN)


def _look(symbol: str, ascii_symbol: str, word: str, tone: Tone) -> StatusMark:
    return StatusMark(symbol, ascii_symbol, word, tone)


_OPEN = _look("○", "o", "open", "todo")
_LOOKS = {
    "done": _look("✓", "+", "done", "good"),
    "begun": _look("◐", "/", "begun", "part"),
    "changed": _look("↻", "~", "changed since", "part"),
    "no file": _look("!", "!", "no file", "bad"),
    "not started": _look("○", "o", "not started", "todo"),
    "not graded": _look("○", "o", "not graded", "todo"),
}


@dataclass(frozen=True)
class Goal:
    """A line of the success checklist: a learning objective over all exercises.

    counted: how many of the checks that were judged passed, as words.
    """

    name: str
    exercises: tuple[str, ...]
    look: StatusMark
    counted: str
    sums: view.Tally


def render(rows: Sequence[ExerciseRow]) -> str:
    """Return the whole page: self-contained, without a script, with links to the scorecards beside it."""
    environment = page_environment()
    environment.filters.update(
        {
            "line": lambda text, most=400: view.line(text, most),
            "points": view.points,
            "sums": view.tally_points,
        }
    )
    sums = view.tally(check for row in rows for check in row.checks)
    done = sum(row.state == "done" for row in rows)
    page = environment.get_template("index.html.j2").render(
        rows=rows, done=done, goals=goals(rows), headline=_headline(rows, sums, done)
    )
    return disarmed_markup(page)


def _headline(rows: Sequence[ExerciseRow], sums: view.Tally, done: int) -> str:
    text = f"{done} of {len(rows)} exercises done; {view.points(sums.earned)} of {view.points(sums.judged)} points"
    text += " that could be judged here"
    return f"{text}; not judged: {view.points(sums.unjudged)}." if sums.unjudged else f"{text}."


_PASSED = _look("✓", "+", "passed", "good")
_PARTLY = _look("◐", "/", "in part", "part")
_UNJUDGED = _look("–", "-", "not judged here", "quiet")


def goals(rows: Sequence[ExerciseRow]) -> tuple[Goal, ...]:
    """Return the success checklist: every objective of the course, in its order."""
    named = [(row, (*row.objectives, *(check.objective for check in row.checks))) for row in rows]
    names = dict.fromkeys(name for _, objectives in named for name in objectives)
    return tuple(_goal(name, [row for row, objectives in named if name in objectives]) for name in names)


def _goal(name: str, rows: Sequence[ExerciseRow]) -> Goal:
    groups = [[check for check in row.checks if check.objective == name] for row in rows]
    checks = [check for group in groups for check in group]
    counted = view.counted(checks) if checks else ""
    return Goal(name, tuple(row.id for row in rows), _ticked(groups), counted, view.tally(checks))


def _ticked(groups: Sequence[Sequence[CheckResult]]) -> StatusMark:
    """Return a goal's mark. groups: its checks by exercise; empty for an exercise without a record."""
    judged = [[check.status == "pass" for check in group if check.status not in UNJUDGED] for group in groups]
    if all(groups) and not any(judged):
        return _UNJUDGED
    if not any(map(any, judged)):
        return _OPEN
    return _PASSED if all(groups) and all(map(all, judged)) else _PARTLY
