"""Render the course as one page: each exercise's progress and scorecard, and points by objective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from grader.record import CheckResult
from grader.report import view
from grader.report.status import StatusMark, Tone
from grader.text import disarmed_markup


@dataclass(frozen=True)
class ExerciseRow:
    """One exercise.

    state, words: the learner's progress. card: the scorecard's file beside this page, or ''. checks: the results behind
    the progress.
    """

    id: str
    title: str
    state: str
    words: str
    file: str
    card: str
    attempts: int
    checks: tuple[CheckResult, ...] = ()

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
class ObjectiveRow:
    """A learning objective over all exercises."""

    name: str
    exercises: tuple[str, ...]
    sums: view.Tally


def render(rows: Sequence[ExerciseRow]) -> str:
    """Return the whole page: self-contained, without a script, with links to the scorecards beside it."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
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
        rows=rows, sums=sums, done=done, objectives=_objectives(rows), headline=_headline(rows, sums, done)
    )
    return disarmed_markup(page)


def _headline(rows: Sequence[ExerciseRow], sums: view.Tally, done: int) -> str:
    text = f"{done} of {len(rows)} exercises done; {view.points(sums.earned)} of {view.points(sums.judged)} points"
    text += " that could be judged here"
    return f"{text}, {view.points(sums.unjudged)} more were not judged." if sums.unjudged else f"{text}."


def _objectives(rows: Sequence[ExerciseRow]) -> tuple[ObjectiveRow, ...]:
    checks: dict[str, list[CheckResult]] = {}
    exercises: dict[str, dict[str, None]] = {}
    for row in rows:
        for check in row.checks:
            checks.setdefault(check.objective, []).append(check)
            exercises.setdefault(check.objective, {})[row.id] = None
    return tuple(ObjectiveRow(name, tuple(exercises[name]), view.tally(found)) for name, found in checks.items())
